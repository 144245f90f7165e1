"""An event loop whose time is played: where all wait, it jumps to the next timer."""

from __future__ import annotations

import asyncio
import selectors
from typing import Final

from warren.model.units import NS_PER_S

START_NS: Final = 1_700_000_000 * NS_PER_S
"""Time at which a played loop begins, in nanoseconds since 1970."""


class _JumpingSelector(selectors.SelectSelector):
    """Looks at files as usual, but plays the time for which it would wait."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return what is ready now; if nothing is, ``timeout`` seconds have passed."""
        if timeout is None:  # no timer is left: only a file can go on
            return super().select(None)
        ready = super().select(0)
        if not ready:
            self.now_s += timeout
        return ready


class PlayedTimeLoop(asyncio.SelectorEventLoop):
    """A loop for hosts without processes; ``asyncio.Runner(loop_factory=PlayedTimeLoop)``."""

    def __init__(self) -> None:
        self._played = _JumpingSelector()
        super().__init__(self._played)

    def time(self) -> float:
        """Return the played time in seconds since the loop was made."""
        return self._played.now_s

    def now_ns(self) -> int:
        """Return the played time in nanoseconds since 1970."""
        return START_NS + round(self._played.now_s * NS_PER_S)
