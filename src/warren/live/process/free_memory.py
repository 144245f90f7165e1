"""A check whether this machine, or the container that Warren runs in, has memory to spare."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from warren.live.process.linux import kernel_lines

_LEFT: Final = 8
"""Memory is scarce when less than one part in this number is left."""
_CGROUP: Final = Path("/sys/fs/cgroup")
"""The cgroup of the container, where there is one: its own limit shows at the top."""


def scarce(meminfo: Path = Path("/proc/meminfo"), cgroup: Path = _CGROUP) -> bool:
    """Tell whether less than an eighth of the memory is left, of the machine or of its limit."""
    rows = dict(line.split(":", 1) for line in kernel_lines(meminfo))
    total, left = (int(rows.get(name, "0").split()[0]) for name in ("MemTotal", "MemAvailable"))
    if left * _LEFT < total:
        return True
    # A limit that is not set reads "max", which is no number.
    limit, used = (_number(cgroup / name) for name in ("memory.max", "memory.current"))
    return limit is not None and used is not None and (limit - used) * _LEFT < limit


def _number(path: Path) -> int | None:
    """Read a file that holds one number; None if it holds another word, or is not there."""
    lines = kernel_lines(path)
    return int(lines[0]) if lines and lines[0].isdecimal() else None
