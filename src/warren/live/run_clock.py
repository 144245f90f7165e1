"""The clock of a run: the controller's monotonic clock, as a process of any machine reads it.

On the controller's machine it is the monotonic clock itself. Elsewhere it is that machine's, by so
much later or earlier as its agent has found; a zygote is told, and its children inherit it.
"""

from __future__ import annotations

import time

_ahead_ns = 0


def now_ns() -> int:
    """Return the time of the run, in nanoseconds from an origin that says nothing."""
    return time.monotonic_ns() + _ahead_ns


def set_ahead(ahead_ns: int) -> None:
    """Let the run's clock be ahead of this machine's by so much, in this process and its forks."""
    global _ahead_ns
    _ahead_ns = ahead_ns
