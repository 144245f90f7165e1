"""The loss fit of Optimus: ``l(k) = 1 / (a k + b) + c`` with a, b, c of at least 0, k in rounds.

*Source.* Optimus (EuroSys'18), section 3.1; HLAS cites it as [19] for job sizes.

*Differs.* Optimus fits losses that it has divided by the largest, by non-negative least squares.
For a given c the reciprocal of l - c is linear in k, so that a and b follow in closed form; points
are weighted by (l - c)^4, which makes errors of the reciprocal errors of the loss. c is the best of
a grid from 0 to the least loss, which is made finer around its best point. l is measured from the
limit of values (``Shortfall.beyond``), so that a metric that rises can be fitted. Outliers: each
value is the median of the five around it, which leaves monotone curves unchanged. Many points
become 48 bins (``warren.predict.curve.binned``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from warren.model.costs import FloatArray
from warren.predict.curve import binned
from warren.predict.local_trend import Shortfall

_GRID: Final = 33
"""Values of c that are tried at once."""
_FINER: Final = 6
"""Number of grids: each one between the neighbors of the best value before."""
_TINY: Final = 1e-9
_MOST_POINTS: Final = 1024
"""Most points that all count; of more every second, third, ... counts."""


@dataclass(frozen=True, slots=True)
class OptimusFit:
    """A fitted loss curve, ``l(k) = scale (1 / (a k / last + b) + c)`` after k rounds.

    The job ends where l is ``target``.
    """

    a: float
    b: float
    c: float
    scale: float
    last: float
    target: float

    def rounds_at_target(self) -> float:
        """Return the rounds from the job's start to the target; infinite if the curve levels out.

        Solves ``l(k) = target`` for k.
        """
        left = self.target / self.scale - self.c
        if left <= 0 or self.a <= 0:
            return math.inf
        return (1 / left - self.b) / self.a * self.last


def fit(short: Shortfall) -> OptimusFit:
    """Fit three or more points, none of them at the target yet, by least squares.

    The loss is measured from ``beyond`` the target.
    """
    # Every step-th point, counted from the last, so that the latest one always counts.
    step = -(-len(short.short_P) // _MOST_POINTS)
    loss = _smoothed(short.short_P[::-step][::-1]) + short.beyond
    bins = binned(short.rounds_P[::-step][::-1].astype(float), loss)
    last, scale = float(bins.z[-1]), float(bins.y.max())
    # Both axes up to 1. c stays below the least loss, so that l - c is above 0 at each point.
    k, y = bins.z / last, bins.y / scale
    low, high = 0.0, float(y.min()) * (1 - _TINY)
    for _ in range(_FINER):
        grid = np.linspace(low, high, _GRID)
        a, b, error = _linear(k, y, bins.count, grid)
        best = int(np.argmin(error))
        low, high = grid[max(0, best - 1)], grid[min(_GRID - 1, best + 1)]
    return OptimusFit(float(a[best]), float(b[best]), float(grid[best]), scale, last, short.beyond)


def _linear(
    k: FloatArray, y: FloatArray, count: FloatArray, grid: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return non-negative a and b for each c of the grid, and the squared error of the losses.

    For a given c, 1 / (l - c) = a k + b: a weighted regression line for each row of ``left``.
    """
    left = y - grid[:, None]
    weight, reciprocal = count * left**4, 1 / left
    total = weight.sum(axis=1)
    mean_k = (weight @ k) / total
    mean_r = (weight * reciprocal).sum(axis=1) / total
    square = weight @ k**2
    product = (weight * reciprocal) @ k
    # a = (sum w k r - W mean_k mean_r) / (sum w k^2 - W mean_k^2), with r = 1 / (l - c).
    spread = square - total * mean_k**2
    slope = (product - total * mean_k * mean_r) / np.maximum(spread, _TINY * square)
    # The line through the origin, which is the best one where b would be negative; where a would
    # be, the best is the constant b = mean_r.
    through = product / square
    a = np.maximum(slope, 0.0)
    b = mean_r - a * mean_k
    a, b = np.where(b < 0, through, a), np.maximum(b, 0.0)
    fitted = 1 / np.maximum(a[:, None] * k + b[:, None], _TINY)
    error = (count * (fitted - left) ** 2).sum(axis=1)
    return a, b, error


def _smoothed(values: FloatArray) -> FloatArray:
    """Replace each value, but the two at either end, by the median of the five around it."""
    if len(values) < 5:
        return values
    windows = np.lib.stride_tricks.sliding_window_view(values, 5)
    result = values.copy()
    result[2:-2] = np.median(windows, axis=1)
    return result
