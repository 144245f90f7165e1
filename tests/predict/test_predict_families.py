"""The families of curves: as printed in JPAS, Table 1, and always rising."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from warren.model.costs import FloatArray
from warren.predict.curve_families import FAMILIES, FAR, rises

FIRST, LAST = 3.0, 250.0
X = np.linspace(FIRST, 2000.0, 60)
Member = tuple[FloatArray, tuple[float, ...], float]
"""Values of a printed formula at X; the shape that it has in progress; the gain."""


def pow4(c: float, a: float, b: float, alpha: float) -> Member:
    return c - (a * X + b) ** -alpha, (b / (a * LAST), alpha), b**-alpha


def exp4(c: float, a: float, b: float, alpha: float) -> Member:
    return c - np.exp(-a * X**alpha + b), (a ** (-1 / alpha) / LAST, alpha), float(np.exp(b))


def pow3(c: float, a: float, b: float, alpha: float) -> Member:
    return c - a * X**-alpha, (alpha,), a * FIRST**-alpha


def log_log(c: float, a: float, b: float, alpha: float) -> Member:
    return np.log(a * np.log(X) + b), (b / a + np.log(FIRST),), 1.0


def log_power(c: float, a: float, b: float, alpha: float) -> Member:
    return a / (1 + (X / np.exp(b)) ** -alpha), (np.exp(b) / LAST, alpha), a


def mmf(c: float, a: float, b: float, alpha: float) -> Member:
    high, low, kappa = c + b, c, a / 50
    return high - (high - low) / (1 + (kappa * X) ** alpha), (1 / (kappa * LAST), alpha), b


PRINTED: dict[str, Callable[[float, float, float, float], Member]] = {
    "pow4": pow4, "exp4": exp4, "pow3": pow3, "log-log-linear": log_log, "log-power": log_power,
    "MMF": mmf,
}  # fmt: skip


def test_there_are_six_of_them() -> None:
    assert [family.name for family in FAMILIES] == list(PRINTED)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda one: one.name)
def test_a_member_as_printed_is_a_level_and_a_gain_of_a_shape(family) -> None:  # type: ignore[no-untyped-def]
    random = np.random.default_rng(5)
    for _ in range(20):
        c, a, b, alpha = random.uniform([-1, 0.05, 0.1, 0.2], [2, 2, 3, 1.5])
        values, shape, gain = PRINTED[family.name](c, a, b, alpha)
        risen = family.rise(X / LAST, FIRST / LAST, np.array([shape]))[0]
        level = values[0] - gain * risen[0]
        assert values == pytest.approx(level + gain * risen, abs=1e-9)


@pytest.mark.parametrize("first", [0.001, 0.05, 0.5])
@pytest.mark.parametrize("family", FAMILIES, ids=lambda one: one.name)
def test_every_shape_rises_everywhere_from_0_to_1(family, first: float) -> None:  # type: ignore[no-untyped-def]
    z = np.geomspace(first, FAR, 400)
    values = rises(family, z, first)
    assert values.shape == (len(family.grid), 400)
    assert np.diff(values, axis=1).min() >= -1e-12
    assert np.abs(values[:, 0]).max() == 0
    flat = values[:, -1] == 0  # all of its rise was before the first point
    assert flat.sum() <= 2
    assert values[~flat, -1] == pytest.approx(1.0)
    assert rises(family, np.array([100.0]), first)[~flat].min() >= 1 - 1e-12
