"""Regrouping of Harmony: as little changes as will do, and what changes is worth it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from job_group_cases import drawn, problem

from warren.solve.job_groups.problem import NOT_RUN, JobGrouping, JobGroupingProblem, grouping_of
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


class Said:
    """Stands for Algorithm 1: puts all jobs into one group, and notes whom it was given."""

    def __init__(self) -> None:
        self.places: list[list[int]] = []

    def __call__(self, part: JobGroupingProblem, jobs: np.ndarray) -> JobGrouping:
        self.places.append(jobs.tolist())
        return grouping_of(part, np.zeros(len(jobs), np.int64), np.array([part.machines]))


def three_groups() -> tuple[JobGroupingProblem, RunningGroups, EndedMember]:
    """A group that sends, which is broken, one job that computes, and two that do."""
    jobs = problem([0.01, 8.0, 8.0, 8.0], [4.0, 0.01, 0.01, 0.01], 8)
    ended = EndedMember(comp_machine_s=1e-6, net_s=1e-6, group=0)
    return jobs, groups([0, 1, 2, 2], [2, 2, 4]), ended


def test_waiting_jobs_come_before_those_that_run() -> None:
    said = Said()
    jobs = problem([8.0, 1.0, 30.0], [1.0, 8.0, 30.0], 4)
    ended = EndedMember(comp_machine_s=0.1, net_s=0.1, group=0)
    without_job(jobs, groups([0, 1, NOT_RUN], [2, 2]), ended, said)
    assert said.places == [[2, 0, 1]]


def test_the_broken_group_is_regrouped_with_others_and_alone_only_where_there_are_none() -> None:
    said = Said()
    jobs, running, ended = three_groups()
    without_job(jobs, running, ended, said)
    assert sorted(said.places) == [[0, 1], [0, 1, 2, 3], [0, 2, 3]]
    alone = Said()
    without_job(problem([1.0], [1.0], 2), groups([NOT_RUN], [2]), ended, alone)
    assert alone.places == [[0]]


def test_of_many_groups_those_with_the_fewest_jobs_are_involved() -> None:
    said = Said()
    count = 12
    jobs = problem([1.0] * count, [1.0] * count, 40)
    # Group 0 is broken; group k has one job, the last has two.
    running = groups([*range(1, count), count - 1], [1] * count)
    ended = EndedMember(comp_machine_s=50.0, net_s=1.0, group=0)
    without_job(jobs, running, ended, said)
    assert len(said.places) == count - 1
    assert said.places[0] == [0]
    assert said.places[-1] == list(range(count))


def test_more_jobs_are_regrouped_only_where_that_gains_more_than_it_is_worth() -> None:
    # All jobs in one group have more of U than two groups have: by 4 %, or twice as much.
    worth_it = [64.0, 0.01, 0.01], [0.01, 4.0, 4.0]
    for (comp, net), more in ((([15.0, 5.0, 4.0], [1.0, 6.0, 1.0]), False), (worth_it, True)):
        jobs, running = problem(comp, net, 8), groups([1, 2, 2], [2, 2, 4])
        ended = EndedMember(comp_machine_s=1e-6, net_s=1e-6, group=0)
        small, large = (_together(jobs, running, some) for some in ((0, 1), (0, 1, 2)))
        assert small < large
        assert small > utilization_of(jobs, running) * (1 + WORTH)
        assert (large > small * (1 + WORTH)) == more
        found = without_job(jobs, running, ended, Said())
        assert (len(found.machine_G) == 1) == more


def _together(jobs: JobGroupingProblem, running: RunningGroups, some: tuple[int, ...]) -> float:
    """U when these groups are one."""
    group_J = np.where(np.isin(running.group_J, some), some[0], running.group_J)
    machine_G = running.machine_G.copy()
    machine_G[some[0]] = running.machine_G[list(some)].sum()
    return grouping_of(jobs, group_J, machine_G).value


@pytest.mark.parametrize("off", [0.04, 0.06])
def test_similar_is_within_five_percent(off: float) -> None:
    ended = EndedMember(comp_machine_s=10.0, net_s=5.0, group=1)
    jobs = problem([9.0, 10.0 * (1 - off)], [1.0, 5.0 * (1 - off)], 5)
    said = Said()
    found = without_job(jobs, groups([0, NOT_RUN], [3, 2]), ended, said)
    assert (found.group_J[1] == 1 and not said.places) == (off < 0.05)


def test_who_takes_the_place_of_a_job_fits_beside_the_others() -> None:
    ended = EndedMember(comp_machine_s=10.0, net_s=5.0, group=1)
    running = groups([1, NOT_RUN, NOT_RUN], [3, 2])
    # The second is the nearest; of two machines the first job fills half a machine.
    for memory, place in (([0.5, 1.5, 1.5], 1), ([0.5, 1.6, 1.5], 2)):
        jobs = replace(problem([9.0, 10.0, 10.2], [1.0, 5.0, 5.1], 5), memory_J=np.array(memory))
        found = without_job(jobs, running, ended, never)
        assert np.flatnonzero(found.group_J == 1).tolist() == [0, place]
    jobs = replace(jobs, memory_J=np.array([0.5, 1.6, 1.6]))
    said = Said()
    without_job(jobs, running, ended, said)
    assert said.places


def test_a_bundle_of_three_jobs_will_do() -> None:
    ended = EndedMember(comp_machine_s=9.0, net_s=6.0, group=1)
    jobs = problem([9.0, 3.0, 3.0, 3.0], [1.0, 2.0, 2.0, 2.0], 5)
    found = without_job(jobs, groups([0, *[NOT_RUN] * 3], [3, 2]), ended, never)
    assert shown(found) == ([0, 1, 1, 1], [3, 2])


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
    if replaced:
        ran = before.group_J != NOT_RUN
        assert (after.group_J[ran] == before.group_J[ran]).all()
        assert set(after.group_J[~ran].tolist()) <= {NOT_RUN, ended.group}


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
