"""Prices of device types against the linear program that they are the dual of."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from warren.solve.assignment.dual_prices import NONE, better_prices, matched
from warren.solve.common.arrays import FloatArray


def drawn(seed: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Values, devices kept busy, and devices, of up to 60 jobs and 5 types."""
    draw = np.random.default_rng(seed)
    jobs, types = int(draw.integers(1, 60)), int(draw.integers(1, 6))
    value_JT = draw.random((jobs, types)) * (draw.random((jobs, 1)) ** 2 + 0.05)
    value_JT[draw.random((jobs, types)) < 0.1] = 0.0
    use_JT = draw.integers(1, 9, (jobs, 1)) * draw.uniform(0.3, 1, (jobs, types))
    return value_JT, use_JT, draw.integers(0, 60, types).astype(float)


def dual(
    value_JT: FloatArray, use_JT: FloatArray, devices_T: FloatArray, price_T: FloatArray
) -> float:
    """What the prices promise at most, as the module's text has it."""
    gain_J = (value_JT - price_T * use_JT).max(axis=1, initial=0.0)
    return float(devices_T @ price_T + gain_J.sum())


def best_value(value_JT: FloatArray, use_JT: FloatArray, devices_T: FloatArray) -> float:
    """The optimum of the program in the module's text, by a solver."""
    jobs, types = value_JT.shape
    rows = np.zeros((jobs + types, jobs * types))
    for job in range(jobs):
        rows[job, job * types : (job + 1) * types] = 1
        for kind in range(types):
            rows[jobs + kind, job * types + kind] = use_JT[job, kind]
    limits = np.concatenate([np.ones(jobs), devices_T])
    return -float(linprog(-value_JT.ravel(), A_ub=rows, b_ub=limits, bounds=(0, 1)).fun)


@pytest.mark.parametrize("seed", range(60))
def test_prices_promise_no_less_than_the_best_matching_and_within_a_hundredth_of_it(
    seed: int,
) -> None:
    value_JT, use_JT, devices_T = drawn(seed)
    price_T = better_prices(value_JT, use_JT, devices_T, np.zeros(len(devices_T)), turns=8)
    promised, best = dual(value_JT, use_JT, devices_T, price_T), best_value(*drawn(seed))
    assert best * (1 - 1e-9) <= promised <= best * 1.01 + 1e-9


@given(st.integers(0, 10**6))
def test_no_turn_makes_the_dual_worse(seed: int) -> None:
    value_JT, use_JT, devices_T = drawn(seed)
    price_T = np.random.default_rng(seed + 1).random(len(devices_T))
    before = dual(value_JT, use_JT, devices_T, price_T)
    for _ in range(4):
        price_T = better_prices(value_JT, use_JT, devices_T, price_T, turns=1)
        after = dual(value_JT, use_JT, devices_T, price_T)
        assert after <= before * (1 + 1e-12) + 1e-12
        before = after


@given(st.integers(0, 10**6))
def test_a_type_alone_goes_to_the_highest_bids_and_is_never_asked_for_beyond_its_devices(
    seed: int,
) -> None:
    value_JT, use_JT, devices_T = (one[..., :1] for one in drawn(seed))
    price = float(better_prices(value_JT, use_JT, devices_T, np.zeros(1), turns=1)[0])
    wants_J = value_JT[:, 0] > price * use_JT[:, 0] * (1 + 1e-12)
    assert use_JT[wants_J, 0].sum() <= devices_T[0] + 1e-9
    if price:
        indifferent_J = np.isclose(value_JT[:, 0], price * use_JT[:, 0], rtol=1e-12)
        assert use_JT[wants_J | indifferent_J, 0].sum() > devices_T[0]


def test_a_device_that_nobody_has_to_do_without_costs_nothing() -> None:
    value_JT, use_JT = np.array([[3.0, 1.0], [2.0, 1.0]]), np.ones((2, 2))
    assert better_prices(value_JT, use_JT, np.full(2, 2.0), np.ones(2), turns=2).tolist() == [0, 0]
    # One of each: the second job loses 1 by the slow one, the first would lose 2.
    assert better_prices(value_JT, use_JT, np.ones(2), np.zeros(2), turns=2).tolist() == [1, 0]


@given(st.integers(0, 10**6))
def test_each_job_goes_where_it_gains_most_and_the_indifferent_where_there_is_room(
    seed: int,
) -> None:
    value_JT, use_JT, devices_T = drawn(seed)
    again = np.random.default_rng(seed).integers(0, len(value_JT), len(value_JT))
    value_JT, use_JT = value_JT[again], use_JT[again]  # some are alike in all
    price_T = better_prices(value_JT, use_JT, devices_T, np.zeros(len(devices_T)), turns=4)
    found = matched(value_JT, use_JT, devices_T, price_T)
    gain_JT = value_JT - price_T * use_JT
    for job, kind in enumerate(found):
        gain = 0.0 if kind == NONE else gain_JT[job, kind]
        assert gain >= gain_JT[job].max(initial=0.0) - 1e-8
        assert kind == NONE or value_JT[job, kind] > 0


def test_jobs_that_are_alike_share_the_types() -> None:
    value_JT, use_JT = np.tile([3.0, 1.0], (5, 1)), np.ones((5, 2))
    devices_T = np.array([2.0, 3.0])
    price_T = better_prices(value_JT, use_JT, devices_T, np.zeros(2), turns=4)
    assert matched(value_JT, use_JT, devices_T, price_T) == [0, 0, 1, 1, 1]
