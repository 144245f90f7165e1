"""Job groups by what jobs are worth, and with rounds of whole tasks: optimum and search."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from job_group_cases import drawn, groupings

from warren.solve.job_groups.exhaustive import best_grouping
from warren.solve.job_groups.isolated import isolated_machines
from warren.solve.job_groups.problem import (
    NOT_RUN,
    JobGroupingProblem,
    RoundTerms,
    grouping_of,
)
from warren.solve.job_groups.regrouping import RunningGroups, utilization_of, with_waiting
from warren.solve.job_groups.solve import grouped
from warren.solve.job_groups.worth import LEFT_POWER, fastest_s_J, iteration_worth_J
from warren.solve.shapes.task_rounds import TaskMachines, task_round


def rounds_case(seed: int, jobs: int, machines: int) -> tuple[JobGroupingProblem, np.ndarray]:
    """Jobs with rounds of 1 to 16 tasks; and the tasks of each."""
    random = np.random.default_rng(seed)
    tasks_J = random.integers(1, 17, jobs)
    task_s_J = random.gamma(2.0, 1.0, jobs)
    pull_s_J, step_s_J = random.gamma(2.0, 0.5, jobs), random.gamma(2.0, 0.2, jobs)
    problem = JobGroupingProblem(
        comp_machine_s_J=task_s_J * tasks_J,
        net_s_J=np.zeros(jobs),
        machines=machines,
        rounds=RoundTerms(
            pull_s_J=pull_s_J, push_s_J=pull_s_J * tasks_J, task_s_J=task_s_J, step_s_J=step_s_J
        ),
        busy_weight=0.0,
    )
    left_J = random.integers(1, 200, jobs).astype(float)
    least_J = random.integers(1, 4, jobs) if seed % 2 else None
    worth_J = iteration_worth_J(problem, left_J)
    memory_J = random.integers(0, 9, jobs) / 4 if seed % 3 == 0 else None
    return replace(problem, worth_J=worth_J, least_J=least_J, memory_J=memory_J), tasks_J


def speed_by_hand(one: JobGroupingProblem, group_J: list[int], machine_G: list[int]) -> float:
    """Value by loops over groups and jobs, with the text of ``problem`` alone."""
    assert one.rounds is not None
    total = 0.0
    for group, m in enumerate(machine_G):
        jobs = [job for job, where in enumerate(group_J) if where == group]
        comp = net = longest = worth = 0.0
        for job in jobs:
            pull = one.rounds.pull_s_J[job] * (m - 1) / m
            push = one.rounds.push_s_J[job] * (m - 1) / m / m
            task = one.rounds.task_s_J[job]
            waves = -(-round(one.comp_machine_s_J[job] / task) // m)
            comp += one.comp_machine_s_J[job] / m
            step = one.rounds.step_s_J[job] if m > 1 else 0.0
            net += one.net_s_J[job] + step + pull + push
            longest = max(longest, step + pull + max(waves * task + pull, task + push))
            worth += one.worths_J[job]
        runs = all(m >= one.leasts_J[job] for job in jobs)
        runs = runs and m >= sum(one.memories_J[job] for job in jobs)
        total += runs * worth / max(comp, net, longest) - one.job_weight * m * len(jobs)
    return total / one.machines


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("machines", [1, 2, 3, 4, 6])
def test_alone_is_the_round_of_equal_machines_that_work_and_serve(seed: int, machines: int) -> None:
    problem, tasks_J = rounds_case(seed, 4, machines)
    assert problem.rounds is not None
    for job in range(4):
        found = task_round(
            TaskMachines(
                task_s_N=np.full(machines, problem.rounds.task_s_J[job]),
                rate_N=np.ones(machines),
                devices_N=np.ones(machines, dtype=np.int64),
            ),
            np.ones(machines, dtype=bool),
            np.full(machines, 1 / machines),
            float(problem.rounds.pull_s_J[job]),
            int(tasks_J[job]),
        )
        round_s = found.round_s + (problem.rounds.step_s_J.item(job) if machines > 1 else 0.0)
        # With fewer tasks than machines, or where they do not come out even, some machine sends
        # more than the mean.
        if tasks_J[job] % machines == 0:
            assert problem.alone_s_J(machines)[job] == pytest.approx(round_s, rel=1e-9)
        else:
            assert problem.alone_s_J(machines)[job] <= round_s * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(12))
def test_the_optimum_of_weighed_speed_is_the_best_of_all_groupings(seed: int) -> None:
    one, _ = rounds_case(seed, 1 + seed % 4, 1 + seed % 6)
    # Machines may be left idle: every smaller cluster is tried, too.
    every = [
        speed_by_hand(one, *each)
        for count in range(1, one.machines + 1)
        for each in groupings(len(one.net_s_J), count)
    ]
    found = best_grouping(one)
    assert found.value == pytest.approx(max(every), abs=1e-9)
    by_hand = speed_by_hand(one, found.group_J.tolist(), found.machine_G.tolist())
    assert found.value == pytest.approx(by_hand, abs=1e-9)


@pytest.mark.parametrize("seed", range(0, 60, 3))
def test_a_search_that_ends_early_lets_no_group_run_that_does_not_fit(seed: int) -> None:
    one, _ = rounds_case(seed, 12, 6)
    found = grouped(one, work=1)
    least = [one.leasts_J[found.group_J == group].max() for group in range(len(found.machine_G))]
    assert one.fits(found.group_J, found.machine_G)
    assert (found.machine_G >= np.array(least, dtype=int)).all()


def test_the_search_for_weighed_speed_is_near_the_optimum() -> None:
    parts = []
    for seed in range(100, 160):
        one, _ = rounds_case(seed, 2 + seed % 6, 2 + seed % 9)
        parts.append(grouped(one).value / best_grouping(one).value)
    assert min(parts) > 0.98
    assert np.mean(parts) > 0.999


def test_constant_comm_and_no_worth_is_the_published_value() -> None:
    for seed in range(10):
        one = drawn(seed)
        none_J = np.zeros(len(one.net_s_J))
        same = replace(
            one,
            rounds=RoundTerms(pull_s_J=none_J, push_s_J=none_J, task_s_J=none_J, step_s_J=none_J),
            worth_J=none_J,
        )
        found = grouped(one)
        again = grouping_of(same, found.group_J, found.machine_G)
        assert (again.value, again.cpu, again.net) == (found.value, found.cpu, found.net)


def test_worth_is_weighed_speed_that_sums_to_the_machines_if_all_ran_at_their_fastest() -> None:
    one, _ = rounds_case(7, 5, 8)
    left_J, weight_J = np.array([1.0, 10, 100, 10, 10]), np.array([1.0, 1, 1, 3, 1])
    speed_J = iteration_worth_J(one, left_J, weight_J) / fastest_s_J(one)
    assert speed_J.sum() == pytest.approx(one.machines)
    time_J = left_J * fastest_s_J(one)
    expected_J = weight_J * time_J**-LEFT_POWER
    assert speed_J / speed_J[0] == pytest.approx(expected_J / expected_J[0])


def test_a_job_that_has_little_left_is_not_kept_waiting_by_a_long_one() -> None:
    problem = JobGroupingProblem(
        comp_machine_s_J=np.array([10.0, 10.0]), net_s_J=np.zeros(2), machines=1, busy_weight=0.0
    )
    worth_J = iteration_worth_J(problem, np.array([1.0, 1000.0]))
    found = grouped(replace(problem, worth_J=worth_J))
    assert found.group_J.tolist() == [0, -1]


@pytest.mark.parametrize("seed", range(10))
def test_isolated_jobs_have_machines_of_their_own_and_as_many_as_they_need(seed: int) -> None:
    one, _ = rounds_case(seed, 5, 9)
    least_J = np.array([1, 2, 3, 2, 4])
    found = isolated_machines(one, least_J, np.arange(5), np.array([False] * 4 + [True]))
    runs = np.flatnonzero(found.group_J != NOT_RUN)
    # The last job runs already and has 4; then 1 + 2 fit, 3 does not, 2 does.
    assert runs.tolist() == [0, 1, 3, 4]
    assert found.machine_G.sum() <= 9
    assert sorted(found.group_J[runs].tolist()) == [0, 1, 2, 3]
    assert (found.machine_G[found.group_J[runs]] >= least_J[runs]).all()


def test_further_machines_go_where_they_make_a_job_most_faster() -> None:
    problem = JobGroupingProblem(
        comp_machine_s_J=np.array([8.0, 8.0]), net_s_J=np.array([8.0, 0.0]), machines=4
    )
    found = isolated_machines(problem, np.ones(2, int), np.arange(2), np.zeros(2, dtype=bool))
    # 16 / 12 for the first job; 8 / 4, then 4 / 2.67 for the second.
    assert found.machine_G.tolist() == [1, 3]


@pytest.mark.parametrize(("tasks", "machines"), [(6, 6), (8, 16), (16, 32)])
def test_an_isolated_job_goes_over_numbers_at_which_whole_tasks_gain_nothing(
    tasks: int, machines: int
) -> None:
    state_s = np.array([0.1])
    problem = JobGroupingProblem(
        comp_machine_s_J=np.array([float(tasks)]),
        net_s_J=np.zeros(1),
        machines=machines,
        rounds=RoundTerms(
            pull_s_J=state_s, push_s_J=tasks * state_s, task_s_J=np.ones(1), step_s_J=np.zeros(1)
        ),
    )
    found = isolated_machines(problem, np.ones(1, int), np.arange(1), np.zeros(1, dtype=bool))
    times = [problem.alone_s_J(count)[0] for count in range(1, machines + 1)]
    assert problem.alone_s_J(found.machine_G[0])[0] == pytest.approx(min(times))


@pytest.mark.parametrize("seed", range(8))
def test_who_waits_begins_wherever_that_gains_and_nobody_moves(seed: int) -> None:
    one, _ = rounds_case(seed, 5, 8)
    running = RunningGroups(
        group_J=np.array([0, NOT_RUN, 0, NOT_RUN, NOT_RUN]), machine_G=np.array([5])
    )
    found = with_waiting(one, running)
    assert found.group_J[0] == found.group_J[2]
    assert found.machine_G[found.group_J[0]] == 5
    assert found.machine_G.sum() <= 8
    assert utilization_of(one, found) >= utilization_of(one, running)
    for job in np.flatnonzero(found.group_J == NOT_RUN).tolist():
        for group in range(len(found.machine_G)):
            joined = found.group_J.copy()
            joined[job] = group
            other = RunningGroups(group_J=joined, machine_G=found.machine_G)
            assert utilization_of(one, other) <= utilization_of(one, found)
