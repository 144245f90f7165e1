"""Where the service is, and the connection to it: a Unix socket, or TLS with a token."""

from __future__ import annotations

import os

TYPE_CHECKING = False  # not from typing, which takes long to load

if TYPE_CHECKING:
    import socket
    import ssl
    from typing import Final

HOME: Final = "~/.warren/serve"
"""Default home folder of the service."""
AGENT_HOME: Final = "~/.warren/agent"
"""Default home folder of an agent of another machine."""
TOKEN_FILE: Final = "~/.warren/token"  # noqa: S105 - where it is, not what it is
"""File of the token for a service elsewhere."""
CONNECT_S: Final = 10.0
"""Longest time that a connection may take to be made, in seconds."""
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1", "[::1]")


class Address:
    """Where a service listens.

    ``path`` is that of a Unix socket; empty for TCP. ``pin`` is the SHA-256 of the certificate
    that the service must show, in hex; without it the certificate must be that of a known
    authority.
    """

    __slots__ = ("host", "path", "pin", "port", "text", "tls")

    def __init__(self, text: str) -> None:
        self.text: Final = text
        self.path = self.host = self.pin = ""
        self.port = 0
        self.tls = True
        scheme, separator, rest = text.partition("://")
        if separator:
            self._read_address(scheme, rest)
        elif "/" not in text.partition("#")[0] and ":" in text:
            self._read_address("https", text)
        else:
            path = os.path.expanduser(text)
            self.path = os.path.join(path, "socket") if os.path.isdir(path) else path

    def _read_address(self, scheme: str, rest: str) -> None:
        """Take host, port and pin from ``HOST:PORT#sha256=HEX``."""
        text = self.text
        rest, _, pin = rest.partition("#")
        host, _, port = rest.rstrip("/").rpartition(":")
        if scheme not in ("http", "https") or not host or not port.isdecimal() or "/" in host:
            raise refused(f"{text}: no address; write HOST:PORT, or the path of a socket")
        if scheme == "http" and host not in _LOOPBACK:
            raise refused(f"{text}: a token would be readable on its way; leave out http:")
        if pin:
            name, _, value = pin.partition("=")
            self.pin = value.replace(":", "").lower()
            if name != "sha256" or len(self.pin) != 64 or set(self.pin) - set("0123456789abcdef"):
                raise refused(f"{text}: a certificate is pinned by #sha256= and 64 hex digits")
        self.host, self.port, self.tls = host.strip("[]"), int(port), scheme == "https"


def address_of(server: str | None) -> Address:
    """Return the address of the service: the named one, else WARREN_SERVER, else the default."""
    return Address(server or os.environ.get("WARREN_SERVER") or f"{HOME}/socket")


def token_of() -> str:
    """Return the token for a service elsewhere: WARREN_TOKEN, else that of the file; or empty.

    Raises
    ------
    ServiceError
        If other accounts may read the file.
    """
    named = os.environ.get("WARREN_TOKEN")
    if named:
        return named.strip()
    path = os.path.expanduser(TOKEN_FILE)
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            if os.fstat(file.fileno()).st_mode & 0o077:
                raise refused(f"{path}: other accounts may read the token; run: chmod 600 {path}")
            return file.read().strip()
    except FileNotFoundError:
        return ""


def connect(address: Address) -> socket.socket:
    """Return a connection to the service.

    Raises
    ------
    ServiceError
        If nothing answers, or another machine than the pinned one; with the way out.
    """
    import socket

    try:
        if address.path:
            made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        else:
            made = socket.create_connection((address.host, address.port), CONNECT_S)
    except OSError as error:
        raise refused(_unreachable(address, error)) from error
    try:
        made.settimeout(CONNECT_S)
        if address.path:
            made.connect(address.path)
            return made
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # A machine that stops is noticed while a log is followed, too.
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return _secured(made, address) if address.tls else made
    except BaseException as error:
        made.close()
        if isinstance(error, OSError):
            raise refused(_unreachable(address, error)) from error
        raise


def _secured(plain: socket.socket, address: Address) -> ssl.SSLSocket:
    """Return a connection inside TLS, to the pinned service or one of a known authority."""
    import ssl

    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if address.pin:
        # The pin names the certificate itself, which says more than its name and its signature.
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    secured = context.wrap_socket(plain, server_hostname=address.host)
    if address.pin:
        import hashlib

        shown = hashlib.sha256(secured.getpeercert(binary_form=True) or b"").hexdigest()
        if shown != address.pin:
            secured.close()
            raise refused(
                f"{address.text}: another certificate than the pinned one (its sha256 is {shown}); "
                "ask an admin whether it was renewed"
            )
    return secured


def _unreachable(address: Address, error: OSError) -> str:
    """Return why no connection was made, and what to do."""
    place = address.text
    if isinstance(error, FileNotFoundError):
        return f"no service at {place}: start one with `warren serve`, or name one by WARREN_SERVER"
    if isinstance(error, ConnectionRefusedError) and address.path:
        return f"no service at {place}: it has ended; start it with `warren serve`"
    if isinstance(error, ConnectionRefusedError):
        return (
            f"no service at {place}: nothing listens there; compare the address with the line that "
            "`warren serve --listen` prints, or ask an admin whether the service runs"
        )
    if isinstance(error, PermissionError):
        return f"{place}: this account may not use the service"
    if type(error).__name__ == "SSLCertVerificationError":
        return (
            f"{place}: the certificate is of no known authority; pin it with #sha256=HEX behind "
            "the address (`warren serve` prints it), or name your authority in SSL_CERT_FILE"
        )
    return f"{place}: cannot be reached ({error.strerror or error})"


def refused(message: str, kind: str = "unreachable") -> Exception:
    """Return the error with this message; its module is loaded once there is one."""
    from warren.serve.client.errors import ServiceError

    return ServiceError(message, kind)
