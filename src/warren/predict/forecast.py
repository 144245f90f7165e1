"""The value of a curve at a later step: mean, interval, probability to reach a target.

``warren.predict.family_members`` continues the curve as its families do, and
``warren.predict.late_rise`` gives the probability that it departs from them; the stated facts of
the curve (``warren.predict.curve_kind``) decide that. The noise of a single evaluation comes on
top.

*Differs.* JPAS predicts with the mean of sampled sums of families (12), which is
``warren.predict.accuracy_gain.published_mean``; decision 0019 compares both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from warren.model.costs import FloatArray
from warren.predict.curve import Curve, binned, limit_of, noise_of, shift_of, without_spikes
from warren.predict.curve_kind import UNSTATED, CurveKind, whole_of
from warren.predict.curve_paths import Ahead, normal_quantiles
from warren.predict.family_members import Members, members_of
from warren.predict.late_rise import Evidence, LateRise, chance_of, excess_of
from warren.predict.likelihood import Points, trusted
from warren.predict.mcmc import Posterior, Prior, sampled

LOW: Final = 0.1
HIGH: Final = 0.9
_LEAST_NOISE: Final = 0.003
"""In units of the rise that was seen."""
_EVEN: Final = 0.5
"""A bin of n points weighs n to this power: neighbors err alike."""
_SAMPLES: Final = 1000


@dataclass(frozen=True, slots=True)
class Settings:
    """Assumptions about all curves; decision 0019 tells of the defaults.

    ``rise``: how much a family is expected to add until ten times the progress seen, in units of
    the rise seen; ``late``: how likely a late rise is, and how large.
    """

    rise: float = 1.0
    late: LateRise = field(default_factory=LateRise)


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

        Better is higher if the curve rises, lower if it falls; a curve without direction reaches
        the targets that it equals.
        """
        if self.direction == 0:
            return np.asarray((self.values == target).mean(axis=0))
        return np.asarray((self.direction * (self.values - target) >= 0).mean(axis=0))


def forecast(
    curve: Curve,
    at: Sequence[float] | FloatArray,
    seed: int,
    kind: CurveKind = UNSTATED,
    settings: Settings = DEFAULT,
) -> Forecast:
    """Predict a curve's values at later steps.

    A sample is one path through all of them, off it by the same noise at each. Spikes of the curve
    do not count.

    Parameters
    ----------
    curve
        The observed points.
    at
        Steps from the last observed one on, in the curve's own unit.
    seed
        Seed of all draws; the same seed gives the same forecast.
    kind
        Stated facts of the curve: its metric, cuts of its learning rate.
    settings
        Assumptions for all curves.

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
    curve = without_spikes(curve)
    direction = kind.direction(curve)
    if direction == 0:
        same = np.full(len(at_a), curve.values[0])
        return Forecast(at_a, same, same, same, same[None, :], 0)
    if kind.in_logs(curve):
        return _in_logs(curve, at_a, seed, kind, settings)
    scaled = Scaled.of(curve, direction)
    ahead = scaled.ahead(curve, at_a, kind, settings)
    random = np.random.Generator(np.random.PCG64(seed))
    paths = ahead.paths(_SAMPLES, settings.late, random)
    # One deviation a path, the same at each step; the quantiles are spread evenly over the paths.
    noisy = paths + scaled.noise * normal_quantiles(_SAMPLES, random)[:, None]
    values = scaled.back(noisy)
    low, high = np.quantile(values, [LOW, HIGH], axis=0)
    return Forecast(at_a, scaled.back(ahead.mean(settings.late)), low, high, values, direction)


def _in_logs(
    curve: Curve, at_a: FloatArray, seed: int, kind: CurveKind, settings: Settings
) -> Forecast:
    """Predict the logarithm of a perplexity, as the loss that it is."""
    logs = Curve(curve.steps, np.log(curve.values))
    found = forecast(logs, at_a, seed, replace(kind, metric="loss"), settings)
    mean, low, high = (np.exp(one) for one in (found.mean, found.low, found.high))
    return Forecast(at_a, mean, low, high, np.exp(found.values), found.direction)


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
        """Sample sums of families as JPAS does, in progress and in units of the rise seen."""
        return sampled(self.points, Prior(rise, max(self.noise, _LEAST_NOISE)), seed)

    def members(self, rise: float) -> Members:
        """Weigh the families' members, in progress and in units of the rise seen."""
        return members_of(self.points, rise, max(self.noise, _LEAST_NOISE))

    def ahead(
        self, curve: Curve, at: FloatArray, kind: CurveKind, settings: Settings = DEFAULT
    ) -> Ahead:
        """Return the start of the paths of this curve to some steps."""
        members = self.members(settings.rise)
        cut_a = kind.cut_between(float(curve.steps[-1]), at)
        evidence = self.evidence(curve, members, kind)
        stated_a = np.zeros(len(at)) if cut_a is None else np.where(cut_a, 1.0, -1.0)
        best = float(np.max(self.unit_sign * (curve.values - self.zero))) / abs(self.unit)
        return Ahead(
            members=members,
            best=best,
            limit=self.limit,
            horizon=self.horizon(at),
            chance=chance_of(replace(evidence, stated=stated_a), settings.late),
        )

    def evidence(self, curve: Curve, members: Members, kind: CurveKind) -> Evidence:
        """Return the curve's own evidence of late rises, whatever its schedule."""
        direction = int(self.unit_sign)
        accuracy = kind.measure(curve, direction) == "accuracy"
        whole = whole_of(curve, direction) or abs(self.unit)
        noise = members.off(self.points) * abs(self.unit) / whole
        return Evidence(accuracy, excess_of(noise, len(curve)), 0)

    @property
    def unit_sign(self) -> float:
        """Return 1 if values rise, -1 if they fall."""
        return float(np.sign(self.unit))

    def horizon(self, at: FloatArray) -> FloatArray:
        """Return steps as progress; that of the last point is exactly 1."""
        return (at + self.shift) / self.last

    def back(self, y: FloatArray) -> FloatArray:
        """Return scaled values in the curve's own units, none past the limit."""
        values = self.zero + self.unit * y
        if self.bound is None:
            return values
        return np.minimum(values, self.bound) if self.unit > 0 else np.maximum(values, self.bound)
