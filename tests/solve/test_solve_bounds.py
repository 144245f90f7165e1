"""Bounds never exceed the optimum, found by exhaustive search on tiny instances."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from warren.solve.bounds import machine_load as area
from warren.solve.bounds.columns import bound_jobs
from warren.solve.bounds.exhaustive import TinyInstance, least_makespan, least_weighted_jct
from warren.solve.bounds.lower_bounds import lower_bounds
from warren.solve.bounds.mean_busy_time import mean_busy_delays
from warren.solve.common.instance import Instance
from warren.solve.common.round_time import least_round_ns
from warren.solve.lists.earliest_completion import dispatch

pytestmark = pytest.mark.slow


def instance(rng: random.Random) -> dict[str, Any]:
    types, devices, jobs = rng.randint(1, 3), rng.randint(1, 3), rng.randint(1, 3)
    type_D = [rng.randrange(types) for _ in range(devices)]
    scale, rounds = [3], [3]
    while sum(n * r for n, r in zip(scale, rounds, strict=True)) > 7:
        scale = [rng.randint(1, 3) for _ in range(jobs)]
        rounds = [rng.randint(1, 3) for _ in range(jobs)]
    top = rng.choice([3, 30])
    fits = [[rng.random() < 0.8 or t == type_D[0] for t in range(types)] for _ in range(jobs)]
    return {
        "arrival_ns_J": np.array(sorted(rng.choice([0, 0, 4, 15]) for _ in range(jobs))),
        "weight_J": np.array([rng.choice([0.0, 0.5, 1.0, 4.0]) for _ in range(jobs)]),
        "scale_J": np.array(scale),
        "rounds_J": np.array(rounds),
        "comp_ns_JT": np.array([[rng.randint(0, top) for _ in range(types)] for _ in range(jobs)]),
        "sync_ns_JT": np.array([[rng.randint(0, top) for _ in range(types)] for _ in range(jobs)]),
        "fits_JT": np.array(fits),
        "type_D": np.array(type_D),
    }


def assert_valid(case: dict[str, Any]) -> tuple[float, float]:
    tiny, bounds = TinyInstance(**case), lower_bounds(**case)
    weighted, makespan = least_weighted_jct(tiny), least_makespan(tiny)
    assert bounds.weighted_jct_s * 1e9 <= weighted
    assert bounds.makespan_s * 1e9 <= makespan
    return (
        bounds.weighted_jct_s * 1e9 / weighted if weighted else 1.0,
        bounds.makespan_s * 1e9 / makespan if makespan else 1.0,
    )


def test_bounds_hold_and_are_close_on_seeded_instances() -> None:
    ratios = np.array([assert_valid(instance(random.Random(seed))) for seed in range(150)])
    # Measured 0.979 and 0.979; a bound of 0 / 0 counts as met.
    assert (ratios.mean(axis=0) > 0.95).all()


@given(st.randoms(use_true_random=False))
def test_bounds_hold_on_any_tiny_instance(rng: random.Random) -> None:
    assert_valid(instance(rng))


def test_no_dispatched_schedule_beats_the_exact_optimum() -> None:
    rng = random.Random(11)
    for _ in range(40):
        case = instance(rng)
        case["comp_ns_JT"] = np.maximum(case["comp_ns_JT"], 1)
        jobs = len(case["scale_J"])
        least, shortest = (
            least_weighted_jct(TinyInstance(**case)),
            least_makespan(TinyInstance(**case)),
        )
        for _ in range(10):
            stretched = Instance(**case, stretch_rounds_J=np.full(jobs, rng.randint(1, 2)))
            priority_J = np.array([rng.random() for _ in range(jobs)])
            step_J = np.array([rng.random() for _ in range(jobs)])
            finish_ns_J = dispatch(stretched, priority_J, step_J)[1]
            assert case["weight_J"] @ (finish_ns_J - case["arrival_ns_J"]) >= least
            assert finish_ns_J.max() - case["arrival_ns_J"].min() >= shortest


def one_machine(**changes: Any) -> dict[str, Any]:
    jobs = len(changes["comp_ns_JT"])
    case: dict[str, Any] = {
        "arrival_ns_J": np.zeros(jobs, np.int64), "weight_J": np.ones(jobs),
        "scale_J": np.ones(jobs, np.int64), "rounds_J": np.ones(jobs, np.int64),
        "sync_ns_JT": np.zeros_like(changes["comp_ns_JT"]),
        "fits_JT": np.ones_like(changes["comp_ns_JT"], dtype=bool), "type_D": np.array([0]),
    }  # fmt: skip
    return case | changes


def test_smiths_rule_on_one_machine_is_met_exactly() -> None:
    comp = np.array([[4], [1], [2]]) * 10**9
    bounds = lower_bounds(**one_machine(comp_ns_JT=comp, weight_J=np.array([8.0, 1.0, 1.0])))
    # Order 0 (4 / 8), 1, 2: 8 * 4 + 5 + 7.
    assert bounds.weighted_jct_s == pytest.approx(44, rel=1e-8)
    assert bounds.weighted_jct_by in ("busy time", "both")
    assert (bounds.makespan_s, bounds.makespan_by) == (pytest.approx(7), "area")


def test_a_lone_job_is_bound_by_its_path() -> None:
    comp = np.array([[2 * 10**9]])
    bounds = lower_bounds(
        **one_machine(comp_ns_JT=comp, sync_ns_JT=comp // 2, scale_J=np.array([3]),
                      rounds_J=np.array([5]), type_D=np.array([0, 0]))
    )  # fmt: skip
    # Two devices, three tasks: one device runs two of them, 2 * 2 + 1 s a round.
    assert bounds.weighted_jct_s == pytest.approx(25)
    assert (bounds.weighted_jct_by, bounds.makespan_by) == ("path", "path")


def test_the_area_dual_prices_unrelated_machines() -> None:
    # Each job is fast on one type only: the area program puts each there, 10 s of work on each.
    comp = np.array([[1, 10], [10, 1]]) * 10**9
    bounds = lower_bounds(
        **one_machine(comp_ns_JT=comp, rounds_J=np.array([10, 10]), type_D=np.array([0, 1]))
    )
    assert bounds.makespan_s == pytest.approx(10)


def test_where_paths_bind_the_linear_programs_would_say_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cases = [instance(random.Random(seed)) for seed in range(120)]
    solved: list[bool] = []
    programs = area._duals
    with monkeypatch.context() as patch:
        patch.setattr(area, "_duals", lambda *a, **k: solved.append(True) or programs(*a, **k))
        found = [area.makespan_bound(jobs) for case in cases if (jobs := bound_jobs(**case))]
    assert found[0][0] > 0
    assert 0 < len(solved) < 2 * len(found)
    monkeypatch.setattr(area, "TRIALS", 0)
    again = [area.makespan_bound(jobs) for case in cases if (jobs := bound_jobs(**case))]
    assert [one[0] for one in found] == pytest.approx([one[0] for one in again], rel=1e-9)


def test_no_jobs_or_none_that_fit_give_zero() -> None:
    empty = one_machine(comp_ns_JT=np.zeros((0, 1), np.int64))
    assert lower_bounds(**empty).makespan_s == 0
    misfit = one_machine(comp_ns_JT=np.array([[2**62]]), fits_JT=np.array([[False]]))
    assert lower_bounds(**misfit).weighted_jct_s == 0


def test_the_least_round_is_the_best_of_all_splits() -> None:
    rng = random.Random(4)
    for _ in range(200):
        types, scale = rng.randint(1, 3), rng.randint(1, 4)
        type_D = [rng.randrange(types) for _ in range(rng.randint(1, 3))]
        comp, sync = ([rng.randint(0, 9) for _ in range(types)] for _ in range(2))
        usable = [t in type_D for t in range(types)]
        best = min(
            max(split.count(m) * comp[type_D[m]] + sync[type_D[m]] for m in set(split))
            for split in itertools.product(range(len(type_D)), repeat=scale)
        )
        found = least_round_ns(
            np.array([scale]), np.array([comp]), np.array([sync]), np.array([usable]),
            np.bincount(type_D, minlength=types),
        )  # fmt: skip
        assert found.tolist() == [best]


def test_the_least_round_is_known_where_its_tasks_in_a_row_outlast_the_range_of_times() -> None:
    # 1,000 tasks of a year on 1,000 devices and on 7: a year and 143 years.
    year_ns = 365 * 86_400 * 10**9
    for devices, least_ns in ((1000, year_ns), (7, 143 * year_ns)):
        found = least_round_ns(
            np.array([1000]), np.array([[year_ns]]), np.array([[0]]), np.array([[True]]),
            np.array([devices]),
        )  # fmt: skip
        assert found.tolist() == [least_ns]


def test_preemptive_wspt_minimizes_weighted_mean_busy_time() -> None:
    rng = random.Random(9)
    for _ in range(60):
        jobs = rng.randint(1, 3)
        release = [float(rng.randint(0, 4)) for _ in range(jobs)]
        volume = [rng.randint(1, 3) for _ in range(jobs)]
        weight = np.array([float(rng.randint(0, 4)) for _ in range(jobs)])
        release_ns = np.array(release, dtype=np.int64) * 10**9
        delay = mean_busy_delays(release_ns, weight, np.array(volume, dtype=float))
        mean = np.array(release) + delay
        assert weight @ mean == pytest.approx(_least_by_slots(release, volume, weight))


def _least_by_slots(release: list[float], volume: list[int], weight: np.ndarray) -> float:
    """The best assignment of volumes to unit slots; with integer data it is optimal."""
    tokens = [j for j, v in enumerate(volume) for _ in range(v)]
    cost = [
        [
            weight[j] * (slot + 0.5) / volume[j] if slot >= release[j] else 1e6
            for slot in range(int(max(release)) + sum(volume))
        ]
        for j in tokens
    ]
    chosen = linear_sum_assignment(cost)
    return float(np.array(cost)[chosen].sum())


def test_short_jobs_far_apart_are_bound_by_what_they_take() -> None:
    # A year of jobs of a millisecond, each alone: dates must not cost the bound its precision.
    for comp_ns in (1, 10**6, 10**9):
        count = 200
        alone = one_machine(
            comp_ns_JT=np.full((count, 1), comp_ns),
            arrival_ns_J=np.arange(count) * 157 * 10**12 + 1,
        )
        bounds = lower_bounds(**alone)
        assert bounds.weighted_jct_s <= count * comp_ns / 1e9
        assert bounds.weighted_jct_s == pytest.approx(count * comp_ns / 1e9, rel=1e-6)


def test_bounds_hold_with_releases_years_apart_and_weights_of_any_size() -> None:
    for seed in range(120):
        rng = random.Random(seed)
        case = instance(rng)
        jobs = len(case["scale_J"])
        gap = rng.choice([10**9, 10**12, 10**17])
        case["arrival_ns_J"] = np.array(sorted(rng.randint(0, 5) * gap for _ in range(jobs)))
        case["weight_J"] = np.array([rng.choice([1e-12, 1.0, 1e12]) for _ in range(jobs)])
        unit = rng.choice([1, 10**6])
        case["comp_ns_JT"] = case["comp_ns_JT"] * unit * rng.choice([1, 1000])
        case["sync_ns_JT"] = case["sync_ns_JT"] * unit
        assert_valid(case)
