"""Addresses at which a coordinator listens."""

from __future__ import annotations

import ipaddress
import re
import socket
from typing import Any, Final, NamedTuple

from warren.live.enforcement.requests import wrong

_ADDRESS: Final = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9.-]+)):(\d{1,5})", re.ASCII)
_ALLOWED: Final = "like 10.0.0.1:7411, node-1:7411 or [fd00::1]:7411"


class PeerAddress(NamedTuple):
    """A host, by name or address, and a port of it."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def found(self) -> list[tuple[Any, Any, int, str, Any]]:
        """Look it up, for TCP. Raises OSError if it is not found."""
        return socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)


def peer_address(field: str, text: str) -> PeerAddress:
    """Read an address like ``10.0.0.1:7411``, ``node-1:7411`` or ``[fd00::1]:7411``.

    Raises
    ------
    SpecError
        If it is none.
    """
    match = _ADDRESS.fullmatch(text)
    if not match or int(match[3]) > 65535:
        raise wrong(field, f"{text[:60]!a} is no address; allowed: {_ALLOWED}")
    host = match[1] or match[2]
    if match[1]:
        try:
            ipaddress.IPv6Address(host)
        except ValueError:
            raise wrong(field, f"{text[:60]!a} is no address; allowed: {_ALLOWED}") from None
    return PeerAddress(host, int(match[3]))


def shown_address(place: Any) -> str:
    """Return the address of a socket as people write it."""
    return str(PeerAddress(place[0], place[1]))
