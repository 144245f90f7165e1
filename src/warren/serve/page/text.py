"""Times and sizes as people read them on the page."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

_NS_PER_S: Final = 1_000_000_000
_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
_GIB: Final = 1024**3


def duration(duration_ns: int) -> str:
    """Return a time in its two largest units: ``3 h 4 min``, ``4 h``."""
    left = max(0, duration_ns) // _NS_PER_S
    parts = []
    for length, unit in _UNITS:
        count, left = divmod(left, length)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2]) or "0 s"


def moment(time_ns: int) -> str:
    """Return a time of day in UTC."""
    return datetime.fromtimestamp(time_ns // _NS_PER_S, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def gibibytes(size_bytes: int) -> str:
    """Return a size in GiB."""
    return f"{size_bytes / _GIB:.1f} GiB"
