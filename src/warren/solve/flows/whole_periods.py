"""Periods in whole units of one length, so that patterns of these periods meet again soon.

Two periods of 2 and 3.01 s would meet again after 602 s; if the first is waited for a moment, 2.007
and 3.01 s do after 6.02 s. So each is made longer by a small part, to a whole number of a unit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

FINEST: Final = 4
"""Most units of the shortest period."""
MOST_UNITS: Final = 64
"""Most units of the least common multiple of all periods."""


class WholePeriods(NamedTuple):
    """``counts``: the units of each period; ``unit``: how long one is."""

    counts: tuple[int, ...]
    unit: float


def whole_periods(lengths: Sequence[float], tolerance: float) -> WholePeriods | None:
    """Make lengths whole numbers of a unit, each longer by at most ``tolerance``, a share of it.

    The shortest has as few units as possible; None: there is no such unit.
    """
    for parts in range(1, FINEST + 1):
        counts = tuple(round(length * parts / min(lengths)) for length in lengths)
        # Some length is exactly a whole number of units, and no other is beyond its own.
        unit = max(length / count for length, count in zip(lengths, counts, strict=True))
        fits = all(
            count * unit <= length * (1 + tolerance)
            for length, count in zip(lengths, counts, strict=True)
        )
        if fits and math.lcm(*counts) <= MOST_UNITS:
            return WholePeriods(counts, unit)
    return None
