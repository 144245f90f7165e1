"""What a curve is decides what is expected of it: smooth ones go on, noisy accuracies rise late."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from warren.model.costs import FloatArray
from warren.model.job import Job, RateSchedule, Stop
from warren.predict.curve import Curve, curve_of, first
from warren.predict.curve_families import Family
from warren.predict.curve_kind import UNSTATED, CurveKind, kind_of, whole_of
from warren.predict.curve_paths import Ahead, below_limit
from warren.predict.family_members import members_of
from warren.predict.forecast import forecast
from warren.predict.late_rise import Evidence, LateRise, chance_of, excess_of, one_constant
from warren.predict.likelihood import Points

STEPS = np.arange(1.0, 121.0)
TWELVE: list[Callable[[FloatArray], FloatArray]] = [
    lambda x: 0.9 - (0.5 * x + 2) ** -0.7,
    lambda x: 0.75 - (0.1 * x + 1.2) ** -1.0,
    lambda x: 0.8 - np.exp(-0.2 * x**0.6 - 0.3),
    lambda x: 0.95 - np.exp(-0.1 * x**0.8 - 0.1),
    lambda x: 0.95 - 0.7 * x**-0.5,
    lambda x: 0.8 - 0.6 * x**-0.3,
    lambda x: np.log(0.3 * np.log(x) + 1.1),
    lambda x: np.log(0.2 * np.log(x) + 1.3),
    lambda x: 0.85 / (1 + (x / np.exp(2.0)) ** -1.1),
    lambda x: 0.7 / (1 + (x / np.exp(1.0)) ** -0.8),
    lambda x: 0.9 - 0.8 / (1 + (0.05 * x) ** 1.2),
    lambda x: 0.7 - 0.5 / (1 + (0.2 * x) ** 0.9),
]


def noisy(values: FloatArray, noise: float, seed: int = 5) -> Curve:
    random = np.random.default_rng(seed)
    return curve_of(STEPS, values + noise * random.standard_normal(len(STEPS)))


def test_what_a_job_states_of_its_curve_is_its_metric_and_the_first_rounds_of_lower_rates() -> None:
    job = Job(index=0, name="j", scale=1, rounds=None)
    assert kind_of(job) == UNSTATED
    stop, stated = Stop(metric="loss", falls_to=1.0), RateSchedule(steps=(60, 80))
    assert kind_of(replace(job, stop=stop)) == CurveKind("loss")
    assert kind_of(replace(job, schedule=RateSchedule())) == CurveKind(None, ())
    kind = kind_of(replace(job, stop=stop, schedule=stated))
    assert kind == CurveKind("loss", (61, 81))
    # What is evaluated after round 60 has not seen the lower rate; after round 61 it has.
    assert kind.cut_between(59, np.array([60.0])) == [False]
    assert kind.cut_between(60, np.array([61.0])) == [True]
    assert (kind.next_cut(60), kind.next_cut(61), kind.next_cut(81)) == (61, 81, math.inf)


def error(curve: Curve, end: float, kind: CurveKind = UNSTATED) -> float:
    """Seen to 30 %: how far the last value is off."""
    found = forecast(first(curve, 36), [STEPS[-1]], 1, kind)
    return abs(float(found.mean[0]) - end)


def test_curves_of_the_families_are_continued_within_two_points() -> None:
    off = [error(noisy(one(STEPS), 0.006, seed), one(STEPS)[-1]) for seed, one in enumerate(TWELVE)]
    assert np.mean(off) <= 0.02


@pytest.mark.parametrize("metric", [None, "training loss", "perplexity"])
def test_a_falling_power_law_is_continued(metric: str | None) -> None:
    values = 2.0 + 5.0 * STEPS**-0.4
    curve = noisy(values, 0.02)
    span = float(np.ptp(values))
    assert error(curve, values[-1], CurveKind(metric)) < 0.02 * span
    assert abs(values[35] - values[-1]) > 0.07 * span


def test_a_noisy_accuracy_rises_late_and_a_score_with_the_same_values_does_not() -> None:
    curve = first(noisy(0.7 - 0.5 * STEPS**-1.0, 0.03), 60)
    means = {
        name: float(forecast(curve, [180.0], 1, CurveKind(name)).mean[0])
        for name in ("top1 accuracy", "F1", None)
    }
    assert means["top1 accuracy"] > 0.78
    assert means["F1"] < 0.72
    assert means[None] == means["top1 accuracy"]


def test_a_stated_schedule_says_from_when_on() -> None:
    curve = first(noisy(0.7 - 0.5 * STEPS**-1.0, 0.012), 60)
    at = [70.0, 99.0, 100.0, 180.0]
    cut, never = (forecast(curve, at, 1, CurveKind("accuracy", one)) for one in ((100.0,), ()))
    assert cut.mean[:2] == pytest.approx(never.mean[:2])
    assert np.all(cut.mean[2:] > never.mean[2:] + 0.05)
    passed = forecast(curve, at, 1, CurveKind("accuracy", (30.0, 60.0)))
    assert passed.mean == pytest.approx(never.mean)


@pytest.mark.parametrize(
    ("metric", "measure"),
    [("top1Accuracy", "accuracy"), ("err-top1", "accuracy"), ("training loss", "loss"),
     ("valid ppl", "perplexity"), ("mAP", "score"), ("f1Score", "score"), ("speed", "accuracy")],
)  # fmt: skip
def test_a_metric_is_known_by_its_name(metric: str, measure: str) -> None:
    curve = curve_of([1, 2, 3], [0.1, 0.2, 0.3])
    assert CurveKind(metric).measure(curve, 1) == measure


def test_what_is_not_named_is_reported_by_its_values() -> None:
    assert UNSTATED.measure(curve_of([1, 2], [0.9, 0.5]), -1) == "accuracy"  # an error rate
    assert UNSTATED.measure(curve_of([1, 2], [2.9, 0.5]), -1) == "loss"
    assert UNSTATED.measure(curve_of([1, 2], [20.0, 50.0]), 1) == "accuracy"
    assert UNSTATED.measure(curve_of([1, 2], [20.0, 500.0]), 1) == "loss"
    assert whole_of(curve_of([1, 2], [90.0, 50.0]), -1) == 100
    assert whole_of(curve_of([1, 2], [900.0, 50.0]), -1) is None


def test_a_perplexity_is_the_exponential_of_its_loss() -> None:
    loss = first(noisy(3.0 + 2.0 * STEPS**-0.5, 0.005), 36)
    perplexity = Curve(loss.steps, np.exp(loss.values))
    one = forecast(loss, [80.0, 120.0], 1, CurveKind("loss"))
    other = forecast(perplexity, [80.0, 120.0], 1, CurveKind("ppl"))
    assert np.log(other.mean) == pytest.approx(one.mean)
    assert np.log(other.high) == pytest.approx(one.high, abs=1e-3)


def test_the_noisier_an_accuracy_the_likelier_a_late_rise_and_few_points_tell_nothing() -> None:
    late = LateRise()
    chances = [
        float(chance_of(Evidence(True, excess_of(noise, 50), 0), late))
        for noise in (0.001, 0.005, 0.01, 0.03)
    ]
    assert chances == sorted(chances)
    assert chances[0] < 0.01
    assert chances[-1] > 0.99
    assert excess_of(0.2, 4) == excess_of(1e-6, 2) == 0
    assert abs(excess_of(0.03, 10)) < abs(excess_of(0.03, 100))
    other = [chance_of(Evidence(False, one, 0), late) for one in (-3.0, 3.0)]
    assert other[0] == other[1] < 0.05


def ahead(chance: float) -> Ahead:
    """A flat curve at 0.6 that is seen to progress 1, of limit 1."""
    z = np.linspace(0.1, 1.0, 10)
    points = Points(z, np.full(10, 0.6), np.ones(10))
    members = members_of(points, 1.0, 1e-6)
    return Ahead(members, 0.6, 1.0, np.array([1.0, 2.0, 8.0]), np.full(3, chance))


def test_a_late_rise_leaves_a_power_of_progress() -> None:
    late = replace(LateRise(), power=0.5, wobble=0.0)
    left = 0.4 * np.array([1.0, 2.0, 8.0]) ** -0.5
    assert ahead(1.0).mean(late) == pytest.approx(1.0 - left)
    assert ahead(0.25).mean(late) == pytest.approx(0.75 * 0.6 + 0.25 * (1.0 - left), abs=1e-3)
    assert 1.0 - left[2] == pytest.approx(one_constant(0.6, 1.0, 8.0, 0.5))
    paths = ahead(1.0).paths(2000, late, np.random.default_rng(1))
    kept = np.log((1.0 - paths[:, 2]) / 0.4)
    # At most nothing is lost: the logarithm is cut off at 0.
    assert np.median(kept) == pytest.approx(-0.5 * np.log(8.0), abs=0.01)
    assert paths.min() >= 0.6
    assert paths[:, 0] == pytest.approx(0.6)
    low = np.quantile(kept, 0.1) - np.median(kept)
    assert low == pytest.approx(-1.2816 * late.spread, rel=0.02)
    risen = ahead(0.25).paths(2000, late, np.random.default_rng(1))[:, 2] > 0.62
    assert risen.mean() == pytest.approx(0.25, abs=0.03)


def test_members_weigh_as_the_integral_over_level_gain_and_noise_says() -> None:
    """Closed form against a sum over a grid of all three, for two shapes of one family."""
    family = Family("two", np.array([[0.5], [2.0]]), lambda z, z_1, grid: -((z / z_1) ** -grid))
    z = np.array([0.2, 0.4, 0.6, 0.8, 1.0])
    y = np.array([0.0, 0.55, 0.8, 0.85, 1.0])
    members = members_of(Points(z, y, np.ones(5)), 1e9, 0.1, [family])
    sums = []
    level, gain, log_noise = np.meshgrid(
        np.linspace(-2, 4, 121), np.linspace(-6, 8, 161), np.linspace(-5, 1.5, 60), indexing="ij"
    )
    variance = np.exp(2 * log_noise)
    for shape in members.rises(z):
        error = sum((y[i] - level - gain * shape[i]) ** 2 for i in range(5))
        # Inverse gamma of half of four points' worth; d(variance) is variance d(log variance).
        log_prior = -(2.0 + 1.0) * np.log(variance) - 2.0 * 0.1**2 / variance + np.log(variance)
        sums.append(np.exp(log_prior - 2.5 * np.log(variance) - error / (2 * variance)).sum())
    assert members.weight == pytest.approx(np.array(sums) / sum(sums), abs=0.01)
    assert 0.05 < members.weight[0] < 0.95


def test_a_family_counts_once_however_many_shapes_its_grid_has() -> None:
    rise: Callable[[FloatArray, float, FloatArray], FloatArray] = lambda z, z_1, grid: z**grid  # noqa: E731
    one, thrice = (Family("line", np.ones((count, 1)), rise) for count in (1, 3))
    z = np.linspace(0.1, 1.0, 6)
    members = members_of(Points(z, z, np.ones(6)), 1.0, 0.1, [one, thrice])
    assert members.weight == pytest.approx([1 / 2, 1 / 6, 1 / 6, 1 / 6])


def test_drawn_gains_have_the_expected_mean_and_none_is_negative() -> None:
    z = np.linspace(0.1, 1.0, 6)
    members = members_of(Points(z, 0.1 * z**2, np.ones(6)), 0.5, 0.2)
    quantiles = (np.arange(4000) + 0.5) / 4000
    for member in (0, 100, 300, 500):
        drawn = members.drawn_gains(np.full(4000, member), quantiles)
        assert drawn.min() >= 0
        assert drawn.mean() == pytest.approx(members.gains()[member], rel=0.01)


def test_no_rise_passes_the_limit_and_small_ones_hardly_change() -> None:
    now = np.array([[0.5]])
    assert below_limit(now, np.array([[0.51]]), 1.0)[0, 0] == pytest.approx(0.51, abs=1e-6)
    assert 0.99 < below_limit(now, np.array([[50.0]]), 1.0)[0, 0] <= 1.0
    assert below_limit(now, np.array([[50.0]]), None)[0, 0] == 50
