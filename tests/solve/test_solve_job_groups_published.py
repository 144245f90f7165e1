"""Algorithms 1 and 2 of Harmony: lines by hand, and against plain transcriptions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from job_group_cases import drawn, problem, table_4_1, value_of

from warren.solve.common.arrays import FloatArray
from warren.solve.job_groups.exhaustive import best_grouping
from warren.solve.job_groups.grouping_algorithm2 import assign_jobs
from warren.solve.job_groups.published import (
    allocate_machines,
    balanced_groups,
    grouping_of_first,
    published_grouping,
)

NOTHING = 0.0
"""The value where nobody runs."""


def transcribed(comp_J: list[float], net_J: list[float], groups: int) -> list[list[int]]:
    """Algorithm 2 line by line, mended as its module says, without the swaps."""

    def diff(*jobs: int) -> float:
        return sum(comp_J[j] - net_J[j] for j in jobs)

    def length(j: int) -> float:
        return comp_J[j] + net_J[j]

    waiting = sorted(range(len(comp_J)), key=lambda j: -length(j))
    made: list[list[int]] = []
    for _ in range(groups):
        group: list[int] = []
        while len(group) < len(comp_J) // groups:
            opposite = [j for j in waiting if diff(j) * diff(*group) <= 0]
            job = (opposite or waiting)[0]
            waiting.remove(job)
            group.append(job)
        made.append(group)
    for job in sorted(waiting, key=lambda j: -abs(diff(j))):
        order = sorted(made, key=lambda group: abs(diff(job) + diff(*group)))
        chosen = order[0]
        for group in order:
            both = [*group, job]
            longest = max(sum(comp_J[j] for j in both), sum(net_J[j] for j in both))
            if length(job) <= max(map(length, group)) or length(job) < longest:
                chosen = group
                break
        chosen.append(job)
    return made


def swapped(made: list[list[int]], diff_J: list[float]) -> None:
    """The swaps of the text."""

    def off(group: list[int]) -> float:
        return sum(diff_J[j] for j in group)

    while len(made) > 1:
        one = max(made, key=lambda group: abs(off(group)))
        other = max((g for g in made if g is not one), key=lambda g: abs(off(one) - off(g)))
        least, best = max(abs(off(one)), abs(off(other))) - 1e-9, None
        for a in one:
            for b in other:
                change = diff_J[b] - diff_J[a]
                value = max(abs(off(one) + change), abs(off(other) - change))
                if value < least:
                    least, best = value, (a, b)
        if best is None:
            return
        one[one.index(best[0])], other[other.index(best[1])] = best[1], best[0]


def sets(group_J: list[int]) -> set[frozenset[int]]:
    return {
        frozenset(job for job, where in enumerate(group_J) if where == group)
        for group in set(group_J)
    }


@pytest.mark.parametrize("seed", range(100))
def test_algorithm_2_is_its_lines(seed: int) -> None:
    random = np.random.default_rng(seed)
    jobs = int(random.integers(1, 30))
    groups = int(random.integers(1, jobs + 1))
    comp_J, net_J = random.gamma(1.2, 1.0, (2, jobs))
    made = transcribed(comp_J.tolist(), net_J.tolist(), groups)
    swapped(made, (comp_J - net_J).tolist())
    found = assign_jobs(comp_J, net_J, groups).tolist()
    assert sets(found) == {frozenset(group) for group in made}


def test_four_jobs_in_two_groups_are_two_and_two() -> None:
    # As printed, ``|g| <= floor`` makes three and one.
    group_J = assign_jobs(np.array([4.0, 1, 3, 2]), np.array([1.0, 4, 2, 3]), 2)
    assert np.bincount(group_J).tolist() == [2, 2]
    assert sets(group_J.tolist()) == {frozenset({0, 1}), frozenset({2, 3})}


def test_a_job_that_would_bind_every_group_goes_to_the_most_opposite_one() -> None:
    comp, net = np.array([50.0, 1, 1]), np.array([50.0, 1, 1.5])
    assert len(sets(assign_jobs(comp, net, 2).tolist())) == 2


@pytest.mark.parametrize("seed", range(60))
def test_line_6_is_the_least_of_all_numbers_of_groups(seed: int) -> None:
    one = drawn(seed)
    comp_J, net_J, machines = one.comp_machine_s_J, one.net_s_J, one.machines

    def off(groups: int) -> float:
        return float(np.abs(comp_J * groups / machines - net_J).sum())

    every = range(1, min(len(net_J), machines) + 1)
    assert off(balanced_groups(comp_J, net_J, machines)) == pytest.approx(min(map(off, every)))


def test_machines_go_to_the_most_computation_intensive_group_one_by_one() -> None:
    comp_G: FloatArray = np.array([8.0, 30.0, 2.0])
    net_G: FloatArray = np.array([1.0, 10.0, 1.0])
    # W / m - N: (7, 20, 1), then (7, 5, 1), (3, 5, 1), (3, 0, 1), (1.7, 0, 1).
    assert allocate_machines(comp_G, net_G, 7, "difference").tolist() == [3, 3, 1]
    # W / (m N): (8, 3, 2), then (4, 3, 2), (2.7, 3, 2), (2.7, 1.5, 2), (2, 1.5, 2).
    assert allocate_machines(comp_G, net_G, 7, "ratio").tolist() == [4, 2, 1]
    for intensity in ("difference", "ratio"):
        assert allocate_machines(comp_G, net_G, 3, intensity).tolist() == [1, 1, 1]


def test_by_the_ratio_a_group_gets_machines_by_what_it_computes_for_what_it_sends() -> None:
    """Two jobs alone on 100 machines: by the difference the small one has most of them."""
    one = problem([160.0, 0.16], [10.0, 0.1], 100)
    by_ratio = published_grouping(one, patience=2)
    assert by_ratio.machine_G.tolist() == [91, 9]
    assert by_ratio.value > published_grouping(one, patience=2, intensity="difference").value


def test_a_job_that_makes_it_worse_ends_algorithm_1_as_printed() -> None:
    # Two jobs share both machines; with the third there are two groups, and a machine each.
    one = problem([1.9, 1.0, 1.0, 1.9], [0.1, 1.0, 1.0, 0.1], 2)
    printed = published_grouping(one)
    patient = published_grouping(one, patience=4)
    assert (printed.group_J >= 0).sum() < (patient.group_J >= 0).sum()
    assert printed.value < patient.value


@pytest.mark.parametrize("seed", range(200, 240))
def test_algorithm_1_is_the_best_until_the_first_that_is_no_better(seed: int) -> None:
    one = drawn(seed)
    values = [grouping_of_first(one, count).value for count in range(1, len(one.net_s_J) + 1)]
    worse = [n for n in range(1, len(values)) if values[n] <= max(values[:n])]
    assert published_grouping(one).value == max(values[: worse[0] if worse else None])
    patient = published_grouping(one, patience=len(values))
    assert patient.value == max(values) <= best_grouping(one).value + 1e-12
    assert patient.value == pytest.approx(
        value_of(one, patient.group_J.tolist(), patient.machine_G.tolist()), abs=1e-12
    )


@pytest.mark.parametrize("seed", range(240, 280))
def test_algorithm_1_leaves_out_jobs_whose_data_do_not_fit(seed: int) -> None:
    one = drawn(seed)
    random = np.random.default_rng(seed)
    memory_J = random.uniform(0, 3 * one.machines / len(one.net_s_J), len(one.net_s_J))
    one = replace(one, memory_J=memory_J)
    allowed = [NOTHING]
    for count in range(1, len(one.net_s_J) + 1):
        found = grouping_of_first(one, count)
        filled = [memory_J[found.group_J == group].sum() for group in range(len(found.machine_G))]
        if all(a <= b for a, b in zip(filled, found.machine_G, strict=True)):
            allowed.append(found.value)
    patient = published_grouping(one, patience=len(one.net_s_J))
    assert patient.value == max(allowed)
    if memory_J[0] > one.machines:
        assert published_grouping(one).value == NOTHING


def test_all_jobs_of_a_large_case_are_in_groups_of_nearly_one_size() -> None:
    one = table_4_1(3, 800, 1000)
    found = grouping_of_first(one, 800)
    size_G = np.bincount(found.group_J)
    assert size_G.min() >= 800 // len(size_G)
    assert found.machine_G.sum() == 1000
