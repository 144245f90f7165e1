"""What value a curve will have at a later step: mean, interval, chance to reach a target.

The posterior of `warren.predict.mcmc` says which sums of families agree with what was seen. It
knows nothing of what is in no family: learning rates that are cut, schedules that end, overfitting.
`warren.predict.family_error` adds that, and the noise of a single evaluation comes on top.

*Differs.* JPAS predicts with the mean of the sampled curves alone (12).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from warren.model.costs import FloatArray
from warren.predict.curve import Curve, binned, direction_of, limit_of, noise_of, shift_of
from warren.predict.family_error import FamilyError, departed, normal_quantiles
from warren.predict.likelihood import Points, trusted
from warren.predict.mcmc import Posterior, Prior, sampled

LOW: Final = 0.1
HIGH: Final = 0.9
_LEAST_NOISE: Final = 0.003
"""In units of the rise that was seen."""
_EVEN: Final = 0.5
"""A bin of n points weighs n to this power: neighbours err alike."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Assumptions about all curves; docs/decisions/0019 tells of the defaults.

    ``rise``: how much each family is expected to add until ten times the progress seen, in units
    of the rise seen; ``family_error``: how real runs depart from sums of families.
    """

    rise: float = 0.1
    departure: FamilyError = field(default_factory=FamilyError)


DEFAULT: Final = Settings()


@dataclass(frozen=True, slots=True)
class Forecast:
    """Predicted values at ``at`` (a,) steps: sampled ``values`` (s, a), in the curve's own units.

    ``mean``, ``low`` and ``high`` (a,): the mean, and where 80 % of the values lie, a tenth on
    either side. ``direction`` is 1 where values rise, -1 where they fall, 0 where all are equal.
    """

    at: FloatArray
    mean: FloatArray
    low: FloatArray
    high: FloatArray
    values: FloatArray
    direction: int

    def reaches(self, target: float) -> FloatArray:
        """Return the chance that the value at each step is ``target`` or better, (a,).

        Better is higher where the curve rises, lower where it falls; a curve without direction
        reaches what it equals.
        """
        if self.direction == 0:
            return np.asarray((self.values == target).mean(axis=0))
        return np.asarray((self.direction * (self.values - target) >= 0).mean(axis=0))


def forecast(
    curve: Curve, at: Sequence[float] | FloatArray, seed: int, settings: Settings = DEFAULT
) -> Forecast:
    """Predict a curve's values at later steps.

    A sample is one path through all of them, off it by the same noise at each.

    Parameters
    ----------
    curve
        What was observed.
    at
        Steps from the last observed one on, in the curve's own unit.
    seed
        Of all draws; the same seed gives the same forecast.
    settings
        What is assumed of all curves.

    Raises
    ------
    ValueError
        If a step is not finite or lies before the last one observed.
    """
    at_a = np.asarray(at, dtype=float)
    last = float(curve.steps[-1])
    if not np.all(np.isfinite(at_a)):
        raise ValueError("a step to predict is not finite")
    if np.any(at_a < last):
        raise ValueError(f"step {at_a.min():g} lies before the last observed one, {last:g}")
    direction = direction_of(curve)
    if direction == 0:
        same = np.full(len(at_a), curve.values[0])
        return Forecast(at_a, same, same, same, same[None, :], 0)
    # The posterior (7) over sums of families, then their departures, then the noise of a value.
    scaled = Scaled.of(curve, direction)
    posterior = scaled.posterior(seed, settings.rise)
    # A stream of its own, apart from that of the posterior's sampler.
    random = np.random.Generator(np.random.PCG64([seed, 1]))
    horizon = scaled.horizon(at_a)
    paths, mean = departed(posterior, horizon, scaled.limit, settings.departure, random)
    # One deviation a path, the same at each step; the quantiles are spread evenly over the paths.
    noisy = paths + scaled.noise * normal_quantiles(len(paths), random)[:, None]
    values = scaled.back(noisy)
    low, high = np.quantile(values, [LOW, HIGH], axis=0)
    return Forecast(at_a, scaled.back(mean), low, high, values, direction)


@dataclass(frozen=True, slots=True)
class Scaled:
    """A curve in progress, from 0 at its first value, rising, in units of the rise seen.

    ``last``: the step that is progress 1, ``shift`` added to it; ``noise`` of one value and
    ``limit`` of all in the units of ``points``, ``bound`` in their own; a value is
    ``zero + unit * y``.
    """

    points: Points
    shift: float
    last: float
    noise: float
    limit: float | None
    bound: float | None
    zero: float
    unit: float

    @staticmethod
    def of(curve: Curve, direction: int) -> Scaled:
        """Scale a curve that is not constant."""
        shift = shift_of(curve)
        last = float(curve.steps[-1]) + shift
        zero = float(curve.values[0])
        # In progress, from 0 at the first value, and rising whichever way the curve goes.
        bins = binned((curve.steps + shift) / last, direction * (curve.values - zero))
        rise = float(np.ptp(bins.y))
        bound = limit_of(curve, direction)
        return Scaled(
            points=trusted(Points(bins.z, bins.y / rise, bins.count**_EVEN)),
            shift=shift,
            last=last,
            noise=noise_of(curve) / rise,
            limit=None if bound is None else direction * (bound - zero) / rise,
            bound=bound,
            zero=zero,
            unit=direction * rise,
        )

    def posterior(self, seed: int, rise: float) -> Posterior:
        """Sample sums of families, in progress and in units of the rise seen."""
        return sampled(self.points, Prior(rise, max(self.noise, _LEAST_NOISE)), seed)

    def horizon(self, at: FloatArray) -> FloatArray:
        """Return steps as progress; that of the last point is exactly 1."""
        return (at + self.shift) / self.last

    def back(self, y: FloatArray) -> FloatArray:
        """Return scaled values in the curve's own units, none past the limit."""
        values = self.zero + self.unit * y
        if self.bound is None:
            return values
        return np.minimum(values, self.bound) if self.unit > 0 else np.maximum(values, self.bound)
