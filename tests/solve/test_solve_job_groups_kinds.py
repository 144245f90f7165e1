"""Groups of jobs on machines of unequal speed, beside loops over every grouping and machine."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from job_group_cases import groupings

from warren.solve.job_groups.machine_kinds import UnequalMachines, digits, parts_of
from warren.solve.job_groups.problem import (
    NOT_RUN,
    JobGroupingProblem,
    RoundTerms,
    grouping_of,
)
from warren.solve.job_groups.solve import grouped
from warren.solve.job_groups.worth import weighed_speed
from warren.solve.shapes.task_rounds import TaskMachines, task_round


def case(
    seed: int, jobs: int, count_K: list[int], speed_K: list[float] | None = None, tasks: int = 0
) -> JobGroupingProblem:
    """Jobs on machines of one device each, of kinds whose speeds are drawn if not given."""
    random = np.random.default_rng(seed)
    kinds, machines = len(count_K), sum(count_K)
    slow_K = random.uniform(1, 5, kinds) if speed_K is None else 1 / np.array(speed_K)
    task_s_J, unit_s_J = random.gamma(2.0, 0.5, jobs), random.gamma(2.0, 0.2, jobs)
    tasks_J = random.integers(1, 13, jobs) if tasks == 0 else np.full(jobs, tasks)
    mean_s_J = task_s_J * machines / (np.array(count_K) / slow_K).sum()
    return JobGroupingProblem(
        comp_machine_s_J=mean_s_J * tasks_J,
        net_s_J=np.zeros(jobs),
        machines=machines,
        rounds=RoundTerms(
            pull_s_J=unit_s_J,
            push_s_J=unit_s_J * tasks_J,
            task_s_J=mean_s_J,
            step_s_J=random.gamma(1.0, 0.1, jobs),
        ),
        kinds=UnequalMachines(
            count_K=np.array(count_K),
            devices_KT=np.eye(kinds, dtype=np.int64),
            task_s_JT=task_s_J[:, None] * slow_K,
            unit_s_JK=np.repeat(unit_s_J[:, None], kinds, axis=1),
            tasks_J=tasks_J,
        ),
    )


def machines_of(one: JobGroupingProblem, code: int, job: int) -> TaskMachines:
    """The machines of a code one by one, for a job."""
    assert one.kinds is not None
    count_K = digits(code, one.kinds.stride_K)
    return TaskMachines(
        task_s_N=np.repeat(one.kinds.task_s_JT[job], count_K),
        rate_N=np.repeat(1 / one.kinds.unit_s_JK[job], count_K),
        devices_N=np.ones(sum(count_K), dtype=np.int64),
    )


@pytest.mark.parametrize("seed", range(8))
def test_a_round_alone_on_unequal_machines_is_that_of_each_machine_by_itself(seed: int) -> None:
    """Speeds are drawn, so no two kinds end a task at once, and none of a kind has one more if
    the tasks are many enough to be dealt evenly."""
    one = case(seed, 3, [1, 1, 1])
    for code in range(1, one.all_machines + 1):
        for job in range(3):
            machines = machines_of(one, code, job)
            count = len(machines.rate_N)
            found = task_round(
                machines,
                np.ones(count, dtype=bool),
                np.full(count, 1 / count),
                1.0,
                int(one.kinds.tasks_J[job]) if one.kinds else 0,
            )
            step_s = one.terms.step_s_J[job] if count > 1 else 0.0
            assert one.alone_s_J(code)[job] == pytest.approx(found.round_s + step_s, rel=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_kinds_of_one_speed_are_alike(seed: int) -> None:
    one = case(seed, 4, [2, 4], [1.0, 1.0], tasks=12)
    for code in range(1, one.all_machines + 1):
        machines = int(one.sizes(np.array([code]))[0])
        if 12 % machines == 0:
            for times in ("comm_s_J", "alone_s_J"):
                alike = getattr(one.alike, times)(machines)
                assert getattr(one, times)(code) == pytest.approx(alike)


def comp_of_tasks_s(task_s_D: list[float], tasks: int) -> float:
    """The least time by which devices of unequal speed have computed whole tasks: by all ways."""
    ways = product(range(tasks + 1), repeat=len(task_s_D))
    return min(
        max(count * task_s for count, task_s in zip(way, task_s_D, strict=True))
        for way in ways
        if sum(way) == tasks
    )


@pytest.mark.parametrize("seed", range(20))
def test_comp_on_unequal_machines_is_the_least_of_all_ways_to_spread_tasks(seed: int) -> None:
    one = case(seed, 2, [1, 2])
    assert one.kinds is not None
    without = JobGroupingProblem(
        comp_machine_s_J=one.comp_machine_s_J,
        net_s_J=one.net_s_J,
        machines=3,
        kinds=UnequalMachines(
            count_K=one.kinds.count_K,
            devices_KT=one.kinds.devices_KT,
            task_s_JT=one.kinds.task_s_JT,
            unit_s_JK=np.zeros((2, 2)),
            tasks_J=one.kinds.tasks_J,
        ),
    )
    for code in range(1, one.all_machines + 1):
        count_K = np.array(digits(code, one.kinds.stride_K))
        for job in range(2):
            task_s_D = np.repeat(one.kinds.task_s_JT[job], count_K).tolist()
            comp_s = comp_of_tasks_s(task_s_D, int(one.kinds.tasks_J[job]))
            assert without.alone_s_J(code)[job] == pytest.approx(comp_s)


def coded(one: JobGroupingProblem, jobs: int) -> list[tuple[list[int], list[int]]]:
    """Every grouping of jobs with every choice of machines of each kind."""
    assert one.kinds is not None
    stride_K, found = one.kinds.stride_K, []
    members = {tuple(group_J) for group_J, _ in groupings(jobs, one.machines)}
    for group_J in members:
        groups = max(group_J) + 1
        ways = [list(range(1, one.all_machines + 1))] * groups
        for codes in product(*ways):
            digits_GK = [digits(code, stride_K) for code in codes]
            if (np.sum(digits_GK, axis=0) <= one.kinds.count_K).all():
                found.append((list(group_J), list(codes)))
    return found


def test_the_search_finds_the_best_grouping_on_unequal_machines() -> None:
    behind = []
    for seed in range(6):
        one = case(seed, 3, [1 + seed % 2, 2])
        one = weighed_speed(one, np.full(3, 20.0), np.ones(3))
        best = max(
            grouping_of(one, np.array(group_J), np.array(codes)).value
            for group_J, codes in coded(one, 3)
        )
        found = grouped(one, work=100_000)
        assert found.value == pytest.approx(
            grouping_of(one, found.group_J, found.machine_G).value, rel=1e-9
        )
        behind.append(1 - found.value / best)
    assert max(behind) < 0.01
    assert min(behind) > -1e-9


def test_parts_of_some_machines_are_all_of_them_where_those_are_few() -> None:
    stride_K = np.array([1, 3])
    assert sorted(parts_of(2 + 3 * 1, stride_K)) == [1, 2, 3, 4, 5]
    # Of 3 machines of one kind and 30 of another, 1, 2 and 3, and 1, 2, 4, ..., and the others.
    found = list(parts_of(3 + 4 * 30, np.array([1, 4])))
    few = [1, 2, 3, *(4 * n for n in (1, 2, 4, 8, 16, 30))]
    assert sorted(found) == sorted([*few, *(123 - one for one in few), 123])


def test_a_group_keeps_to_the_machines_that_there_are() -> None:
    one = case(0, 2, [2, 3])
    with pytest.raises(ValueError, match="too few machines"):
        grouping_of(one, np.array([0, 1]), np.array([one.all_machines, 1]))
    with pytest.raises(ValueError, match="no machine"):
        grouping_of(one, np.array([0, NOT_RUN]), np.array([0]))
