"""What a curve will have come to at a later step: mean, interval, chance to reach a target.

The posterior of `warren.predict.sampling` says which sums of families agree with what was seen. It
knows nothing of what is to come that is in no family: learning rates that are cut, schedules that
end, overfitting. Therefore a *departure* is added to each sampled curve, nothing at the last point
and more the further on, and the noise of single evaluations to that.

*Differs.* JPAS predicts with the mean of the sampled curves alone (12). `Departure` has its
constants from real curves; docs/decisions/0018 says how they were chosen and checked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from warren.predict.curve import (
    Curve,
    FloatArray,
    binned,
    direction_of,
    noise_of,
    shift_of,
)
from warren.predict.likelihood import Points, trusted
from warren.predict.sampling import Posterior, Prior, sampled

LOW, HIGH = 0.1, 0.9
_LEAST_NOISE: Final = 0.003
"""In units of the rise that was seen."""


@dataclass(frozen=True, slots=True)
class Departure:
    """How real runs depart from sums of families, in units of the rise seen in the sampled fit.

    At h times the progress seen, a departure is Student-t with ``freedom`` degrees, centre
    ``drift`` and width ``spread``, times ``1 - h^-speed``; above 0 is further in the curve's
    direction.
    """

    drift: float
    spread: float
    speed: float
    freedom: float = 4.0


@dataclass(frozen=True, slots=True)
class Settings:
    """What the predictor takes for granted; the defaults are those of decision 0018.

    ``even``: a bin of n points weighs n^even. ``rise``: prior mean of a family's gain.
    """

    departure: Departure = Departure(0.1, 0.15, 1.0)
    even: float = 0.5
    rise: float = 1.0


@dataclass(frozen=True, slots=True)
class Forecast:
    """Values at ``at`` (a,) steps: sampled ``values`` (s, a), in the curve's own units.

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
        """Chance that the value at each step is ``target`` or better, (a,).

        Better is higher where the curve rises, lower where it falls; a curve without direction
        reaches what it equals.
        """
        if self.direction == 0:
            return (self.values == target).mean(axis=0)
        return (self.direction * (self.values - target) >= 0).mean(axis=0)


def forecast(
    curve: Curve, at: Sequence[float] | FloatArray, seed: int, settings: Settings = Settings()
) -> Forecast:
    """Predict a curve's values at later steps.

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
    scaled = _Scaled.of(curve, direction)
    posterior = scaled.posterior(seed, settings)
    horizon = (at_a + scaled.shift) / scaled.last
    rising, centre = _departed(posterior, horizon, scaled, seed, settings.departure)
    values = scaled.back(rising)
    low, high = np.quantile(values, [LOW, HIGH], axis=0)
    return Forecast(at_a, scaled.back(centre), low, high, values, direction)


@dataclass(frozen=True, slots=True)
class _Scaled:
    """A curve in progress, upside down if it falls, from 0, in units of its rise."""

    points: Points
    shift: float
    last: float
    noise: float
    zero: float
    unit: float

    @staticmethod
    def of(curve: Curve, direction: int, even: float = 0.5) -> _Scaled:
        shift = shift_of(curve)
        last = float(curve.steps[-1]) + shift
        zero = float(curve.values[0])
        bins = binned((curve.steps + shift) / last, direction * (curve.values - zero))
        unit = direction * float(np.ptp(bins.y))
        points = Points(bins.z, bins.y / abs(unit), bins.count**even)
        return _Scaled(trusted(points), shift, last, noise_of(curve) / abs(unit), zero, unit)

    def posterior(self, seed: int, settings: Settings) -> Posterior:
        prior = Prior(settings.rise, max(self.noise, _LEAST_NOISE))
        return sampled(self.points, prior, seed)

    def back(self, rising: FloatArray) -> FloatArray:
        return self.zero + self.unit * rising


def _departed(
    posterior: Posterior, horizon: FloatArray, scaled: _Scaled, seed: int, departure: Departure
) -> tuple[FloatArray, FloatArray]:
    """Sampled values (s, a) with departures and noise, and their expected values (a,)."""
    fit = posterior.values(horizon)
    random = np.random.Generator(np.random.PCG64([seed, 1]))
    how_far = 1.0 - horizon**-departure.speed
    drawn = random.standard_t(departure.freedom, len(fit))
    noise = scaled.noise * random.standard_normal(fit.shape)
    away = departure.drift + departure.spread * drawn[:, None]
    return fit + away * how_far + noise, fit.mean(axis=0) + departure.drift * how_far
