"""The clock of a run: the controller's monotonic clock, as a process of any machine reads it.

On the controller's machine it is the monotonic clock itself. Elsewhere it is that machine's,
shifted by the difference that its agent has found; the zygote gets the difference, and its children
inherit it.
"""

from __future__ import annotations

import time

_ahead_ns = 0


def now_ns() -> int:
    """Return the time of the run, in nanoseconds from an origin that says nothing."""
    return time.monotonic_ns() + _ahead_ns


def set_ahead(ahead_ns: int) -> None:
    """Set the nanoseconds by which the run's clock leads this machine's, here and in forks."""
    global _ahead_ns
    _ahead_ns = ahead_ns
