"""Times of the queue, in nanoseconds, as people read them on the page."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from warren.serve.client.shown import span

_NS_PER_S: Final = 1_000_000_000


def duration(duration_ns: int) -> str:
    """Return a time in its two largest units: ``3 h 4 min``, ``4 h``."""
    return span(duration_ns / _NS_PER_S)


def moment(time_ns: int) -> str:
    """Return a time of day in UTC."""
    return datetime.fromtimestamp(time_ns // _NS_PER_S, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
