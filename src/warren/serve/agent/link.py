"""The agent's connection to the daemon: by a Unix socket on one machine, else by TLS."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import time
from typing import Final, Protocol

import msgspec

from warren.serve.agent.loop import Loop, Timer
from warren.serve.hosts.messages import (
    BEAT_S,
    LINE_BYTES,
    Beat,
    FromAgent,
    Hello,
    HelloRefused,
    Lines,
    MalformedMessage,
    ToAgent,
    Welcome,
    decode_order,
    encode,
)

_CONNECT_S: Final = 5.0
"""Longest wait for a connection, in seconds; the agent does nothing else meanwhile."""
_SILENT_S: Final = 4 * BEAT_S
"""Silence of the daemon after which a connection over the network counts as broken, in seconds."""
_FIRST_WAIT_S: Final = 0.2
_LONGEST_WAIT_S: Final = 30.0
"""Longest wait between two tries to connect, in seconds."""
_UNSENT_BYTES: Final = 64 << 20
"""Bytes that wait to be sent at which a connection counts as broken."""
_READ_BYTES: Final = 1 << 16


class CannotConnect(Exception):
    """No connection to the daemon; the text is one line."""


class WrongPeer(CannotConnect):
    """The peer is not the daemon whose fingerprint was given."""


class Target(msgspec.Struct, frozen=True):
    """Where the daemon is.

    ``path`` is that of its Unix socket; without one, ``host`` and ``port`` are connected to by TLS,
    and the peer must show the certificate with ``fingerprint``, in SHA-256.
    """

    path: str = ""
    host: str = ""
    port: int = 0
    token: str = ""
    fingerprint: str = ""

    @property
    def is_local(self) -> bool:
        """Whether the daemon is on this machine, and the agent is its child."""
        return bool(self.path)


def parse_target(text: str, token: str = "", fingerprint: str = "") -> Target:
    """Return the target of ``unix:PATH``, ``tls:HOST:PORT`` or ``HOST:PORT``.

    Raises CannotConnect if it is none of these, or a token or fingerprint is missing.
    """
    if text.startswith("unix:"):
        return Target(path=text.removeprefix("unix:"))
    host, colon, port = text.removeprefix("tls:").rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise CannotConnect(f"{text!r} is no address; write HOST:PORT, as in gpu1.lab:8471")
    digits = fingerprint.replace(":", "").lower()
    if len(digits) != 64 or set(digits) - set("0123456789abcdef"):
        raise CannotConnect(
            "the fingerprint must be 64 hexadecimal digits; 'warren serve' prints it at its start"
        )
    if not token:
        raise CannotConnect("a token is missing; 'warren serve' prints it at its start")
    return Target(host=host.strip("[]"), port=int(port), token=token, fingerprint=digits)


class Handler(Protocol):
    """What a link tells about."""

    def hello(self) -> Hello:
        """Return what to say first."""

    def welcomed(self, welcome: Welcome) -> None:
        """Repeat all reports: the daemon listens from now on."""

    def take(self, message: ToAgent) -> None:
        """Do what the daemon orders."""


class DaemonLink:
    """Keeps a connection to the daemon, and makes it again when it breaks.

    Parameters
    ----------
    loop
        The agent's loop; it ends when the daemon of this machine has gone or refuses the agent.
    target
        Where the daemon is.
    handler
        Is called with what happens.
    """

    def __init__(self, loop: Loop, target: Target, handler: Handler) -> None:
        self._loop, self._target, self._handler = loop, target, handler
        self._end: socket.socket | None = None
        self._lines = Lines(LINE_BYTES)
        self._unsent = bytearray()
        self._heard = 0.0
        self._wait_s = _FIRST_WAIT_S
        self._welcome = self._ever_welcome = False
        self._beat: Timer | None = None

    def connect(self) -> None:
        """Connect; if that fails, try again later, or end if the daemon is of this machine."""
        try:
            self._end = _connected(self._target)
        except (OSError, CannotConnect) as error:
            why = getattr(error, "strerror", None) or str(error)
            (self._refused if isinstance(error, WrongPeer) else self._failed)(why)
            return
        self._end.setblocking(False)
        self._lines = Lines(LINE_BYTES)
        self._unsent.clear()
        self._heard = time.monotonic()
        self._welcome = False
        self._loop.watch(self._end.fileno(), self._ready)
        self._write(msgspec.structs.replace(self._handler.hello(), token=self._target.token))
        self._beat = self._loop.call_later(BEAT_S, self._beats)
        if not self._target.is_local:
            self._ready()  # TLS may hold bytes already

    def send(self, message: FromAgent) -> bool:
        """Send a message if the daemon listens; tell whether it does."""
        if self._welcome:
            self._write(message)
        return self._welcome

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._end is not None:
            self._loop.unwatch(self._end.fileno())
            self._end.close()
            self._end = None
        if self._beat is not None:
            self._beat.cancel()
        self._welcome = False

    def _failed(self, why: str) -> None:
        self.close()
        if self._target.is_local:
            self._loop.end(0)
            return
        _say(f"no connection to {self._target.host}:{self._target.port}: {why}")
        self._loop.call_later(self._wait_s * _drawn(), self.connect)
        self._wait_s = min(2 * self._wait_s, _LONGEST_WAIT_S)

    def _refused(self, why: str) -> None:
        """End, if it was never different: what was given to this agent is wrong."""
        if self._target.is_local or not self._ever_welcome:
            _say(why)
            self.close()
            self._loop.end(2)
        else:
            self._failed(why)

    def _beats(self) -> None:
        silent_s = time.monotonic() - self._heard
        if silent_s > _SILENT_S and not self._target.is_local:
            self._failed(f"it has been silent for {silent_s:.0f} s")
            return
        self._beat = self._loop.call_later(BEAT_S, self._beats)
        self.send(Beat())

    def _write(self, message: FromAgent) -> None:
        self._unsent += encode(message)
        if len(self._unsent) > _UNSENT_BYTES:
            self._failed("it does not take what is sent")
        else:
            self._flush()

    def _flush(self) -> None:
        while self._unsent and self._end is not None:
            try:
                del self._unsent[: self._end.send(memoryview(self._unsent)[:_READ_BYTES].tobytes())]
            except OSError as error:
                if not _would_block(error):
                    self._failed(error.strerror or str(error))
                    return
                break
        if self._end is not None:
            self._loop.watch(self._end.fileno(), self._ready, write=bool(self._unsent))

    def _ready(self) -> None:
        """Read all that has come, and send what waits."""
        while self._end is not None:
            try:
                data = self._end.recv(_READ_BYTES)
            except OSError as error:
                if not _would_block(error):
                    self._failed(error.strerror or str(error))
                    return
                break
            if not data:
                self._failed("it ended the connection")
                return
            self._heard = time.monotonic()
            try:
                for line in self._lines.feed(data):
                    self._take(decode_order(line))
                    if self._end is None:
                        return
            except MalformedMessage as error:
                self._failed(str(error))
                return
        if self._unsent:
            self._flush()

    def _take(self, message: ToAgent) -> None:
        if isinstance(message, HelloRefused):
            self._refused(f"the daemon refuses this agent: {message.reason}")
        elif isinstance(message, Welcome):
            self._welcome = self._ever_welcome = True
            if not self._target.is_local:
                _say(f"connected to {self._target.host}:{self._target.port}")
            self._wait_s = _FIRST_WAIT_S
            self._handler.welcomed(message)
        elif not isinstance(message, Beat):
            self._handler.take(message)


def _connected(target: Target) -> socket.socket:
    if target.is_local:
        end = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        end.connect(target.path)
        return end
    import hashlib
    import hmac
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # The one certificate that is accepted is known: no name and no authority has to vouch for it.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    plain = socket.create_connection((target.host, target.port), timeout=_CONNECT_S)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        end = context.wrap_socket(plain)
        shown = hashlib.sha256(end.getpeercert(binary_form=True) or b"").hexdigest()
        if not hmac.compare_digest(shown, target.fingerprint):
            end.close()
            raise WrongPeer(f"its certificate has another fingerprint than the given one: {shown}")
    except OSError:
        plain.close()
        raise
    return end


def _drawn() -> float:
    """Return a factor by which agents that lost their daemon at once come back one by one."""
    return 0.7 + 0.6 * os.urandom(1)[0] / 255  # the module ``random`` slows each fork


def _would_block(error: OSError) -> bool:
    if isinstance(error, BlockingIOError):
        return True
    # SSLWantReadError and SSLWantWriteError; ssl is not loaded where it is not used.
    return type(error).__name__ in ("SSLWantReadError", "SSLWantWriteError")


def _say(line: str) -> None:
    with contextlib.suppress(OSError):
        print(f"warren agent: {line}", file=sys.stderr, flush=True)
