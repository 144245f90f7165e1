"""A learning curve, and the progress by which predictions are made.

Steps may be epochs, iterations or samples, of any size; values may rise (accuracy) or fall (loss).
All prediction happens in *progress* z, the step divided by the last one observed, so that it does
not depend on the unit of steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from warren.model.costs import BoolArray, FloatArray

LEAST_POINTS: Final = 2
MOST_BINS: Final = 48
MAD_TO_SD: Final = 1.4826
"""Standard deviation over median absolute deviation, of a normal distribution."""

_MOST_IN_A_ROW: Final = 3
"""Number of neighbors that may be spikes together; more are a level of their own."""
_LEAST_OUTSIDE: Final = 0.1
"""Least distance of a spike from the others' range, in units of the size of that range."""
_FAR: Final = 100.0
"""Distance of a spike from the others, in their ranges, where a curve may lie far off."""
_MOST_SPIKES: Final = 0.1
"""Share of the points above which they are no spikes."""


@dataclass(frozen=True, slots=True)
class Curve:
    """A learning curve: ``steps``, strictly rising, and the value at each, both finite.

    Both of shape (n,), n >= 2.
    """

    steps: FloatArray
    values: FloatArray

    def __len__(self) -> int:
        return len(self.steps)


def curve_of(steps: Sequence[float], values: Sequence[float]) -> Curve:
    """Make the curve of some points in any order; a step with several values gets their mean.

    Raises ValueError if a number is not finite, or fewer than two steps differ; the text says which
    point.
    """
    step_n, value_n = np.asarray(steps, dtype=float), np.asarray(values, dtype=float)
    if step_n.shape != value_n.shape or step_n.ndim != 1:
        raise ValueError(f"{step_n.shape} steps but {value_n.shape} values")
    for what, numbers in (("step", step_n), ("value", value_n)):
        bad = np.flatnonzero(~np.isfinite(numbers))
        if bad.size:
            raise ValueError(f"point {bad[0] + 1}: {what} {numbers[bad[0]]} is not finite")
    unique, place = np.unique(step_n, return_inverse=True)
    if len(unique) < LEAST_POINTS:
        raise ValueError(f"{len(unique)} different steps; a prediction needs {LEAST_POINTS}")
    means = np.bincount(place, value_n) / np.bincount(place)
    return Curve(unique, means)


def until(curve: Curve, step: float) -> Curve:
    """Return the points of a curve up to a step, that step included.

    Raises ValueError if fewer than two are left.
    """
    return first(curve, int(np.searchsorted(curve.steps, step, side="right")))


def first(curve: Curve, points: int) -> Curve:
    """Return the first ``points`` points of a curve, or all.

    Raises ValueError if fewer than two are left.
    """
    if points < LEAST_POINTS:
        second = curve.steps[LEAST_POINTS - 1]
        raise ValueError(f"leaves {points} of {len(curve)} points; from step {second:g} on it is 2")
    return Curve(curve.steps[:points], curve.values[:points])


def part_of(points: int, share: float) -> int:
    """Return the number of points in a share of them, rounded down, so that 30 % hide 70 %."""
    # The small number is for shares such as 0.3, which as a product fall just short of a whole.
    return int(points * share + 1e-9)


def shift_of(curve: Curve) -> float:
    """Return the shift of steps by which the first is at least one usual distance above 0.

    Epochs counted from 0 become epochs done; iterations that start at the first report stay.
    """
    gap = float(np.median(np.diff(curve.steps)))
    return max(0.0, gap - float(curve.steps[0]))


def spikes_of(curve: Curve) -> BoolArray:
    """Tell for each point whether it is a spike: far off all others, and no part of the way.

    At most a tenth of the points, three in a row at most, each further outside of the range of the
    others than that range is wide. Between two other points they are spikes. A curve may begin far
    off on the worse side, and end so on the better one: such points are spikes only if they lie
    many ranges off.
    """
    values = curve.values
    spikes = np.zeros(len(curve), dtype=np.bool_)
    most = int(_MOST_SPIKES * len(curve))
    far = _far(values, most) | _far(-values, most)
    if not far.any() or far.sum() > most:
        return spikes
    rest = values[~far]
    middle, span = float(np.median(rest)), float(np.ptp(rest))
    rises = _slope(Curve(curve.steps[~far], rest)) > 0
    # Runs of far points, by where they begin and end.
    edges = np.flatnonzero(np.diff(np.concatenate([[False], far, [False]])))
    for begin, end in edges.reshape(-1, 2).tolist():
        run = values[begin:end]
        way = (run > middle) if rises else (run < middle)
        by_way = (begin == 0 and not way.any()) or (end == len(values) and way.all())
        off = float(np.abs(run - middle).min())
        spikes[begin:end] = len(run) <= _MOST_IN_A_ROW and (not by_way or off > _FAR * span)
    return spikes


