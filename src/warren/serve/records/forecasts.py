"""Expected times with their intervals, and the correction that past errors give."""

from __future__ import annotations

from typing import NamedTuple


class Spread(NamedTuple):
    """An expected time, and bounds between which it lies with a probability of 80 %.

    All three are in seconds from the moment at which they were found.
    """

    low_s: float
    expected_s: float
    high_s: float


class Correction(NamedTuple):
    """Where the bounds and the expected time of a spread are to be, by the errors of past spreads.

    In widths of the spread: 0 is its expected time, -1 its lower bound, 1 its upper bound.
    """

    low: float = -1.0
    expected: float = 0.0
    high: float = 1.0
