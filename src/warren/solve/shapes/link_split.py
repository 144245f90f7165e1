"""The split of a model over machines that may work too, so that a round is the shortest.

*What.* By the formula of ``task_rounds`` a round takes ``p + max(comp + p, first + q)``, where no
link is busy for longer than p with pulls, and q with updates. Machine i with M / b_i = u_i seconds
for the whole model, a_i pulls and n_i tasks of its own, of W and K in all, may hold a share f_i
with::

    max(0, 1 - p / (u_i a_i), 1 - q / (u_i n_i)) <= f_i
    f_i <= min(1, p / (u_i (W - a_i)), q / (u_i (K - n_i)))

So p and q can be had if no lower limit is above its upper one, the lower ones sum to 1 at most, and
the upper ones to 1 at least.

*How good.* The pairs p, q that can be had are a convex set, so the least q falls convexly in p, and
the round is convex in p. Halving finds the least q; thirds find the best p. The result is the
optimum of the linear program in f, p and q (tests).
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from warren.solve.common.arrays import BoolArray, Float, FloatArray, IntArray
from warren.solve.common.compile import kernel

_HALVINGS: Final = 60
"""Halvings of a range of times, down to the resolution of a float."""
_THIRDS: Final = 80
"""Thirds that a range of times loses, until 1e-14 of it is left."""


class LinkTimes(NamedTuple):
    """A round's work: u_i, a_i and n_i; ``serves_N``: which machines may hold a share.

    ``all_pulls``, ``all_tasks``: W and K. ``most_s``: upper limit of p and q. ``comp_s``: the
    longest computation of a worker; ``first_s``: until the first update can go.
    """

    unit_s_N: FloatArray
    pulls_N: IntArray
    tasks_N: IntArray
    serves_N: BoolArray
    all_pulls: int
    all_tasks: int
    most_s: float
    comp_s: float
    first_s: float


@kernel
def split_limits(
    times: LinkTimes, pull_s: Float, busy_s: Float, low_N: FloatArray, high_N: FloatArray
) -> bool:
    """Write the limits of each share, and tell whether shares between them can sum to 1."""
    lows, highs, apart = 0.0, 0.0, False
    for at in range(len(low_N)):
        unit_s, own, done = times.unit_s_N[at], times.pulls_N[at], times.tasks_N[at]
        low, high = 0.0, 1.0 if times.serves_N[at] else 0.0
        if own:
            low = max(low, 1 - pull_s / (unit_s * own))
        if done:
            low = max(low, 1 - busy_s / (unit_s * done))
        if times.all_pulls > own:
            high = min(high, pull_s / (unit_s * (times.all_pulls - own)))
        if times.all_tasks > done:
            high = min(high, busy_s / (unit_s * (times.all_tasks - done)))
        apart = apart or low > high
        low_N[at], high_N[at] = low, max(low, high)
        lows += low
        highs += high
    return bool(not apart and lows <= 1 <= highs)


@kernel
def _least_busy_s(times: LinkTimes, pull_s: Float, low_N: FloatArray, high_N: FloatArray) -> float:
    """Return the least q beside this p; infinite if there is none."""
    if not split_limits(times, pull_s, times.most_s, low_N, high_N):
        return np.inf
    low, high = 0.0, times.most_s
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if split_limits(times, pull_s, middle, low_N, high_N):
            high = middle
        else:
            low = middle
    return float(high)


@kernel
def least_times(
    times: LinkTimes, beat_s: Float, low_N: FloatArray, high_N: FloatArray
) -> tuple[float, float]:
    """Return p and q of the shortest round; both infinite if none is shorter than ``beat_s``.

    The limits of shares are written into two arrays.
    """
    low, high = 0.0, times.most_s
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if split_limits(times, middle, times.most_s, low_N, high_N):
            high = middle
        else:
            low = middle
    least_s = high
    if times.comp_s + 2 * least_s >= beat_s:
        return np.inf, np.inf
    busy_s = _least_busy_s(times, least_s, low_N, high_N)
    if times.first_s + busy_s <= times.comp_s + least_s:
        return least_s, busy_s
    least_busy_s = _least_busy_s(times, times.most_s, low_N, high_N)
    if times.first_s + least_s + least_busy_s >= beat_s:
        return np.inf, np.inf
    low, high = least_s, times.most_s
    for _ in range(_THIRDS):
        third = (high - low) / 3
        early_s, late_s = low + third, high - third
        early_busy_s = _least_busy_s(times, early_s, low_N, high_N)
        late_busy_s = _least_busy_s(times, late_s, low_N, high_N)
        early_round_s = early_s + max(times.comp_s + early_s, times.first_s + early_busy_s)
        late_round_s = late_s + max(times.comp_s + late_s, times.first_s + late_busy_s)
        if early_round_s <= late_round_s:
            high -= third
        else:
            low += third
    return high, _least_busy_s(times, high, low_N, high_N)
