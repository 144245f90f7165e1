"""The gain of the next period: JPAS (21)-(22), its orders and its speed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from warren.predict.accuracy_gain import (
    accuracy_gain,
    expected_gain,
    orders_by_gain,
    steps_ahead,
)
from warren.predict.curve import Curve, curve_of

Gain = Callable[[Curve, float, int], float]
STEPS = np.arange(1.0, 61.0)


def test_the_greatest_gain_is_the_first_order() -> None:
    assert orders_by_gain((0.1, 0.4, 0.0, 0.4)) == (3, 1, 4, 2)


def test_a_period_has_the_steps_that_its_speed_makes() -> None:
    assert steps_ahead(60, 5) == 300


@pytest.mark.parametrize("gain", [accuracy_gain, expected_gain])
def test_a_gain_is_what_the_curve_gains_in_units_of_its_limit(gain: Gain) -> None:
    values = 0.9 - 0.7 * STEPS**-0.5
    truth = 0.7 * (60**-0.5 - 90**-0.5)
    found = gain(curve_of(STEPS, values), 30, 1)
    assert found == pytest.approx(truth, abs=0.01)
    assert gain(curve_of(STEPS, 100 * values), 30, 1) == pytest.approx(found, abs=0.002)
    falling = gain(curve_of(STEPS, 3 * (1.1 - values)), 30, 1)
    assert falling == pytest.approx(truth / 0.9, abs=0.015)
    assert gain(curve_of(STEPS, np.full(60, 0.3)), 30, 1) == 0


def test_a_young_job_gains_more_than_an_old_one_and_no_time_gains_nothing() -> None:
    values = 0.9 - 0.7 * STEPS**-0.5
    young, old = curve_of(STEPS[:10], values[:10]), curve_of(STEPS, values)
    assert expected_gain(young, 20, 1) > 2 * expected_gain(old, 20, 1)
    assert expected_gain(old, 0, 1) == 0


def test_one_lucky_evaluation_lowers_the_published_gain_and_hardly_ours() -> None:
    values = 0.9 - 0.7 * STEPS**-0.5
    lucky = values.copy()
    lucky[-1] += 0.05
    usual, other = curve_of(STEPS, values), curve_of(STEPS, lucky)
    assert accuracy_gain(other, 30, 1) < accuracy_gain(usual, 30, 1) - 0.03
    assert expected_gain(other, 30, 1) == pytest.approx(expected_gain(usual, 30, 1), abs=0.015)
