"""Sampled paths of a curve: on as its families say, or with a late rise; and their mean.

All values are scaled (``warren.predict.forecast.Scaled``): rising, the rise seen is 1, progress is
1 at the last point. No path passes the limit; without one, the rise seen counts as the remainder.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from warren.model.costs import FloatArray
from warren.predict.family_members import Members
from warren.predict.late_rise import LateRise, one_constant

_LEAST_ROOM = 1e-6


@dataclass(frozen=True, slots=True)
class Ahead:
    """The start of paths: the families' ``members``, the ``best`` value so far, the limit.

    ``horizon`` (a,): progress, at least 1; ``chance`` (a,) of a late rise until then, which never
    falls with progress.
    """

    members: Members
    best: float
    limit: float | None
    horizon: FloatArray
    chance: FloatArray

    def room(self) -> float:
        """Return the distance of the limit above the best value; without one, the rise seen."""
        return 1.0 if self.limit is None else max(self.limit - self.best, 0.0)

    def families_mean(self) -> FloatArray:
        """Return the members' weighted mean, (a,), which never falls."""
        members = self.members
        now, later = members.values(np.ones(1)), members.values(self.horizon)
        return np.asarray(members.weight @ below_limit(now, later, self.limit))

    def late_mean(self, power: float) -> FloatArray:
        """Return the mean result of a late rise, (a,)."""
        at = [one_constant(self.best, self.best + self.room(), one, power) for one in self.horizon]
        return np.array(at)

    def mean(self, late: LateRise) -> FloatArray:
        """Return the expected values, without noise, (a,)."""
        usual = self.families_mean()
        return usual + self.chance * (self.late_mean(late.power) - usual)

    def paths(self, samples: int, late: LateRise, random: np.random.Generator) -> FloatArray:
        """Draw ``samples`` paths, (s, a)."""
        # One quantile a path decides whether, and from which step on, it has its late rise.
        rises = (random.permutation(samples) + 0.5)[:, None] / samples <= self.chance
        usual = self._usual(samples, late, random)
        return np.where(rises, self._late(samples, late, random), usual)

    def _usual(self, samples: int, late: LateRise, random: np.random.Generator) -> FloatArray:
        """Draw members by weight, their level and gain within the uncertainty of the noise."""
        members = self.members
        place = (np.arange(samples) + 0.5) / samples
        drawn = random.permutation(np.searchsorted(np.cumsum(members.weight), place))
        drawn = np.minimum(drawn, len(members.weight) - 1)
        noise = members.noise[drawn]
        level = members.level + noise / np.sqrt(members.points) * normal_quantiles(samples, random)
        quantile = (random.permutation(samples) + 0.5) / samples
        gain = members.drawn_gains(drawn, quantile)[:, None]
        now = level[:, None] + gain * members.rises(np.ones(1))[drawn]
        later = level[:, None] + gain * members.rises(self.horizon)[drawn]
        paths = below_limit(now, later, self.limit)
        # The remainder varies: a lognormal of mean 1, whose logarithm's variance grows with that of
        # progress.
        left = np.ones_like(paths) if self.limit is None else np.maximum(self.limit - paths, 0.0)
        width = late.wobble * np.sqrt(np.log(self.horizon))
        wobble = np.exp(width * normal_quantiles(samples, random)[:, None] - 0.5 * width**2)
        return np.asarray(paths + left * (1.0 - wobble))

    def _late(self, samples: int, late: LateRise, random: np.random.Generator) -> FloatArray:
        """Draw the remainders of late rises, around the power of progress."""
        width = late.spread * np.sqrt(1.0 - self.horizon**-4.0)
        off = width * normal_quantiles(samples, random)[:, None]
        kept = np.exp(off - late.power * np.log(self.horizon))
        return np.asarray(self.best + self.room() * (1.0 - np.minimum(kept, 1.0)))


def below_limit(now: FloatArray, later: FloatArray, limit: float | None) -> FloatArray:
    """Bend rises from ``now`` so that they near the limit, if any, and never pass it.

    Small rises hardly change: room x / (1 + x^4)^(1/4) with x = rise / room.
    """
    if limit is None:
        return later
    start = np.minimum(now, limit)
    room = np.maximum(limit - start, _LEAST_ROOM)
    # At most 1e6, so that its fourth power stays finite.
    share = np.minimum(np.maximum(later - start, 0.0) / room, 1e6)
    return np.asarray(start + room * share / (1.0 + share**4) ** 0.25)


def normal_quantiles(samples: int, random: np.random.Generator) -> FloatArray:
    """Return evenly spread quantiles of the standard normal distribution, shuffled, (s,).

    They move a mean or an interval less from seed to seed than independent draws.
    """
    return np.asarray(ndtri((random.permutation(samples) + 0.5) / samples))
