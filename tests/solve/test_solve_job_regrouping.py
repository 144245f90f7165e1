"""Regrouping of Harmony: as little changes as will do, and what changes is worth it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from job_group_cases import drawn, problem

from warren.solve.job_groups.problem import NOT_RUN, JobGrouping, JobGroupingProblem
from warren.solve.job_groups.published import published_grouping
from warren.solve.job_groups.regrouping import (
    WORTH,
    EndedMember,
    RunningGroups,
    utilization_of,
    with_new_job,
    without_job,
)


def groups(group_J: list[int], machine_G: list[int]) -> RunningGroups:
    return RunningGroups(group_J=np.array(group_J), machine_G=np.array(machine_G))


def shown(running: RunningGroups) -> tuple[list[int], list[int]]:
    return running.group_J.tolist(), running.machine_G.tolist()


def test_the_first_job_has_all_machines() -> None:
    found = with_new_job(problem([4.0], [1.0], 7), groups([NOT_RUN], []), 0)
    assert shown(found) == ([0], [7])


def test_a_new_job_joins_the_group_that_it_completes_best() -> None:
    # Group 0 computes only, group 1 sends only; the new job sends.
    jobs = problem([8.0, 0.1, 0.1], [0.0, 4.0, 4.0], 4)
    found = with_new_job(jobs, groups([0, 1, NOT_RUN], [2, 2]), 2)
    assert shown(found) == ([0, 1, 0], [2, 2])


def test_a_new_job_waits_where_it_does_not_help_or_another_waits() -> None:
    jobs = problem([8.0, 8.0], [0.0, 0.0], 2)
    assert shown(with_new_job(jobs, groups([0, NOT_RUN], [2]), 1)) == ([0, NOT_RUN], [2])
    jobs = problem([8.0, 8.0, 0.1], [0.0, 0.0, 4.0], 2)
    assert shown(with_new_job(jobs, groups([0, NOT_RUN, NOT_RUN], [2]), 2))[0] == [
        0,
        NOT_RUN,
        NOT_RUN,
    ]


def never(part: JobGroupingProblem, jobs: np.ndarray) -> JobGrouping:
    raise AssertionError("Algorithm 1 is not called")


def algorithm_1(part: JobGroupingProblem, jobs: np.ndarray) -> JobGrouping:
    return published_grouping(part)


def test_the_nearest_similar_job_that_waits_takes_the_place_of_one_that_ends() -> None:
    # Of 10 s COMP on one machine and 5 s COMM; two machines: 5 and 5.
    ended = EndedMember(comp_machine_s=10.0, net_s=5.0, group=1)
    jobs = problem([9.0, 10.2, 10.1, 30.0], [1.0, 5.1, 5.0, 5.0], 5)
    running = groups([0, NOT_RUN, NOT_RUN, NOT_RUN], [3, 2])
    found = without_job(jobs, running, ended, never)
    assert shown(found) == ([0, NOT_RUN, 1, NOT_RUN], [3, 2])


def test_a_bundle_of_jobs_takes_the_place_of_one_that_ends() -> None:
    ended = EndedMember(comp_machine_s=10.0, net_s=5.0, group=1)
    # Neither is similar: the ratios are not, or the lengths. 4 + 6 and 2 + 3 are.
    jobs = problem([9.0, 4.0, 6.0, 10.0], [1.0, 2.0, 3.0, 1.0], 5)
    running = groups([0, NOT_RUN, NOT_RUN, NOT_RUN], [3, 2])
    found = without_job(jobs, running, ended, never)
    assert shown(found) == ([0, 1, 1, NOT_RUN], [3, 2])


def test_an_equal_length_is_not_similar_where_the_ratio_is_another() -> None:
    ended = EndedMember(comp_machine_s=12.0, net_s=4.0, group=0)
    jobs = problem([8.0], [6.0], 2)  # 4 + 6 against 6 + 4
    called: list[tuple[int, list[int]]] = []

    def group(part: JobGroupingProblem, places: np.ndarray) -> JobGrouping:
        called.append((part.machines, places.tolist()))
        return published_grouping(part)

    found = without_job(jobs, groups([NOT_RUN], [2]), ended, group)
    assert called == [(2, [0])]
    assert shown(found) == ([0], [2])


def test_few_jobs_are_regrouped_where_more_gain_little() -> None:
    # Beside the broken group are one of one job that would complete it, and one of three.
    jobs = problem([8.0, 0.1, 8.0, 0.1, 0.1], [0.1, 4.0, 0.1, 2.0, 2.0], 6)
    running = groups([0, 1, 2, 2, 2], [2, 2, 2])
    ended = EndedMember(comp_machine_s=0.2, net_s=4.0, group=0)
    found = without_job(jobs, running, ended, algorithm_1)
    # The group of three stays as it is, and is the first of the new numbers.
    assert found.group_J.tolist()[2:] == [0, 0, 0]
    assert found.group_J[0] == found.group_J[1] == 1
    assert found.machine_G.tolist() == [2, 4]


def test_nothing_changes_for_less_than_it_is_worth() -> None:
    # Both groups are busy nearly all the time; what has ended was next to nothing.
    jobs = problem([8.0, 0.1, 9.0, 0.2], [0.1, 4.0, 0.1, 4.2], 4)
    running = groups([0, 0, 1, 1], [2, 2])
    ended = EndedMember(comp_machine_s=1e-6, net_s=1e-6, group=0)
    assert utilization_of(jobs, running) > 1 / (1 + WORTH)
    assert without_job(jobs, running, ended, algorithm_1) is running


@given(st.integers(0, 10**6))
def test_machines_and_jobs_stay_what_they_are_and_a_regrouping_is_worth_it(seed: int) -> None:
    jobs = drawn(seed)
    random = np.random.default_rng(seed)
    first = published_grouping(jobs)
    running = RunningGroups(group_J=first.group_J.copy(), machine_G=first.machine_G)
    runs = np.flatnonzero(running.group_J != NOT_RUN)
    gone = int(random.choice(runs))
    ended = EndedMember(
        comp_machine_s=float(jobs.comp_machine_s_J[gone]),
        net_s=float(jobs.net_s_J[gone]),
        group=int(running.group_J[gone]),
    )
    if len(jobs.net_s_J) == 1:
        return
    left = replace(
        jobs,
        comp_machine_s_J=np.delete(jobs.comp_machine_s_J, gone),
        net_s_J=np.delete(jobs.net_s_J, gone),
    )
    before = replace(running, group_J=np.delete(running.group_J, gone))
    after = without_job(left, before, ended, algorithm_1)
    assert after.machine_G.sum() == before.machine_G.sum()
    assert len(after.group_J) == len(before.group_J)
    assert after.group_J.max() < len(after.machine_G)
    # Whoever ran still runs, or Algorithm 1 has decided otherwise; replacing moves nobody.
    value, now = utilization_of(left, after), utilization_of(left, before)
    replaced = after is not before and (after.machine_G is before.machine_G)
    assert after is before or replaced or value > now * (1 + WORTH)


@given(st.integers(0, 10**6))
def test_a_new_job_never_lowers_the_utilization_and_moves_nobody(seed: int) -> None:
    jobs = drawn(seed)
    new = len(jobs.net_s_J) - 1
    others = replace(
        jobs,
        comp_machine_s_J=jobs.comp_machine_s_J[:new],
        net_s_J=jobs.net_s_J[:new],
        all_run=True,
    )
    first = published_grouping(others)
    before = RunningGroups(group_J=np.append(first.group_J, NOT_RUN), machine_G=first.machine_G)
    after = with_new_job(jobs, before, new)
    assert after.group_J[:new].tolist() == before.group_J[:new].tolist()
    values = [
        utilization_of(jobs, replace(before, group_J=np.append(first.group_J, group)))
        for group in (NOT_RUN, *range(len(first.machine_G)))
    ]
    assert utilization_of(jobs, after) == max(values)
