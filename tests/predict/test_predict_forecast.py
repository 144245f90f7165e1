"""Forecasts: known curves go on as they are; units do not matter; intervals mean something."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from warren.model.costs import FloatArray
from warren.predict.curve import curve_of
from warren.predict.curve_kind import CurveKind
from warren.predict.forecast import Settings, forecast
from warren.predict.late_rise import LateRise

pytestmark = pytest.mark.slow

STEPS = np.arange(1.0, 101.0)
NEVER = CurveKind("accuracy", ())
FAITHFUL = Settings(late=LateRise(stated=1000.0, wobble=0.0))
"""With ``NEVER``: for runs that never depart from the families."""
KNOWN: dict[str, Callable[[FloatArray], FloatArray]] = {
    "pow4": lambda x: 0.9 - (0.5 * x + 2) ** -0.7,
    "exp4": lambda x: 0.8 - np.exp(-0.2 * x**0.6 - 0.3),
    "pow3": lambda x: 0.95 - 0.7 * x**-0.5,
    "log-log-linear": lambda x: np.log(0.3 * np.log(x) + 1.1),
    "log-power": lambda x: 0.85 / (1 + (x / np.exp(2.0)) ** -1.1),
    "MMF": lambda x: 0.9 - 0.8 / (1 + (0.05 * x) ** 1.2),
}  # fmt: skip


def accuracy(steps: FloatArray, noise: float = 0.01, seed: int = 3) -> FloatArray:
    random = np.random.default_rng(seed)
    return KNOWN["pow4"](steps) + noise * random.standard_normal(len(steps))


@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.parametrize("way", [1, -1])
def test_a_curve_of_a_family_is_continued(name: str, way: int) -> None:
    values = way * KNOWN[name](STEPS)
    found = forecast(curve_of(STEPS, values), [200.0, 300.0], 1, NEVER, FAITHFUL)
    truth = way * KNOWN[name](np.array([200.0, 300.0]))
    assert found.direction == way
    # Six families of at least 0 each: what rises longer than the truth adds, nothing takes away.
    assert np.all(np.abs(found.mean - truth) <= np.array([0.05, 0.08]) * np.ptp(values))


def test_a_weighted_sum_of_families_is_continued() -> None:
    both = lambda x: 0.4 * KNOWN["exp4"](x) + 0.6 * KNOWN["MMF"](x)  # noqa: E731
    found = forecast(curve_of(STEPS, both(STEPS)), [200.0], 1, NEVER, FAITHFUL)
    assert found.mean[0] == pytest.approx(both(200.0), abs=0.03)
    assert found.mean[0] > both(100.0)


def test_the_interval_holds_the_truth_in_about_four_of_five_noisy_curves() -> None:
    hits = 0
    for seed in range(30):
        curve = curve_of(STEPS, accuracy(STEPS, 0.02, seed))
        found = forecast(curve, [200.0], seed, NEVER, FAITHFUL)
        value = accuracy(np.array([200.0]), 0.02, 1000 + seed)[0]
        hits += bool(found.low[0] <= value <= found.high[0])
    assert 18 <= hits <= 29


@pytest.mark.parametrize("scale", [0.001, 1024.0, 1e9])
def test_the_unit_of_steps_does_not_matter(scale: float) -> None:
    values = accuracy(STEPS)
    one = forecast(curve_of(STEPS, values), [200.0, 1000.0], 1)
    other = forecast(curve_of(STEPS * scale, values), [200.0 * scale, 1000.0 * scale], 1)
    assert other.mean == pytest.approx(one.mean, abs=0.01)
    assert other.low == pytest.approx(one.low, abs=0.02)
    if scale == 1024:  # a power of two changes no digit
        assert np.array_equal(one.values, other.values)


def test_the_unit_of_values_does_not_matter() -> None:
    values = accuracy(STEPS)
    one = forecast(curve_of(STEPS, values), [200.0], 1)
    percent = forecast(curve_of(STEPS, 100 * values), [200.0], 1)
    assert percent.mean[0] / 100 == pytest.approx(one.mean[0], abs=0.005)
    free = forecast(curve_of(STEPS, 1000 * values), [200.0], 1)
    moved = forecast(curve_of(STEPS, 1000 * values - 5000), [200.0], 1)
    assert moved.mean[0] + 5000 == pytest.approx(free.mean[0], abs=5)


def test_loss_is_accuracy_upside_down() -> None:
    values = accuracy(STEPS)
    up = forecast(curve_of(STEPS, values), [200.0], 1)
    down = forecast(curve_of(STEPS, 1 - values), [200.0], 1)
    assert (up.direction, down.direction) == (1, -1)
    assert 1 - down.mean[0] == pytest.approx(up.mean[0], abs=0.005)
    assert 1 - down.low[0] == pytest.approx(up.high[0], abs=0.01)
    assert down.reaches(0.13)[0] == pytest.approx(up.reaches(0.87)[0], abs=0.03)
    below_0 = forecast(curve_of(STEPS, -1000 * values), [200.0], 1)
    above_100 = forecast(curve_of(STEPS, 1000 * values), [200.0], 1)
    assert np.array_equal(-below_0.values, above_100.values)


def test_epochs_counted_from_0_are_those_counted_from_1() -> None:
    values = accuracy(STEPS)
    one = forecast(curve_of(STEPS, values), [200.0], 1)
    other = forecast(curve_of(STEPS - 1, values), [199.0], 1)
    assert np.array_equal(one.values, other.values)


def test_the_interval_widens_with_the_distance_and_begins_with_the_noise() -> None:
    at = np.array([100.0, 110.0, 150.0, 300.0, 1000.0])
    found = forecast(curve_of(STEPS, 1000 * accuracy(STEPS)), at, 1)
    width = found.high - found.low
    assert np.all(np.diff(width) > 0)
    assert width[0] == pytest.approx(2 * 1.28 * 10, rel=0.5)
    assert np.all((found.low < found.mean) & (found.mean < found.high))


def test_no_accuracy_is_predicted_above_1_and_no_loss_below_0() -> None:
    found = forecast(curve_of(STEPS, np.linspace(0.3, 0.9, 100)), [110.0, 1000.0], 1)
    assert found.values.max() <= 1
    assert np.all(found.mean < 1)
    found = forecast(curve_of(STEPS, np.linspace(9, 0.5, 100)), [110.0, 1000.0], 1)
    assert found.values.min() >= 0
    assert np.all(found.mean > 0)
    found = forecast(curve_of(STEPS, np.exp(-STEPS)), [110.0, 1000.0], 1)
    assert found.low.min() >= 0
    assert np.all(found.mean >= 0)
    found = forecast(curve_of(STEPS, np.linspace(30, 900, 100)), [1000.0], 1)
    assert found.high[0] > 1000


def test_means_never_fall_along_a_rising_curve() -> None:
    found = forecast(curve_of(STEPS, accuracy(STEPS, 0.05)), np.geomspace(100, 1e5, 200), 1)
    assert np.diff(found.mean).min() >= -1e-12


def test_a_better_target_is_reached_with_less_chance() -> None:
    found = forecast(curve_of(STEPS, accuracy(STEPS)), [200.0], 1)
    chances = [found.reaches(target)[0] for target in np.linspace(0.5, 1.5, 30)]
    assert chances == sorted(chances, reverse=True)
    assert chances[0] == 1
    assert chances[-1] < 0.05
    assert found.reaches(float(np.median(found.values)))[0] == pytest.approx(0.5, abs=0.01)


def test_a_single_bad_evaluation_hardly_moves_the_forecast() -> None:
    values = accuracy(STEPS)
    one = forecast(curve_of(STEPS, values), [200.0], 1)
    values[70] -= 0.6
    other = forecast(curve_of(STEPS, values), [200.0], 1)
    assert other.mean[0] == pytest.approx(one.mean[0], abs=0.02)
    assert other.high[0] - other.low[0] < 1.5 * (one.high[0] - one.low[0])


def test_a_constant_curve_stays_what_it_is() -> None:
    found = forecast(curve_of([1, 2, 3], [0.5] * 3), [10.0], 1)
    assert (found.mean[0], found.low[0], found.high[0]) == (0.5, 0.5, 0.5)
    assert (found.reaches(0.5)[0], found.reaches(0.6)[0]) == (1, 0)


@pytest.mark.parametrize("values", [[0.1, 0.5], [0.1, 0.5, 0.4], [9.0, 2.0, 1.0], [1e-300, 1e300]])
def test_few_points_and_extreme_values_give_finite_forecasts(values: list[float]) -> None:
    found = forecast(curve_of(range(len(values)), values), [50.0], 1)
    for one in (found.mean, found.low, found.high):
        assert np.all(np.isfinite(one))
    assert found.low[0] < found.high[0]


def test_thousands_of_points_are_no_other_curve_than_a_hundred() -> None:
    few = forecast(curve_of(STEPS, accuracy(STEPS, 0)), [200.0], 1)
    many = np.linspace(1, 100, 5000)
    found = forecast(curve_of(many, accuracy(many, 0)), [200.0], 1)
    assert found.mean[0] == pytest.approx(few.mean[0], abs=0.01)


def test_the_same_seed_gives_the_same_forecast_and_another_nearly_so() -> None:
    curve = curve_of(STEPS, accuracy(STEPS))
    one, two, other = (forecast(curve, [200.0], seed) for seed in (1, 1, 2))
    assert np.array_equal(one.values, two.values)
    assert not np.array_equal(one.values, other.values)
    assert other.mean[0] == pytest.approx(one.mean[0], abs=0.01)


def test_steps_already_passed_are_refused() -> None:
    curve = curve_of(STEPS, accuracy(STEPS))
    with pytest.raises(ValueError, match="step 99 lies before the last observed one, 100"):
        forecast(curve, [99.0], 1)
    with pytest.raises(ValueError, match="not finite"):
        forecast(curve, [float("nan")], 1)
