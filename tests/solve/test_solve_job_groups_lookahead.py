"""Groupings compared by when all jobs would end."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from warren.solve.job_groups.lookahead import by_lookahead, ends_score, rates_J
from warren.solve.job_groups.problem import NOT_RUN, JobGroupingProblem, RoundTerms
from warren.solve.job_groups.regrouping import RunningGroups


def jobs_of(seed: int, jobs: int, machines: int) -> JobGroupingProblem:
    random = np.random.default_rng(seed)
    tasks_J = random.integers(1, 9, jobs)
    task_s_J, pull_s_J = random.gamma(2.0, 1.0, jobs), random.gamma(2.0, 0.5, jobs)
    return JobGroupingProblem(
        comp_machine_s_J=task_s_J * tasks_J,
        net_s_J=np.zeros(jobs),
        machines=machines,
        rounds=RoundTerms(
            pull_s_J=pull_s_J,
            push_s_J=pull_s_J * tasks_J,
            task_s_J=task_s_J,
            step_s_J=random.gamma(1.0, 0.2, jobs),
        ),
    )


def nobody(jobs: int, machines: int) -> RunningGroups:
    return RunningGroups(group_J=np.full(jobs, NOT_RUN), machine_G=np.array([machines]))


def test_jobs_that_end_one_after_the_other_have_the_score_of_their_ends() -> None:
    """CPU alone: 4 iterations of 2 s and 5 of 6 s on one machine; both there: 8 s an iteration."""
    both = JobGroupingProblem(
        comp_machine_s_J=np.array([2.0, 6.0]), net_s_J=np.zeros(2), machines=1
    )
    left_J, weight_J = np.array([4.0, 5.0]), np.array([1.0, 3.0])
    together = RunningGroups(group_J=np.array([0, 0]), machine_G=np.array([1]))
    # The first ends after 4 x 8 s; one iteration of the second is left, which is alone then.
    expected = ((32 + 3 * 38) / 4 * 38) ** 0.5
    assert ends_score(both, left_J, weight_J, together) == pytest.approx(expected)
    first = RunningGroups(group_J=np.array([0, NOT_RUN]), machine_G=np.array([1]))
    expected = ((8 + 3 * 38) / 4 * 38) ** 0.5
    assert ends_score(both, left_J, weight_J, first) == pytest.approx(expected)
    assert ends_score(both, left_J, weight_J, nobody(2, 1)) == np.inf


@pytest.mark.parametrize("seed", range(12))
def test_groups_that_run_stay_unless_others_are_better_by_the_threshold(seed: int) -> None:
    problem, left_J = (
        jobs_of(seed, 5, 4),
        np.random.default_rng(seed).integers(1, 30, 5).astype(float),
    )
    weight_J = np.ones(5)

    best = by_lookahead(problem, left_J, weight_J, nobody(5, 4), 0.0, 100_000)
    assert problem.fits(best.group_J, best.machine_G)
    assert by_lookahead(problem, left_J, weight_J, best, 0.0, 100_000) is best
    all_of_them = RunningGroups(group_J=np.zeros(5, np.int64), machine_G=np.array([4]))
    score = ends_score(problem, left_J, weight_J, all_of_them)
    gain = 1 - ends_score(problem, left_J, weight_J, best) / score
    for threshold in (0.0, max(0.0, gain - 0.01), gain + 0.01):
        found = by_lookahead(problem, left_J, weight_J, all_of_them, threshold, 100_000)
        assert (found is all_of_them) == (gain <= threshold)


@pytest.mark.parametrize("seed", range(6))
def test_a_job_has_the_rate_of_eq_4_1_in_its_group(seed: int) -> None:
    problem = jobs_of(seed, 4, 5)
    groups = RunningGroups(group_J=np.array([0, 1, 0, NOT_RUN]), machine_G=np.array([3, 2]))
    rate_J = rates_J(problem, groups)
    both = [0, 2]
    round_s = max(
        problem.comp_machine_s_J[both].sum() / 3,
        problem.comm_s_J(3)[both].sum(),
        problem.alone_s_J(3)[both].max(),
    )
    expected = [1 / round_s, 1 / problem.alone_s_J(2)[1], 1 / round_s, 0]
    assert rate_J == pytest.approx(expected)


def test_a_part_of_a_problem_has_the_columns_of_its_jobs() -> None:
    whole = replace(
        jobs_of(1, 4, 3),
        worth_J=np.arange(4.0),
        least_J=np.array([1, 2, 3, 1]),
        memory_J=np.array([0.1, 0.2, 0.3, 0.4]),
    )
    some = np.array([3, 1])
    part = whole.part(some)
    assert part.worths_J.tolist() == [3, 1]
    assert part.leasts_J.tolist() == [1, 2]
    assert part.memories_J.tolist() == [0.4, 0.2]
    for machines in (1, 2, 3):
        assert part.alone_s_J(machines).tolist() == whole.alone_s_J(machines)[some].tolist()
        assert part.comm_s_J(machines).tolist() == whole.comm_s_J(machines)[some].tolist()


def test_after_each_end_the_job_that_has_least_left_is_next() -> None:
    problem = JobGroupingProblem(
        comp_machine_s_J=np.array([2.0, 6.0, 1.0]), net_s_J=np.zeros(3), machines=1
    )
    left_J = np.array([4.0, 5.0, 20.0])
    first = RunningGroups(group_J=np.array([0, NOT_RUN, NOT_RUN]), machine_G=np.array([1]))
    # 8 s, then 20 of the third job, then 30 of the second; all weigh alike.
    expected = ((8 + 28 + 58) / 3 * 58) ** 0.5
    assert ends_score(problem, left_J, np.ones(3), first) == pytest.approx(expected)


@pytest.mark.parametrize("limit", ["least", "memory"])
def test_groups_that_may_not_run_are_never_chosen(limit: str) -> None:
    problem, left_J = jobs_of(3, 5, 4), np.full(5, 10.0)
    if limit == "least":
        problem = replace(problem, least_J=np.array([4, 3, 2, 1, 4]))
    else:
        problem = replace(problem, memory_J=np.array([1.5, 1.5, 1.5, 1.5, 1.5]))
    forbidden = RunningGroups(group_J=np.zeros(5, np.int64), machine_G=np.array([3]))
    assert ends_score(problem, left_J, np.ones(5), forbidden) == np.inf
    found = by_lookahead(problem, left_J, np.ones(5), forbidden, 0.01, 100_000)
    assert np.isfinite(ends_score(problem, left_J, np.ones(5), found))


@pytest.mark.parametrize(("jobs", "mean_s"), [(4, 75.0), (8, 135.0)])
def test_equal_jobs_on_four_machines_run_one_after_the_other(jobs: int, mean_s: float) -> None:
    """Each takes 30 iterations of 1 s on all machines, so that the last one ends no later."""
    equal = JobGroupingProblem(
        comp_machine_s_J=np.full(jobs, 4.0), net_s_J=np.zeros(jobs), machines=4
    )
    ends_s, left = [], jobs
    while left:
        there = np.arange(left)
        found = by_lookahead(
            equal.part(there), np.full(left, 30.0), np.ones(left), nobody(left, 4), 0.0, 20_000
        )
        assert found.group_J.tolist().count(NOT_RUN) == left - 1
        assert found.machine_G.tolist() == [4]
        left -= 1
        ends_s.append(30.0 * (len(ends_s) + 1))
    assert np.mean(ends_s) == mean_s


def test_the_first_jobs_go_on_as_one_group_where_that_ends_them_soonest() -> None:
    """Pairs of a job that computes and one that sends, with equal iterations: as (4.1) has it
    both take no longer together than alone."""
    pairs = JobGroupingProblem(
        comp_machine_s_J=np.array([3.8, 0.2] * 2), net_s_J=np.array([0.05, 0.95] * 2), machines=4
    )
    left_J, weight_J = np.full(4, 10.0), np.ones(4)
    two = RunningGroups(group_J=np.array([0, 0, NOT_RUN, NOT_RUN]), machine_G=np.array([4]))
    # Iterations of 1 s; the second pair begins when the first has ended.
    assert ends_score(pairs, left_J, weight_J, two, 2) == pytest.approx((15 * 20) ** 0.5)
