"""The own ends of TCP connections of a process and its children, as the kernel lists them."""

from __future__ import annotations

import ipaddress
import os
import re
import struct
from collections import defaultdict
from pathlib import Path
from typing import Final

from warren.live.enforcement.requests import Endpoint

_PROC: Final = Path("/proc")
_ESTABLISHED: Final = "01"
_SOCKET: Final = re.compile(r"socket:\[(\d+)\]")


def endpoints_of(pid: int) -> tuple[Endpoint, ...]:
    """Return the own addresses and ports of the connections of a process and its children.

    Connections over loopback are left out. Empty if the process has gone or may not be looked at:
    that takes its user's rights, or root's.
    """
    ports: dict[str, set[int]] = defaultdict(set)
    for one in _with_children(pid):
        sockets = _sockets(one)
        for file in ("tcp", "tcp6"):
            for address, port, inode in _table(_PROC / str(one) / "net" / file):
                if inode in sockets:
                    ports[address].add(port)
    return tuple(
        Endpoint(address, tuple((port, port) for port in sorted(found)))
        for address, found in sorted(ports.items())
    )


def _with_children(pid: int) -> list[int]:
    found = [pid]
    for one in found:  # grows while it is walked through
        for thread in _names(_PROC / str(one) / "task"):
            try:
                text = (_PROC / str(one) / "task" / thread / "children").read_text()
            except OSError:
                continue
            found += [int(child) for child in text.split() if int(child) not in found]
    return found


def _sockets(pid: int) -> set[str]:
    folder = _PROC / str(pid) / "fd"
    found = set()
    for name in _names(folder):
        try:
            match = _SOCKET.fullmatch(os.readlink(folder / name))
        except OSError:
            continue
        if match:
            found.add(match[1])
    return found


def _names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _table(path: Path) -> list[tuple[str, int, str]]:
    """Return address, port and inode of established connections that leave this machine."""
    try:
        lines = path.read_text().splitlines()[1:]
    except OSError:
        return []
    found = []
    for line in lines:
        fields = line.split()
        if fields[3] != _ESTABLISHED:
            continue
        host, _, port = fields[1].partition(":")
        # Words of 4 bytes, each in the machine's own order.
        words = [int(host[i : i + 8], 16) for i in range(0, len(host), 8)]
        address = ipaddress.ip_address(struct.pack(f"={len(words)}I", *words))
        mapped = getattr(address, "ipv4_mapped", None)
        address = mapped or address
        if not address.is_loopback:
            found.append((str(address), int(port, 16), fields[9]))
    return found
