"""The network interface that has an address, since gloo takes names of interfaces alone."""

from __future__ import annotations

import array
import fcntl
import socket
import struct
from typing import Final

_SIOCGIFCONF: Final = 0x8912
"""Request of Linux for the IPv4 addresses of all interfaces."""
_ROW: Final = struct.Struct("16s4x4s16x")
"""A row of the answer: the name of an interface, and an address."""
_ROWS: Final = 1024


def interface_at(address: str) -> str:
    """Return the name of the interface with an IPv4 address of this machine.

    Raises
    ------
    OSError
        No interface has it.
    """
    rows = array.array("B", bytes(_ROW.size * _ROWS))
    place, size = rows.buffer_info()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
        answer = fcntl.ioctl(end, _SIOCGIFCONF, struct.pack("iL", size, place))
    wanted = socket.inet_aton(address)
    for name, found in _ROW.iter_unpack(rows.tobytes()[: struct.unpack_from("i", answer)[0]]):
        if found == wanted:
            # An alias of an interface, like eth0:1, has its name after it.
            return str(name.split(b"\0")[0].decode().partition(":")[0])
    raise OSError(f"no network interface here has the address {address}")
