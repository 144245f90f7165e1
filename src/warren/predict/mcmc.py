"""Samples of the posterior (7) over the weighted sum (3) of the six families, by Gibbs sampling.

The curve is ``level + sum_k gain_k * shape_k(z)`` with gains >= 0 (see
`warren.predict.curve_families`), the noise Gaussian. One sweep redraws, family by family, its shape
and its gain together, given the sum of the other families; the level is integrated out. Given a
shape the gain is a Gaussian cut off at 0, and the likelihood after integrating over it weights the
shapes, so each draw is exact: no step size, no rejection. Then level and noise are drawn from their
distributions. All chains go at once, so that a sweep is a few products of matrices.

*Source.* JPAS (3)-(12) for model and constraints; Ritter and Tanner (1992) for drawing from grids.

*Differs.* The paper samples with an ensemble (emcee) in its 27 parameters. Priors are on curves,
not on parameters: shapes alike, the rise that a family adds up to ten times the progress seen is
exponential, and the noise has an inverse gamma prior around the differences of neighboring points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import log_ndtr, ndtri_exp

from warren.model.costs import FloatArray, IntArray
from warren.predict.curve_families import FAMILIES, Family, rises
from warren.predict.likelihood import Points, Shapes, likeliest, shapes_of

CHAINS: Final = 30
BURN_IN: Final = 15
SWEEPS: Final = 25
_NOISE_WORTH: Final = 4.0
"""Points that the prior of the noise counts as."""


@dataclass(frozen=True, slots=True)
class Prior:
    """The prior of gains and noise, in units of the points.

    ``rise``: mean of a family's gain, which is exponential; ``noise``: standard deviation of values
    around the curve.
    """

    rise: float
    noise: float


@dataclass(frozen=True, slots=True)
class Posterior:
    """Samples of curves: ``shape`` rows of grids, ``gain`` (s, k); ``level``, ``noise`` (s,).

    ``z_1`` is the progress of the first point, from which shapes rise.
    """

    families: tuple[Family, ...]
    z_1: float
    shape: IntArray
    gain: FloatArray
    level: FloatArray
    noise: FloatArray

    def values(self, z: FloatArray) -> FloatArray:
        """Return each sample's curve (5) at some progress, (s, m); none falls anywhere."""
        total = np.repeat(self.level[:, None], len(z), axis=1)
        for number, family in enumerate(self.families):
            # Many samples share a shape: each shape in use is evaluated once.
            used, place = np.unique(self.shape[:, number], return_inverse=True)
            some = Family(family.name, family.grid[used], family.rise)
            total += self.gain[:, number, None] * rises(some, z, self.z_1)[place]
        return total


def sampled(
    points: Points,
    prior: Prior,
    seed: int,
    *,
    families: Sequence[Family] = FAMILIES,
    chains: int = CHAINS,
    burn_in: int = BURN_IN,
    sweeps: int = SWEEPS,
) -> Posterior:
    """Draw ``chains * sweeps`` samples, after ``burn_in`` sweeps of each chain that are left out.

    The points rise; ``prior`` is of gains and noise. Chains start at each family's likeliest
    member, weighed at random with 1/K each on average.
    """
    random = np.random.Generator(np.random.PCG64(seed))
    walk = _Walk(points, prior, random, families, chains)
    kept = [walk.sweep() for _ in range(burn_in + sweeps)][burn_in:]
    shape, gain, level, noise = (np.concatenate(one) for one in zip(*kept, strict=True))
    return Posterior(tuple(families), points.z_1, shape, gain, level, noise)


class _Walk:
    """The state of all chains (w): shape and gain of each family, the curve's values, the noise."""

    def __init__(
        self,
        points: Points,
        prior: Prior,
        random: np.random.Generator,
        families: Sequence[Family],
        chains: int,
    ) -> None:
        self.points = points
        self.prior = prior
        self.random = random
        self.shapes = shapes_of(points, families)
        start = [likeliest(points, one) for one in self.shapes]
        # Dirichlet with parameters below 1: most chains start near one family or two.
        share = random.dirichlet(np.full(len(start), 0.5), chains)
        self.shape = np.tile(np.array([one.shape for one in start]), (chains, 1))
        self.gain = share * np.array([one.gain for one in start])
        self.total = sum(self._added(number) for number in range(len(start)))
        self.noise = np.full(chains, max(prior.noise, 1e-9))

    def sweep(self) -> tuple[IntArray, FloatArray, FloatArray, FloatArray]:
        """Redraw all parameters once, and return them: shape, gain, level and noise."""
        # Each family in turn, given the sum of the others.
        for number, shapes in enumerate(self.shapes):
            self.total = self.total - self._added(number)
            self._draw_member(number, shapes)
            self.total = self.total + self._added(number)
        # The noise's variance, with the level integrated out (hence one point less): an inverse
        # gamma of half the prior's and the points' worth, and of half their sum of squares.
        weight = self.points.weight
        off = self.points.y - self.total
        mean = off @ weight / weight.sum()
        error = (off - mean[:, None]) ** 2 @ weight
        worth = 0.5 * (_NOISE_WORTH + weight.sum() - 1.0)
        scale = 0.5 * (_NOISE_WORTH * self.prior.noise**2 + error)
        self.noise = np.sqrt(scale / self.random.standard_gamma(worth, len(error)))
        # The level given the noise: a Gaussian around the weighted mean of the residuals.
        drawn = self.random.standard_normal(len(error))
        level = mean + self.noise / np.sqrt(weight.sum()) * drawn
        return self.shape.copy(), self.gain.copy(), level, self.noise.copy()

    def _added(self, number: int) -> FloatArray:
        """Return a family's addition to each chain's curve at the points, (w, n)."""
        members = self.shapes[number].values[self.shape[:, number]]
        return np.asarray(self.gain[:, number, None] * members)

    def _draw_member(self, number: int, shapes: Shapes) -> None:
        """Redraw shape and gain of one family in every chain, given the sum of the others."""
        # For each shape (g) and chain (w) the gain's posterior is a Gaussian, of mean
        # pull / precision, cut off at 0; the exponential prior shifts ``pull`` by 1 / rise.
        off = self.points.weight * (self.points.y - self.total)
        precision = shapes.square[:, None] / self.noise**2
        pull = shapes.centred @ off.T / self.noise**2 - 1.0 / self.prior.rise
        # The integral over gains >= 0 weighs the shapes; ``standing`` is the Gaussian's mean in
        # units of its deviation. The largest of log weight plus Gumbel noise is a draw by weight.
        standing = pull / np.sqrt(precision)
        log_worth = 0.5 * standing**2 + log_ndtr(standing) - 0.5 * np.log(precision)
        shape = np.argmax(log_worth + self.random.gumbel(size=log_worth.shape), axis=0)
        chain = np.arange(len(shape))
        self.shape[:, number] = shape
        # The gain by inversion of the cut-off Gaussian's distribution; in logarithms, since next to
        # nothing of the Gaussian may lie above 0.
        at, width = standing[shape, chain], 1.0 / np.sqrt(precision[shape, chain])
        below = np.log(1.0 - self.random.random(len(at))) + log_ndtr(at)
        self.gain[:, number] = np.maximum(at - ndtri_exp(below), 0.0) * width
