"""The matching of jobs to places is the best schedule without preemption."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from warren.solve.assignment.bipartite import Matching, least_total_completion
from warren.solve.common.arrays import FloatArray, IntArray

Instance = tuple[FloatArray, IntArray, FloatArray]


def instance(seed: int, jobs: int, devices: int) -> Instance:
    """Times 1 to 9 on up to three types, some misfits, delays with many ties."""
    random = np.random.default_rng(seed)
    types = int(random.integers(1, 4))
    process_JT = random.integers(1, 10, size=(jobs, types)).astype(np.float64)
    type_D = random.integers(0, types, size=devices)
    if types > 1:
        process_JT[random.random(jobs) < 0.3, (type_D[0] + 1) % types] = np.inf
    delay_D = random.choice([0.0, 0.0, 0.0, 3.0, 7.0], size=devices)
    return process_JT, type_D, delay_D


def total(given: Instance, order: list[tuple[int, int]]) -> float:
    """Sum of completion times of (job, device) run in this order on each device."""
    process_JT, type_D, delay_D = given
    free, done = delay_D.copy(), 0.0
    for job, device in order:
        free[device] += process_JT[job, type_D[device]]
        done += float(free[device])
    return done


def found(given: Instance) -> float:
    matching = least_total_completion(*given)
    assert_places_are_filled(matching)
    order = np.argsort(matching.ahead_J, kind="stable")
    return total(given, [(int(job), int(matching.device_J[job])) for job in order])


def assert_places_are_filled(matching: Matching) -> None:
    for device in set(matching.device_J.tolist()):
        ahead = matching.ahead_J[matching.device_J == device]
        assert sorted(ahead.tolist()) == list(range(len(ahead)))


def test_no_order_and_no_choice_of_machines_is_better() -> None:
    for seed in range(60):
        jobs, devices = 1 + seed % 4, 1 + seed % 3
        given = instance(seed, jobs, devices)
        best = min(
            total(given, [(job, chosen[job]) for job in order])
            for order in permutations(range(jobs))
            for chosen in product(range(devices), repeat=jobs)
        )
        assert found(given) == best


def test_leaving_out_places_that_no_optimum_needs_loses_nothing() -> None:
    for seed in range(60):
        given = instance(seed, jobs=3 + seed % 11, devices=1 + seed % 9)
        process_JT, type_D, delay_D = given
        process_JD = process_JT[:, type_D]
        # AlloX's own matrix: every machine has a place for every job.
        times = np.arange(1, len(process_JT) + 1)
        cost = np.concatenate([k * process_JD + delay_D for k in times], axis=1)
        rows, columns = linear_sum_assignment(cost)
        assert found(given) == cost[rows, columns].sum()


@pytest.mark.parametrize("types", [1, 2])
def test_jobs_that_are_alike_keep_their_order(types: int) -> None:
    process_JT = np.full((7, types), 2.0)
    process_JT[:, 1:] = 3.0
    type_D = np.arange(2) % types
    matching = least_total_completion(process_JT, type_D, np.zeros(2))
    for device in range(2):
        mine = np.flatnonzero(matching.device_J == device)
        assert matching.ahead_J[mine].tolist() == list(range(len(mine)))
    assert set(matching.ahead_J[:2].tolist()) == {0}


def test_a_job_that_fits_no_machine_is_refused_even_if_it_fits_an_absent_type() -> None:
    with pytest.raises(ValueError, match="fits no machine"):
        least_total_completion(np.array([[np.inf, 1.0]]), np.array([0]), np.zeros(1))


def test_nobody_waiting_is_matched_to_nothing() -> None:
    matching = least_total_completion(np.zeros((0, 2)), np.array([0, 1]), np.zeros(2))
    assert len(matching.device_J) == len(matching.ahead_J) == 0