def _far(values: FloatArray, most: int) -> BoolArray:
    """Tell which of the largest values lie above all others by more than the range of those."""
    ordered = np.sort(values)
    for count in range(most, 0, -1):
        low, high, first = ordered[0], ordered[-count - 1], ordered[-count]
        # A low spike must not hide a high one, so the range begins above as many low values.
        low = ordered[min(most, len(ordered) - count - 2)] if len(ordered) > count + 2 else low
        if first - high > max(high - low, _LEAST_OUTSIDE * abs(high)):
            return np.asarray(values >= first)
    return np.zeros(len(values), dtype=np.bool_)


def _slope(curve: Curve) -> float:
    """Return a number of the sign of the least squares slope over the logarithm of steps."""
    log = np.log(curve.steps + shift_of(curve))
    return float(np.dot(log - log.mean(), curve.values - curve.values.mean()))


def without_spikes(curve: Curve) -> Curve:
    """Return a curve without its spikes; the curve itself if it has none."""
    spikes = spikes_of(curve)
    return Curve(curve.steps[~spikes], curve.values[~spikes]) if spikes.any() else curve


def direction_of(curve: Curve) -> int:
    """Return 1 if the values rise over the logarithm of steps, -1 if they fall, 0 if all equal.

    Spikes do not count.
    """
    curve = without_spikes(curve)
    if np.ptp(curve.values) == 0:
        return 0
    return 1 if _slope(curve) >= 0 else -1


def limit_of(curve: Curve, direction: int) -> float | None:
    """Return the limit of values: 1 or 100 for accuracies, 0 for losses and errors that fall.

    A curve that rises within 0 to 1 counts as an accuracy, as JPAS takes all (section 4.1), a curve
    within 0 to 100 as one in percent. None if values beyond these show that there is no limit.
    """
    low, high = float(curve.values.min()), float(curve.values.max())
    if low < 0 or direction == 0:
        return None
    if direction < 0:
        return 0.0
    if high <= 1:
        return 1.0
    return 100.0 if high <= 100 else None


def noise_of(curve: Curve) -> float:
    """Return the standard deviation of the noise around the later half of a curve.

    From second differences, which a smooth curve hardly has, by their median: a few jumps, such
    as a new learning rate makes, do not count. 0 with fewer than four points.
    """
    # The later half, but at least four points.
    later = curve.values[-max(4, (len(curve) + 1) // 2) :]
    if len(later) < 4:
        return 0.0
    # The second difference of independent values has 1 + 4 + 1 = 6 times the variance of one.
    second = later[2:] - 2 * later[1:-1] + later[:-2]
    return float(MAD_TO_SD * np.median(np.abs(second)) / np.sqrt(6.0))


@dataclass(frozen=True, slots=True)
class Bins:
    """Points of progress, fewer and evener: ``z`` and mean ``y`` of the ``count`` in each; (b,)."""

    z: FloatArray
    y: FloatArray
    count: FloatArray


def binned(z: FloatArray, y: FloatArray, most: int = MOST_BINS) -> Bins:
    """Gather points in at most ``most`` bins, evenly spread over the logarithm of progress.

    A curve has most of its points late, where little happens; and thousands of them cost time.
    Bins of one point are points.
    """
    if len(z) <= most:
        return Bins(z, y, np.ones(len(z)))
    # Bins without a point are left out, so that each has a mean: of log z, and of y.
    share = np.log(z / z[0]) / np.log(z[-1] / z[0])
    place = np.minimum((share * most).astype(np.int64), most - 1)
    _, place = np.unique(place, return_inverse=True)
    count = np.bincount(place).astype(float)
    log_z = np.bincount(place, np.log(z)) / count
    return Bins(np.exp(log_z), np.bincount(place, y) / count, count)
