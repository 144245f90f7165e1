"""The shortfall of a job's metric from its target, and from the limit of values.

Losses fall to a target and accuracies rise to one; seen from the target both are a shortfall that
falls to 0. Its sign follows from where the curve began.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from warren.model.costs import FloatArray, IntArray
from warren.model.view import Progress
from warren.predict.curve import MAD_TO_SD

_RECENT: Final = 1024
"""The latest points tell how noisy a curve is and how fast; more of them would cost time."""


@dataclass(frozen=True, slots=True)
class Shortfall:
    """A curve as its distance from a target: short of it by ``short_P[i]`` after ``rounds_P[i]``.

    Positive before the target is reached. ``beyond`` is the largest distance beyond the target that
    the metric could reach: a loss to 0, an accuracy to 1 or 100. If the values have no limit like
    these, it is the distance of the target from the first value.
    """

    rounds_P: IntArray
    short_P: FloatArray
    beyond: float

    @property
    def best(self) -> float:
        """Return the least shortfall so far; 0 or less: the target was reached."""
        return float(self.short_P.min())


def shortfall(progress: Progress, target: float) -> Shortfall:
    """Return the shortfall of progress, with one point or more, from a target."""
    # The first value tells the direction: above the target it is a loss that falls.
    values = progress.values_P
    falls = bool(values[0] > target)
    short_P = values - target if falls else target - values
    return Shortfall(progress.rounds_P, short_P, _beyond(values, target, falls=falls))


def _beyond(values: FloatArray, target: float, *, falls: bool) -> float:
    """Return the largest distance beyond the target that the metric could reach."""
    low, high = min(target, float(values.min())), max(target, float(values.max()))
    # A loss ends at 0, an accuracy at 1 or at 100 percent; values outside these have no limit.
    limit = None
    if low >= 0 and falls:
        limit = 0.0
    elif low >= 0 and high <= 1:
        limit = 1.0
    elif low >= 0 and high <= 100:
        limit = 100.0
    return abs(float(values[0]) - target) if limit is None else abs(target - limit)


def noise_of(rounds_P: IntArray, short_P: FloatArray) -> float:
    """Return the standard deviation of single values of a curve of four points or more.

    From how far points lie off the line between their neighbors, by the median, over the later
    half: a smooth curve hardly bends, and a few jumps do not count.
    """
    part = min(_RECENT, max(4, len(short_P) // 2))
    rounds, short = rounds_P[-part:].astype(float), short_P[-part:]
    weight = (rounds[1:-1] - rounds[:-2]) / (rounds[2:] - rounds[:-2])
    # The distance of independent values from their neighbors' line has the variance of one value
    # times 1 + w^2 + (1 - w)^2, which is divided out.
    off = short[1:-1] - (1 - weight) * short[:-2] - weight * short[2:]
    return float(MAD_TO_SD * np.median(np.abs(off) / np.sqrt(1 + weight**2 + (1 - weight) ** 2)))


def speed_of(rounds_P: IntArray, short_P: FloatArray, noise: float, errors: float) -> float:
    """Return the highest speed at which the shortfall falls, a round: of its latest parts.

    The parts are the last half, quarter and eighth of the points, of three or more. Each has the
    slope of least squares and, on top, ``errors`` standard errors of it under ``noise``. In a
    convex curve without noise no later part can be faster.
    """
    fastest = 0.0
    for share in (2, 4, 8):
        part = min(_RECENT, max(3, len(short_P) // share))
        # slope = sum c s / sum c^2 with centered rounds c; its standard error is noise / sqrt(sum).
        centred = rounds_P[-part:] - rounds_P[-part:].mean()
        spread = float(np.dot(centred, centred))
        slope = -float(np.dot(centred, short_P[-part:])) / spread
        fastest = max(fastest, slope + errors * noise / spread**0.5)
    return fastest
