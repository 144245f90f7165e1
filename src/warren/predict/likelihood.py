"""Each family fitted to a curve by maximum likelihood: where sampling starts.

JPAS (1)-(2): with Gaussian noise the likelihood of a family's member is greatest where the squared
errors are least. Given a shape, its level and gain follow by least squares in closed form, so the
maximum over the whole grid of shapes takes one matrix product.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from warren.model.costs import FloatArray
from warren.predict.curve import MAD_TO_SD
from warren.predict.curve_families import FAMILIES, Family, rises

_LEAST: Final = 1e-12
TRUSTED: Final = 3.0
"""Standard deviations off the curve from which on a point counts less."""


@dataclass(frozen=True, slots=True)
class Points:
    """The points of a fit: rising values ``y`` at progress ``z``, each of some ``weight``; (n,)."""

    z: FloatArray
    y: FloatArray
    weight: FloatArray

    @property
    def z_1(self) -> float:
        """Return the progress of the first point."""
        return float(self.z[0])


@dataclass(frozen=True, slots=True)
class Shapes:
    """A family's shapes at the points, (g, n), as they are and less their weighted means."""

    values: FloatArray
    centred: FloatArray
    square: FloatArray
    """Weighted squares of ``centred``, summed over points, (g,)."""


@dataclass(frozen=True, slots=True)
class BestFit:
    """The likeliest member of one family: ``level + gain * shape``, gain >= 0.

    ``fit`` are its values at the points, ``error`` its weighted sum of squares.
    """

    shape: int
    level: float
    gain: float
    fit: FloatArray
    error: float


def shapes_of(points: Points, families: Sequence[Family] = FAMILIES) -> tuple[Shapes, ...]:
    """Evaluate every shape of each family at the points."""
    found = []
    for family in families:
        values = rises(family, points.z, points.z_1)
        centred = values - (values @ points.weight / points.weight.sum())[:, None]
        square = np.maximum(centred**2 @ points.weight, _LEAST)
        found.append(Shapes(values, centred, square))
    return tuple(found)


def likeliest(points: Points, shapes: Shapes) -> BestFit:
    """Find the maximum of JPAS (2) over the shapes, levels and gains of one family."""
    # For each shape the least squares gain, at least 0, with the level taken out by centring. It
    # explains gain^2 square of the squares, so the shape that explains most has the least error.
    weight = points.weight
    mean = float(points.y @ weight / weight.sum())
    gain_g = np.maximum(shapes.centred @ (weight * (points.y - mean)) / shapes.square, 0.0)
    shape = int(np.argmax(gain_g**2 * shapes.square))
    gain = float(gain_g[shape])
    fit = mean + gain * shapes.centred[shape]
    level = float(fit[0] - gain * shapes.values[shape, 0])
    return BestFit(shape, level, gain, fit, float(weight @ (points.y - fit) ** 2))


def trusted(points: Points) -> Points:
    """Return the points, with less weight for those far off the best member of all families.

    A point further off than three standard deviations (by the median) counts as a point at that
    distance, so that a single bad evaluation does not bend the curve. Huber (1964), one step.
    """
    best = min((likeliest(points, one) for one in shapes_of(points)), key=lambda one: one.error)
    off = np.abs(points.y - best.fit)
    usual = TRUSTED * MAD_TO_SD * float(np.median(off))
    if usual <= 0:
        return points
    return Points(
        points.z, points.y, points.weight * np.minimum(1.0, usual / np.maximum(off, usual))
    )
