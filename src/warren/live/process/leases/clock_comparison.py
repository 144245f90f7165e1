"""How the clock of one machine compares to that of another, by questions and their answers.

What the other clock said lies between the question and its answer by this one (Cristian, 1989). So
each answer gives bounds, and the narrowest of the last ones count.
"""

from __future__ import annotations

from collections import deque
from typing import Final

_KEPT: Final = 16
"""So many answers count: rates differ, and what was right an hour ago is not."""


class ClockComparison:
    """What is known of another clock. Pure: all times are told."""

    def __init__(self) -> None:
        # By how much at least and at most the other clock is ahead of this one.
        self._bounds: deque[tuple[int, int]] = deque(maxlen=_KEPT)

    def learn(self, asked_ns: int, said_ns: int, answered_ns: int) -> None:
        """Take an answer: this clock's times of question and answer, and what the other said."""
        self._bounds.append((said_ns - answered_ns, said_ns - asked_ns))

    @property
    def ahead_ns(self) -> int:
        """By how much the other clock is ahead; 0 where both may agree.

        One machine's clocks do, and nothing is gained by a difference that need not be there.
        """
        if not self._bounds:
            return 0
        low, high = min(self._bounds, key=lambda bounds: bounds[1] - bounds[0])
        return 0 if low <= 0 <= high else (low + high) // 2

    @property
    def error_ns(self) -> int:
        """By how much at most ``ahead_ns`` is wrong."""
        return min((high - low for low, high in self._bounds), default=0)
