"""The bounds of gangs never exceed an optimum, preemption included, and are met where they can."""

from __future__ import annotations

import random
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ring_cases import Case, best_plan_ns, drawn

from warren.solve.bounds.gang_packing import _volumes
from warren.solve.bounds.lower_bounds import lower_bounds
from warren.solve.rings.order_search import alone

pytestmark = pytest.mark.slow

S = 10**9


def gangs(devices: int, jobs: list[tuple[int, int, int]], **changes: Any) -> dict[str, Any]:
    """Columns of gangs of (devices, rounds of a second, arrival in s) on equal devices."""
    size, rounds, arrival = (np.array(column) for column in zip(*jobs, strict=True))
    one = np.ones((len(jobs), 1), dtype=np.int64)
    return {
        "arrival_ns_J": arrival * S, "weight_J": np.ones(len(jobs)), "scale_J": size,
        "rounds_J": rounds, "comp_ns_JT": one * S // 4, "sync_ns_JT": one * (S - S // 4),
        "fits_JT": one > 0, "type_D": np.zeros(devices, dtype=np.int64),
        "gang_J": np.ones(len(jobs), dtype=np.bool_),
    } | changes  # fmt: skip


def optimum_s(devices: int, jobs: list[tuple[int, int, int]]) -> int:
    """The least makespan of gangs that may be put off after every round, each a second long.

    Arrivals are whole, so no schedule gains by starting a round between two seconds.
    """
    each = range(len(jobs))

    @cache
    def least(now: int, left: tuple[int, ...]) -> int:
        if not any(left):
            return now
        ready = [j for j in each if left[j] and jobs[j][2] <= now]
        choices = [
            chosen
            for count in range(len(ready) + 1)
            for chosen in combinations(ready, count)
            if sum(jobs[j][0] for j in chosen) <= devices
        ]
        later = any(left[j] and jobs[j][2] > now for j in each)
        return min(
            least(now + 1, tuple(left[j] - (j in chosen) for j in each))
            for chosen in choices
            if chosen or (later and not ready)
        )

    first = min(arrival for _, _, arrival in jobs)
    return least(first, tuple(rounds for _, rounds, _ in jobs)) - first


def unit_gangs(draw: random.Random) -> tuple[int, list[tuple[int, int, int]]]:
    devices = draw.randint(1, 9)
    jobs = [
        (draw.randint(1, devices), draw.randint(1, 3), draw.choice([0, 0, 1, 3]))
        for _ in range(draw.randint(1, 5))
    ]
    return devices, jobs


@settings(max_examples=5 * settings().max_examples // 2)
@given(st.randoms(use_true_random=False))
def test_no_schedule_beats_the_bound_of_gangs_however_often_they_are_put_off(
    rng: random.Random,
) -> None:
    devices, jobs = unit_gangs(rng)
    assert lower_bounds(**gangs(devices, jobs)).makespan_s <= optimum_s(devices, jobs)


def test_the_bound_of_gangs_is_near_the_optimum() -> None:
    rng = random.Random(4)
    ratios, by = [], set()
    for _ in range(150):
        devices, jobs = unit_gangs(rng)
        found = lower_bounds(**gangs(devices, jobs))
        ratios.append(found.makespan_s / optimum_s(devices, jobs))
        by.add(found.makespan_by)
    assert np.mean(ratios) > 0.95  # measured 0.965, of optima that are whole seconds
    assert "gangs" in by


@pytest.mark.parametrize(
    ("devices", "jobs", "least"),
    [
        (5, [(3, 4, 0), (3, 5, 0)], 9),  # each more than half
        (5, [(3, 4, 0), (3, 5, 2)], 9),
        (6, [(2, 4, 0)] * 4, 16 / 3),  # work over devices
        (8, [(3, 4, 0)] * 4, 8),  # three of eight: two at once
        (8, [(6, 5, 0), (3, 5, 0)], 10),  # no room beside each other
        (4, [(1, 9, 0), (2, 1, 0)], 9),  # a path
        (4, [(4, 2, 0), (1, 2, 7)], 9),
    ],
)
def test_gangs_that_find_no_room_beside_each_other(
    devices: int, jobs: list[tuple[int, int, int]], least: float
) -> None:
    assert lower_bounds(**gangs(devices, jobs)).makespan_s == pytest.approx(least)


def test_widths_that_fit_together_have_values_that_do() -> None:
    """The functions are dual feasible: every set of widths of up to 7 devices in all."""
    for devices in range(1, 8):
        for size in _sets(devices, devices):
            for volume in _volumes(np.array(size), devices):
                assert volume.sum() <= 1 + 1e-12, (devices, size)


def _sets(left: int, most: int) -> list[list[int]]:
    return [[]] + [
        [size, *rest] for size in range(1, min(left, most) + 1) for rest in _sets(left - size, size)
    ]


def test_gangs_of_one_type_share_that_types_devices_only() -> None:
    two = np.array([[True, False], [True, True]])
    case = gangs(
        6, [(2, 5, 0), (2, 5, 0)], fits_JT=two, type_D=np.array([0, 0, 0, 1, 1, 1]),
        comp_ns_JT=np.full((2, 2), S), sync_ns_JT=np.zeros((2, 2), dtype=np.int64),
    )  # fmt: skip
    assert lower_bounds(**case).makespan_s == pytest.approx(5)
    case["fits_JT"][1, 1] = False
    found = lower_bounds(**case)
    assert (found.makespan_s, found.makespan_by) == (pytest.approx(10), "gangs")


def columns(case: Case) -> dict[str, Any]:
    """With the T^s of a ring alone where it exchanges soonest."""
    times = alone(case.gangs, case.links, case.fits_JT)
    added_J = (times.least_ns_J - times.level_ns_J)[:, None]
    sync = np.where(case.gangs.shared_J[:, None], added_J, case.gangs.sync_ns_JT)
    return {
        "arrival_ns_J": case.gangs.ready_ns_J, "weight_J": case.weight_J,
        "scale_J": np.array(case.sizes), "rounds_J": case.gangs.rounds_J,
        "comp_ns_JT": case.gangs.comp_ns_JT, "sync_ns_JT": sync, "fits_JT": case.fits_JT,
        "type_D": case.links.type_D, "gang_J": np.ones(len(case.sizes), dtype=np.bool_),
    }  # fmt: skip


def test_no_plan_of_rings_on_shared_links_beats_the_bound() -> None:
    rng = random.Random(2)
    ratios = []
    for _ in range(5 * settings().max_examples // 2):
        case = drawn(rng, jobs=4, devices=4)
        bound_s = lower_bounds(**columns(case)).makespan_s
        least_s = (best_plan_ns(case) - case.gangs.ready_ns_J.min()) / S
        assert bound_s <= least_s
        ratios.append(bound_s / least_s)
    assert np.mean(ratios) > 0.85
