"""Rounds left: exact where the loss fit is the truth, never too many where nothing is sudden."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import least_squares

from warren.model.costs import FloatArray
from warren.model.job import Job, Stop
from warren.model.run import Losses
from warren.model.view import NO_PROGRESS, Progress
from warren.predict.curve_kind import CurveKind
from warren.predict.local_trend import noise_of, shortfall
from warren.predict.optimus import _smoothed, fit
from warren.predict.remaining_rounds import (
    CAUTION,
    Cautiousness,
    optimus_rounds,
    sure_rounds,
    trend_rounds,
)
from warren.sim.hidden_curves import HiddenCurves


def progress(rounds: FloatArray, values: FloatArray) -> Progress:
    return Progress(rounds.astype(np.int64), np.asarray(values, dtype=float))


def first_at(curve: FloatArray, target: float) -> int:
    """The first round, counted from 1, at which a falling curve is at its target."""
    return int(np.argmax(curve <= target)) + 1


@given(
    st.floats(0.001, 1), st.floats(0, 3), st.floats(0, 2), st.integers(6, 40), st.floats(0.05, 0.9)
)
def test_the_loss_fit_is_exact_for_its_own_curves(
    a: float, b: float, c: float, points: int, share: float
) -> None:
    k = np.arange(1, points + 1) * 10
    loss = 1 / (a * k + b) + c
    target = c + share * (loss[-1] - c)
    expected = (1 / (target - c) - b) / a - k[-1]
    assert optimus_rounds(progress(k, loss), target) == pytest.approx(expected, rel=2e-3, abs=0.5)


def test_the_loss_fit_finds_the_same_rounds_for_an_accuracy_that_mirrors_a_loss() -> None:
    k = np.arange(1, 31)
    loss = 1 / (0.2 * k + 1.5) + 0.05
    left = optimus_rounds(progress(k, loss), 0.15)
    assert optimus_rounds(progress(k, 1 - loss), 0.85) == pytest.approx(left)
    assert optimus_rounds(progress(k, 100 - 100 * loss), 85.0) == pytest.approx(left)


def test_one_wild_value_moves_the_loss_fit_little() -> None:
    k = np.arange(1, 41)
    loss = 1 / (0.1 * k + 0.5) + 0.1
    left = optimus_rounds(progress(k, loss), 0.2)
    loss[20] = 30.0
    assert optimus_rounds(progress(k, loss), 0.2) == pytest.approx(left, rel=0.05)


def test_a_loss_that_has_levelled_out_above_its_target_never_gets_there_by_the_fit() -> None:
    k = np.arange(1, 60)
    assert optimus_rounds(progress(k, 0.5 + 1 / (2.0 * k)), 0.3) == math.inf


def test_the_loss_fit_has_the_least_squares_of_the_losses_not_of_their_reciprocals() -> None:
    """Against another minimizer, on curves whose tail is near c, where reciprocals are wild."""
    random = np.random.default_rng(5)
    for _ in range(10):
        k = np.arange(1, 46)
        a, b, c = random.uniform(0.05, 0.3), random.uniform(0.2, 1.5), random.uniform(0.1, 0.5)
        loss = 1 / (a * k + b) + c + 0.01 * random.standard_normal(len(k))
        short = shortfall(progress(k, loss), 0.05)
        found = fit(short)
        values = (_smoothed(short.short_P) + short.beyond) / found.scale
        at = short.rounds_P / found.last

        def off(abc: FloatArray, at: FloatArray = at, values: FloatArray = values) -> FloatArray:
            return np.asarray(1 / (abc[0] * at + abc[1]) + abc[2] - values)

        start = np.array([found.a, found.b, found.c])
        best = least_squares(
            off, start, bounds=([1e-9] * 3, np.inf), x_scale=np.maximum(start, 0.1)
        )
        assert float((off(start) ** 2).sum()) <= 1.05 * 2 * best.cost


def test_the_fitted_coefficients_are_never_negative() -> None:
    k = np.arange(1, 30)
    for values in (1 + 0.1 * k, 5 - 0.1 * k, np.full(29, 2.0), 3 + np.sin(k), 1 / (k - 0.9)):
        found = fit(shortfall(progress(k, values), 0.01))
        assert min(found.a, found.b, found.c) >= 0


@pytest.mark.parametrize("points", range(4))
def test_few_points_are_no_ground_for_a_prediction(points: int) -> None:
    k = np.arange(1, points + 1)
    seen = progress(k, 5.0 - 0.5 * k)
    assert sure_rounds(seen, 0.1) == 0
    assert optimus_rounds(seen, 0.1) == 0 if points < 3 else optimus_rounds(seen, 0.1) > 0
    assert sure_rounds(NO_PROGRESS, 0.1) == optimus_rounds(NO_PROGRESS, 0.1) == 0


def test_a_target_that_was_reached_leaves_no_rounds() -> None:
    k = np.arange(1, 10)
    seen = progress(k, 10.0 - k)
    for target in (1.0, 1.5, 5.0):
        assert sure_rounds(seen, target) == 0
        assert optimus_rounds(seen, target) == 0


shapes = st.tuples(st.sampled_from(["power", "exponential"]), st.floats(0.1, 3), st.floats(1, 300))


def falling(kind: str, steep: float, bend: float, rounds: int) -> FloatArray:
    x = np.arange(1, rounds + 1) / bend
    curve = (1 + x) ** -steep if kind == "power" else np.exp(-steep * x)
    return np.asarray(curve)


@given(shapes, st.floats(0, 2), st.floats(0.05, 0.95), st.integers(1, 7), st.booleans())
def test_sure_rounds_are_never_too_many_for_a_convex_curve_without_noise(
    shape: tuple[str, float, float], floor: float, seen: float, gap: int, rises: bool
) -> None:
    total = 400
    curve = floor + falling(*shape, total)
    points = max(1, int(seen * total)) // gap
    if points < 1 or points * gap >= total:
        return
    for target_at in {min(total, points * gap + more) for more in (1, 3, 10, 50, 400)}:
        target = float(curve[target_at - 1])
        left = first_at(curve, target) - points * gap
        if curve[points * gap - 1] <= target:
            continue
        k = np.arange(1, points + 1) * gap
        values = curve[k - 1]
        if rises:
            values, target = 1 - values, 1 - target
        told = sure_rounds(progress(k, values), target)
        assert 0 <= told <= left


def test_sure_rounds_grow_with_the_way_that_is_left() -> None:
    k = np.arange(1, 101)
    seen = progress(k, 5 / (1 + k / 20))
    told = [sure_rounds(seen, target) for target in (0.8, 0.5, 0.2, 0.05)]
    assert told == sorted(told)
    assert told[-1] > told[0]
    assert told[-1] > 10


def test_no_round_beyond_the_next_stated_cut_is_sure() -> None:
    k = np.arange(1, 101)
    seen = progress(k, np.full(100, 2.0))  # does not move
    told = [
        sure_rounds(seen, 0.5, kind=CurveKind("loss", cuts))
        for cuts in (None, (), (50.0, 111.0, 300.0), (100.0, 101.0), (300.0,))
    ]
    assert told == [35, 35, 11, 1, 35]


def test_a_target_within_the_noise_leaves_few_sure_rounds() -> None:
    k = np.arange(1, 201)
    noise = np.random.default_rng(1).normal(size=200)
    seen = progress(k, 1 + 3 / (1 + k / 10) + 0.05 * noise)
    best = float(seen.values_P.min())
    assert sure_rounds(seen, best - 0.001) == 0
    assert 0 <= sure_rounds(seen, best - 0.02) <= 20


def test_on_a_plateau_no_more_is_sure_than_a_part_of_what_ran() -> None:
    k = np.arange(1, 101)
    assert sure_rounds(progress(k, np.full(100, 2.0)), 0.5) == int(CAUTION.ahead * 100)


def test_the_trend_is_a_straight_line_where_the_curve_is_one() -> None:
    k = np.arange(1, 101) * 10
    assert trend_rounds(progress(k, 50 - 0.01 * k), 38.0, 2.0) == pytest.approx(200)
    assert sure_rounds(progress(k, 50 - 0.01 * k), 38.0, Cautiousness(ahead=1.0)) in (199, 200)


@pytest.mark.parametrize(("early", "late"), [(1.0, 0.01), (0.01, 1.0)])
def test_the_trend_goes_by_what_is_latest_and_by_the_fastest_of_it(
    early: float, late: float
) -> None:
    k = np.arange(1, 201)
    values = 300 - np.where(k <= 100, early * k, early * 100 + late * (k - 100))
    found = trend_rounds(progress(k, values), float(values[-1]) - 5.0, 0.0)
    assert found == pytest.approx(5 / late, rel=0.05)


def test_noise_is_found_whatever_the_distance_of_points() -> None:
    rng = np.random.default_rng(2)
    k = np.cumsum(rng.integers(1, 30, size=4000))
    short = 3 / (1 + k / 9000) + 0.02 * rng.normal(size=4000)
    assert noise_of(k, short) == pytest.approx(0.02, rel=0.1)
    assert noise_of(k, 3 - k / 70000) == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("noise", [0.0, 0.005, 0.02])
def test_of_simulated_curves_few_sure_rounds_are_too_many_and_many_are_dared(noise: float) -> None:
    jobs = [
        Job(index=k, name="j", scale=1, rounds=300 + k, stop=Stop(metric="m", falls_to=0.1))
        for k in range(150)
    ]
    curves, wrong, dared, asked = HiddenCurves(jobs, Losses(noise=noise), 5), 0, 0, 0
    for job in jobs:
        rounds = job.rounds or 0
        k = np.arange(5, rounds, 5)
        values = np.array([curves.metrics(job.index, one - 1, 1)[0][1] for one in k.tolist()])
        for seen in (0.1, 0.4, 0.8):
            points = int(len(k) * seen)
            told = sure_rounds(progress(k[:points], values[:points]), 0.1)
            wrong += told > rounds - k[points - 1]
            dared, asked = dared + (told > 0), asked + 1
    assert wrong <= 0.05 * dared
    assert dared > 0.5 * asked
