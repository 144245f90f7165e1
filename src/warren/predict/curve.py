"""A learning curve, and the progress that predictions are made in.

Steps may be epochs, iterations or samples, of any size; values may rise (accuracy) or fall (loss).
All prediction happens in *progress* z, the step divided by the last one observed, so that it does
not depend on the unit of steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from warren.model.costs import FloatArray

LEAST_POINTS: Final = 2
MOST_BINS: Final = 48
MAD_TO_SD: Final = 1.4826
"""Standard deviation over median absolute deviation, of a normal distribution."""


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
    """Return so many points of a curve from its start, or all.

    Raises ValueError if fewer than two are left.
    """
    if points < LEAST_POINTS:
        second = curve.steps[LEAST_POINTS - 1]
        raise ValueError(f"leaves {points} of {len(curve)} points; from step {second:g} on it is 2")
    return Curve(curve.steps[:points], curve.values[:points])


def part_of(points: int, share: float) -> int:
    """Return how many of so many points a share of them is: no more, so that 30 % hide 70 %."""
    # The small number is for shares such as 0.3, which as a product fall just short of a whole.
    return int(points * share + 1e-9)


def shift_of(curve: Curve) -> float:
    """Return what to add to steps so that the first is at least one usual distance above 0.

    Epochs counted from 0 become epochs done; iterations that start at the first report stay.
    """
    gap = float(np.median(np.diff(curve.steps)))
    return max(0.0, gap - float(curve.steps[0]))


def direction_of(curve: Curve) -> int:
    """Return 1 if the values rise over the logarithm of steps, -1 if they fall, 0 if all equal."""
    if np.ptp(curve.values) == 0:
        return 0
    # The sign of the least squares slope over the logarithm of steps.
    log = np.log(curve.steps + shift_of(curve))
    slope = float(np.dot(log - log.mean(), curve.values - curve.values.mean()))
    return 1 if slope >= 0 else -1


def limit_of(curve: Curve, direction: int) -> float | None:
    """Return what no value can pass: 1 or 100 for accuracies, 0 for losses and errors that fall.

    A curve that rises within 0 to 1 counts as an accuracy, as JPAS takes all (section 4.1), one
    within 0 to 100 as one in percent. None where values beyond these say that there is no limit.
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
    """Gather points in at most so many bins, evenly spread over the logarithm of progress.

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
