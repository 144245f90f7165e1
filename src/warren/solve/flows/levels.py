"""Levels of links: at which rate of its flows a link is full, and how levels are compared.

The *level* of a link is the v at which sum_f a_f min(t_f, v) is its capacity. The share a_f of flow
f is the number of flows that it stands for times the weight of its class; its other links and its
cap let it rise to t_f. Flows that are limited by the link have its level (water-filling: Bertsekas
and Gallager, Data Networks, 6.5.2). A link that is not filled has the level infinity.

*Ties.* Levels are float64, and differ in their last bits by the order in which flows are summed.
Rates are levels rounded to 40 bits (``rounded``), a relative error of at most 1e-12, so that equal
rates are one number: a difference by the rounding of sums alone is some hundred times closer. Loads
of a link are compared with ``TOLERANCE`` times its capacity.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from warren.solve.common.arrays import Float, FloatArray, Int
from warren.solve.common.compile import inlined, kernel

TOLERANCE: Final = 2.0**-45
"""Loads of a link that differ by less, relative to its capacity (3e-14), count as equal."""

NOTHING: Final = 4 * TOLERANCE
"""Largest rest of a link after earlier ranks that counts as nothing, relative to its capacity.

Each load may be off by a tolerance, so that a link they fill may seem to have this much left."""


@inlined
def rounded(rate: Float) -> Float:
    """Round a rate to 40 bits: a relative error of at most 2**-40.

    Whole numbers of bytes a second are unchanged up to 10**12.
    """
    # Veltkamp's splitting: the high part of a float64 is (c x) - (c x - x) with c = 2**13 + 1.
    # Beyond this bound, c x could overflow; infinity stays itself.
    if rate > 1e300:
        return rate
    scaled = rate * 8193.0
    high: Float = scaled - (scaled - rate)
    return high


@inlined
def key(level: Float) -> Int:
    """Return a whole number that orders levels as they are ordered, for ``IndexedHeap``.

    Floats that are not negative have the order of their bits (IEEE 754).
    """
    bits: Int = np.float64(level).view(np.int64)
    return bits


@kernel
def fill(most_N: FloatArray, share_N: FloatArray, flows: Int, room: Float) -> Float:
    """Return the level v at which sum_n share_N[n] min(most_N[n], v) is ``room``.

    The sum of share_N times most_N must be above ``room``: the link is filled. Only the first
    ``flows`` entries count.
    """
    # Newton's method on a concave, piecewise linear function: v only rises, and each pass counts
    # at least one flow more as limited elsewhere, or it is the last one.
    level = 0.0
    below = -1
    while True:
        elsewhere = 0
        taken = 0.0
        rising = 0.0
        for n in range(flows):
            if most_N[n] < level:
                elsewhere += 1
                taken += share_N[n] * most_N[n]
            else:
                rising += share_N[n]
        if elsewhere == below or rising == 0.0:
            return level
        below = elsewhere
        level = max(level, (room - taken) / rising)
