"""Comparison of another machine's clock with this one, by questions and their answers.

The reading of the other clock was taken between the question and its answer by this clock
(Cristian, 1989). So each answer gives bounds, and the narrowest of the last ones count.
"""

from __future__ import annotations

from collections import deque
from typing import Final

_KEPT: Final = 16
"""Number of latest answers that count: clock rates differ, so old answers go wrong."""


class ClockComparison:
    """Bounds on the difference to another clock. Pure: callers pass all times."""

    def __init__(self) -> None:
        # By how much at least and at most the other clock is ahead of this one.
        self._bounds: deque[tuple[int, int]] = deque(maxlen=_KEPT)

    def learn(self, asked_ns: int, said_ns: int, answered_ns: int) -> None:
        """Take an answer: this clock's times of question and answer, and the other's reading."""
        self._bounds.append((said_ns - answered_ns, said_ns - asked_ns))

    @property
    def ahead_ns(self) -> int:
        """Nanoseconds by which the other clock is ahead; 0 where both may agree.

        Processes of one machine share a clock, and an unneeded correction gains nothing.
        """
        if not self._bounds:
            return 0
        low, high = min(self._bounds, key=lambda bounds: bounds[1] - bounds[0])
        return 0 if low <= 0 <= high else (low + high) // 2

    @property
    def error_ns(self) -> int:
        """Largest error of ``ahead_ns`` in nanoseconds."""
        return min((high - low for low, high in self._bounds), default=0)
