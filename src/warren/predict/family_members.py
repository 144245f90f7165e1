"""The members of the families, each weighted by how well it alone explains the points.

*What.* Given a shape, its level and gain follow by least squares, and so does the probability of
the points. All shapes of all families are weighed by that: what the curve will be is their weighted
mean. No sampling: a curve takes a matrix product a family.

*Source.* JPAS (JNCA'20), Table 1 for the families and (1) for the noise; Hoeting et al. (1999),
"Bayesian model averaging", for the weights.

*Differs.* JPAS (3) sums the families with weights, each curve a sum of six, and samples all
parameters: ``warren.predict.mcmc``. There every family may add a rise of its own. On curves of one
family the sums err almost twice as much (decision 0019).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import log_ndtr, ndtri_exp

from warren.model.costs import FloatArray, IntArray
from warren.predict.curve import MAD_TO_SD
from warren.predict.curve_families import FAMILIES, Family, rises
from warren.predict.likelihood import TRUSTED, Points, Shapes, shapes_of

_NOISE_WORTH: Final = 4.0
"""Points that the prior knowledge of the noise counts as."""


@dataclass(frozen=True, slots=True)
class Members:
    """All members (m,): ``weight``, 1 in sum, and ``level + gain (rise(z) - offset)`` for each.

    The gain is a Gaussian around ``middle`` of deviation ``width``, cut off at 0; the level is
    uncertain by the ``noise`` of one point over the root of the number of ``points``.
    """

    families: tuple[Family, ...]
    z_1: float
    weight: FloatArray
    level: float
    middle: FloatArray
    width: FloatArray
    offset: FloatArray
    noise: FloatArray
    points: float

    def rises(self, z: FloatArray) -> FloatArray:
        """Return each member's shape at some progress, less its offset, (m, a)."""
        shapes = np.concatenate([rises(one, z, self.z_1) for one in self.families])
        return shapes - self.offset[:, None]

    def gains(self) -> FloatArray:
        """Return each member's expected gain, (m,)."""
        # The mean of a Gaussian cut off at 0: phi(t) / Phi(t) deviations above its middle.
        standing = self.middle / self.width
        log_density = -0.5 * standing**2 - 0.5 * np.log(2.0 * np.pi)
        above = np.exp(log_density - log_ndtr(standing))
        return np.asarray(self.width * np.maximum(standing + above, 0.0))

    def drawn_gains(self, member: IntArray, quantile: FloatArray) -> FloatArray:
        """Return gains of some members at these quantiles of theirs, in (0, 1); (s,)."""
        # By inversion; in logarithms, since next to nothing of the Gaussian may lie above 0.
        standing = self.middle[member] / self.width[member]
        below = np.log1p(-quantile) + log_ndtr(standing)
        return np.asarray(self.width[member] * np.maximum(standing - ndtri_exp(below), 0.0))

    def values(self, z: FloatArray) -> FloatArray:
        """Return each member's expected values at some progress, (m, a); none falls anywhere."""
        return self.level + self.gains()[:, None] * self.rises(z)

    def off(self, points: Points) -> float:
        """Return the points' distance from the likeliest member: the root of the mean square.

        A single point counts as at most three standard deviations off, by the median.
        """
        off = np.abs(points.y - self.values(points.z)[int(np.argmax(self.weight))])
        off = np.minimum(off, TRUSTED * MAD_TO_SD * float(np.median(off)))
        return float(np.sqrt(points.weight @ off**2 / points.weight.sum()))


def members_of(
    points: Points, rise: float, noise: float, families: Sequence[Family] = FAMILIES
) -> Members:
    """Weigh all members by the probability of the points.

    ``rise``: mean of the gain beforehand, which is exponential, in units of the points; ``noise``:
    the deviation of one point, beforehand.
    """
    shapes = shapes_of(points, families)
    gain, error = zip(*(_fitted(points, one) for one in shapes), strict=True)
    gain_m, error_m = np.concatenate(gain), np.maximum(np.concatenate(error), 0.0)
    square_m = np.concatenate([one.square for one in shapes])
    total = float(points.weight.sum())
    # The variance of a point, an inverse gamma beforehand; the level integrated out, hence one
    # point less.
    known = _NOISE_WORTH * noise**2
    worth = max(1.0, _NOISE_WORTH + total - 1.0)
    noise_m = np.sqrt((known + error_m) / worth)
    # Given the noise the gain is a Gaussian around least squares, times its exponential prior,
    # which shifts it; cut off at 0. ``standing``: its middle in units of its deviation.
    width_m = noise_m / np.sqrt(square_m)
    middle_m = gain_m - width_m**2 / rise
    standing_m = middle_m / width_m
    log_weight = -0.5 * worth * np.log(known + error_m) + np.log(width_m)
    log_weight += log_ndtr(standing_m) + 0.5 * (standing_m**2 - (gain_m / width_m) ** 2)
    # Each family counts as much as the others, however many shapes its grid has.
    counts = np.array([len(one.square) for one in shapes])
    log_weight -= np.repeat(np.log(counts), counts)
    weight = np.exp(log_weight - log_weight.max())
    return Members(
        families=tuple(families),
        z_1=points.z_1,
        weight=weight / weight.sum(),
        level=float(points.y @ points.weight) / total,
        middle=middle_m,
        width=width_m,
        offset=np.concatenate([one.values @ points.weight for one in shapes]) / total,
        noise=noise_m,
        points=total,
    )


def _fitted(points: Points, shapes: Shapes) -> tuple[FloatArray, FloatArray]:
    """Return the least squares gain, of either sign, and its squared error, of each shape (g,)."""
    weight = points.weight
    centred = points.y - float(points.y @ weight / weight.sum())
    gain = shapes.centred @ (weight * centred) / shapes.square
    return gain, float(weight @ centred**2) - gain**2 * shapes.square
