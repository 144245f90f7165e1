"""JPAS as printed: six families in their own parameters, single fits, and a plain emcee run.

No estimate here comes from `warren.predict`: it is what that is held against.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from warren.predict.curve import Curve, direction_of, shift_of

Array = NDArray[np.float64]

WALKERS: Final = 64
STEPS: Final = 1500
BURN_IN: Final = 500
THIN: Final = 10


@dataclass(frozen=True, slots=True)
class Printed:
    """A family as Table 1 should print it; ``low`` and ``high``: bounds within which it rises."""

    name: str
    curve: Callable[..., Array]
    low: tuple[float, ...]
    high: tuple[float, ...]


def _log_log(x: Array, a: Any, b: Any) -> Array:
    return np.log(np.maximum(a * np.log(x) + b, 1e-12))


PRINTED: Final = (
    Printed("pow4", lambda x, c, a, b, al: c - (a * x + b) ** -al,
            (-10, 1e-6, 1e-6, 1e-3), (10, 100, 100, 10)),
    Printed("exp4", lambda x, c, a, al, b: c - np.exp(-a * x**al + b),
            (-10, 1e-6, 1e-3, -10), (10, 10, 3, 10)),
    Printed("pow3", lambda x, c, a, al: c - a * x**-al, (-10, 1e-6, 1e-3), (10, 10, 10)),
    Printed("log-log-linear", _log_log, (1e-6, 1e-3), (10, 10)),
    Printed("log-power", lambda x, a, b, c: a / (1 + (x / np.exp(b)) ** c),
            (1e-6, -10, -10), (10, 10, -1e-3)),
    Printed("MMF", lambda x, al, be, ka, de: al - (al - be) / (1 + (ka * x) ** de),
            (-10, -10, 1e-6, 1e-3), (10, 10, 100, 10)),
)  # fmt: skip
_SIZES: Final = [len(one.low) for one in PRINTED]
_LOW: Final = np.concatenate([one.low for one in PRINTED])
_HIGH: Final = np.concatenate([one.high for one in PRINTED])


def fitted(family: Printed, x: Array, y: Array, random: np.random.Generator) -> tuple[Array, float]:
    """Parameters and squared error of the maximum likelihood (2), from several starts."""
    low, high = np.array(family.low), np.array(family.high)
    best, least = (low + high) / 2, np.inf
    for _ in range(8):
        either, above = random.uniform(-1, 1, len(low)), 10 ** random.uniform(-2, 0.5, len(low))
        start = np.where(low < 0, either, above)
        start = np.clip(start, low + 1e-9, high - 1e-9)
        with np.errstate(all="ignore"):
            found = least_squares(
                lambda p: np.nan_to_num(family.curve(x, *p) - y, nan=1e3, posinf=1e3, neginf=-1e3),
                start, bounds=(low, high), max_nfev=200,
            )  # fmt: skip
        if 2 * found.cost < least:
            best, least = found.x, 2 * float(found.cost)
    return best, least


@dataclass(frozen=True, slots=True)
class AsAccuracy:
    """A curve as the paper takes it: epochs ``x`` from 1, accuracies ``y``; a loss is 1 - v/v_1."""

    x: Array
    y: Array
    at: float
    top: float | None
    unit: float

    @staticmethod
    def of(seen: Curve, at: float, unit: float | None) -> AsAccuracy:
        """Made by hand for each curve, with what its source says of its unit."""
        gap, shift = float(np.median(np.diff(seen.steps))), shift_of(seen)
        x, to = (seen.steps + shift) / gap, (at + shift) / gap
        if direction_of(seen) < 0:
            top = float(seen.values[0])
            return AsAccuracy(x, 1 - seen.values / top, to, top, 1.0)
        return AsAccuracy(x, seen.values * (unit or 1.0), to, None, unit or 1.0)

    def back(self, value: float) -> float:
        """An accuracy in the curve's own unit."""
        return value / self.unit if self.top is None else (1 - value) * self.top


def single(x: Array, y: Array, at: float, seed: int) -> float:
    """What the family with the least squared error predicts."""
    random = np.random.default_rng(seed)
    fits = [(one, *fitted(one, x, y, random)) for one in PRINTED]
    family, best, _ = min(fits, key=lambda one: one[2])
    with np.errstate(all="ignore"):
        return float(family.curve(np.array([at]), *best)[0])


def plain(x: Array, y: Array, at: float, seed: int) -> tuple[float, float, float]:
    """Mean and 80 % interval of 64 walkers x 1,500 steps over all parameters (4)."""
    import emcee

    random = np.random.default_rng(seed)
    theta = np.concatenate([fitted(one, x, y, random)[0] for one in PRINTED])
    start_fit = _combined(np.concatenate([theta, np.full(6, 1 / 6)])[None, :], x)[0]
    sigma = max(float(np.sqrt(np.mean((y - start_fit) ** 2))), 1e-4)
    middle = np.concatenate([theta, np.full(6, 1 / 6), [sigma]])
    start = middle * (1 + 1e-2 * random.standard_normal((WALKERS, len(middle))))
    start[:, : len(theta)] = np.clip(start[:, : len(theta)], _LOW + 1e-9, _HIGH - 1e-9)
    np.random.seed(seed)
    walk = emcee.EnsembleSampler(
        WALKERS, len(middle), _log_posterior, args=(x, y, at), vectorize=True
    )
    walk.run_mcmc(start, STEPS, skip_initial_state_check=True)
    kept = walk.get_chain(discard=BURN_IN, thin=THIN, flat=True)
    values = _combined(kept, np.array([at]))[:, 0]
    noisy = values + kept[:, -1] * random.standard_normal(len(values))
    low, high = np.quantile(noisy, [0.1, 0.9])
    return float(values.mean()), float(low), float(high)


def _combined(xi: Array, x: Array) -> Array:
    """Equation (3) for many parameter vectors, (w, n)."""
    total = np.zeros((len(xi), len(x)))
    start, weights = 0, xi[:, sum(_SIZES) : sum(_SIZES) + 6]
    with np.errstate(all="ignore"):
        for number, family in enumerate(PRINTED):
            own = xi[:, start : start + _SIZES[number]]
            start += _SIZES[number]
            total += weights[:, number, None] * family.curve(x[None, :], *own.T[:, :, None])
    return total


def _log_posterior(xi: Array, x: Array, y: Array, at: float) -> Array:
    """(7)-(11), with the mean of (9) at i; bounds make the flat priors proper."""
    weights, sigma = xi[:, -7:-1], xi[:, -1]
    theta = xi[:, : sum(_SIZES)]
    inside = ((theta >= _LOW) & (theta <= _HIGH)).all(axis=1)
    inside &= (weights > 0).all(axis=1) & (weights < 10).all(axis=1) & (sigma > 1e-6) & (sigma < 10)
    found = np.full(len(xi), -np.inf)
    if not inside.any():
        return found
    curve = _combined(xi[inside], np.append(x, at))
    error = ((curve[:, :-1] - y) ** 2).sum(axis=1)
    own = sigma[inside]
    value = -0.5 * error / own**2 - len(x) * np.log(own)
    value[~(curve[:, 0] < curve[:, -1])] = -np.inf
    found[inside] = np.nan_to_num(value, nan=-np.inf)
    return found
