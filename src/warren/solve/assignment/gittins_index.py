"""Gittins' index of a job of unknown size, from the sizes of jobs like it.

For a job of size S that has attained a, and every b > a::

    left(a) = min over b of  E[min(S, b) - a | S > a] / P(S <= b | S > a)

is the least expected effort for each ending: the reciprocal of the index of Gittins (1979). On one
server that knows the distribution of sizes but no size, its order has the least mean response time
(Aalto, Ayesta and Righter, Queueing Systems 63, 2009). With one known size it is the size left,
with an exponential distribution its mean, with a heavy tail it grows with a: shortest remaining
time, any order, and least attained service are its cases.
"""

from __future__ import annotations

from math import isqrt

import numpy as np

from warren.solve.common.arrays import FloatArray


def least_effort(sizes: FloatArray, attained: float) -> float:
    """Compute ``left(attained)`` over sizes that are all equally likely.

    ``sizes``: shape (N,), ascending, in the unit of ``attained``.

    Of n larger sizes at least the square root of n lie below b: how close to ``attained`` the next
    few happen to be is chance. If none is larger than ``attained``: as much as has been attained,
    which is the median of the rest under a tail that falls with the inverse of size.
    """
    # S > a: only the larger sizes count.
    over = sizes[sizes.searchsorted(attained, side="right") :]
    count = len(over)
    if not count:
        return max(attained, 1.0)
    # For b = the k-th of them: sum of min(S, b) - a over all, divided by k that end by then.
    ends = np.arange(1, count + 1)
    effort = over.cumsum() + (count - ends) * over - count * attained
    return float((effort / ends)[isqrt(count) - 1 :].min())
