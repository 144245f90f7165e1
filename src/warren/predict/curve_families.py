"""The six families of curves of JPAS, each as shapes that rise.

*Source.* JPAS (JNCA'20), Table 1; its print is damaged, the formulas are those of Domhan et al.
(IJCAI'15), from which it took them:

==============  =================================  ==========================================
pow4            c - (a x + b)^-alpha               -(1 + z/u)^-alpha
exp4            c - exp(-a x^alpha + b)            -exp(-(z/u)^alpha)
pow3            c - a x^-alpha                     -z^-alpha
log-log-linear  log(a log(x) + b)                  log(log(z/z_1) + u)
log-power       a / (1 + (x/e^b)^c), c < 0         1 / (1 + (z/u)^-p)
MMF             alpha - (alpha-beta)/(1+(k x)^d)   1 / (1 + (z/u)^-p)
==============  =================================  ==========================================

To the right is the same curve without its level and its gain: every member of a family is
``level + gain * shape(z)`` with gain >= 0. A weighted sum (3) of members with weights >= 0 is then
one level and six gains >= 0, and it rises everywhere, which (10) asks at two points only.

*Differs.* No data separate the weight and the scale of a family (only their product enters the
sum), so the flat prior of the paper is improper in them; gains are separate. Shapes come from a
grid of values per parameter, even in their logarithms, instead of from the whole half-line. In the
sum, log-power and MMF have the same shapes. A falling curve is a rising one upside down.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from warren.model.costs import FloatArray

FAR: Final = 10.0
"""Gains are in units of the rise between the first point and this progress."""


@dataclass(frozen=True, slots=True)
class Family:
    """One family of curves: its shapes, without level and gain.

    ``grid``: shape parameters (g, p). ``rise(z (m,), z_1, grid)``: values (g, m), rising in z.
    ``z_1`` is the progress of the first point; no z lies before it.
    """

    name: str
    grid: FloatArray
    rise: Callable[[FloatArray, float, FloatArray], FloatArray]


def _grid(*axes: FloatArray) -> FloatArray:
    """Return all combinations of parameter values, (g, p)."""
    return np.stack([one.ravel() for one in np.meshgrid(*axes, indexing="ij")], axis=1)


# The shapes of the table above, in its order; powers are taken by logarithms.
def _pow4(z: FloatArray, z_1: float, grid: FloatArray) -> FloatArray:
    """Evaluate -(1 + z/u)^-alpha."""
    u, alpha = grid[:, :1], grid[:, 1:]
    return -np.exp(-alpha * np.log1p(z / u))


def _exp4(z: FloatArray, z_1: float, grid: FloatArray) -> FloatArray:
    """Evaluate -exp(-(z/u)^alpha)."""
    u, alpha = grid[:, :1], grid[:, 1:]
    return -np.exp(-np.exp(alpha * np.log(z / u)))


def _pow3(z: FloatArray, z_1: float, grid: FloatArray) -> FloatArray:
    """Evaluate -(z/z_1)^-alpha, which is -z^-alpha but for a factor."""
    return -np.exp(-grid * np.log(z / z_1))


def _log_log(z: FloatArray, z_1: float, grid: FloatArray) -> FloatArray:
    """Evaluate log(log(z/z_1) + u)."""
    return np.log(np.log(z / z_1) + grid)


def _hill(z: FloatArray, z_1: float, grid: FloatArray) -> FloatArray:
    """Evaluate 1 / (1 + (z/u)^-p), the shape of log-power and of MMF."""
    u, power = grid[:, :1], grid[:, 1:]
    return 1.0 / (1.0 + np.exp(-power * np.log(z / u)))


# Progress u at which a shape bends, from a hundredth of the observed span to ten times of it.
_U: Final = np.geomspace(0.01, 10.0, 16)
_HILLS: Final = _grid(_U, np.geomspace(0.3, 4.0, 9))

FAMILIES: Final[tuple[Family, ...]] = (
    Family("pow4", _grid(np.geomspace(0.003, 10.0, 12), np.geomspace(0.1, 6.0, 12)), _pow4),
    Family("exp4", _grid(_U, np.geomspace(0.2, 2.0, 9)), _exp4),
    Family("pow3", _grid(np.geomspace(0.01, 4.0, 48)), _pow3),
    Family("log-log-linear", _grid(np.geomspace(0.02, 30.0, 48)), _log_log),
    Family("log-power", _HILLS, _hill),
    Family("MMF", _HILLS, _hill),
)


def rises(family: Family, z: FloatArray, z_1: float) -> FloatArray:
    """Evaluate all shapes of a family at some progress, (g, m), rising: 0 at z_1, 1 at ``FAR``."""
    # A shape that is flat in double precision has no span; it stays 0 instead of 0 / 0.
    ends = family.rise(np.array([z_1, FAR]), z_1, family.grid)
    span = np.maximum(ends[:, 1:] - ends[:, :1], np.finfo(float).tiny)
    return (family.rise(z, z_1, family.grid) - ends[:, :1]) / span
