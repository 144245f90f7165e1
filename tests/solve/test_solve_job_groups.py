"""Job groups of Harmony: the optimum against all groupings, the bound, how near the search is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from job_group_cases import drawn, groupings, problem, table_4_1, value_of

from warren.cost.job_groups import comp_s_J, group_iteration_s
from warren.solve.job_groups.bound import most_utilization
from warren.solve.job_groups.construction import busiest_first
from warren.solve.job_groups.exhaustive import JOBS_MOST, best_grouping
from warren.solve.job_groups.group_state import load, new_columns
from warren.solve.job_groups.iteration import iteration_of
from warren.solve.job_groups.local_search import descend, new_exchange, total_value
from warren.solve.job_groups.problem import (
    NOT_RUN,
    JobGrouping,
    JobGroupingProblem,
    grouping_of,
)
from warren.solve.job_groups.solve import grouped

TINY = range(300, 330)


def tiny(seed: int) -> JobGroupingProblem:
    """Up to four jobs on up to six machines, every third with equal jobs."""
    random = np.random.default_rng(seed)
    jobs, machines = int(random.integers(1, 5)), int(random.integers(1, 7))
    comp, net = random.gamma(1.5, 1.0, (2, jobs)) * [[machines / 2], [1.0]]
    if seed % 3 == 0:
        comp, net = np.ceil(comp), np.round(net)
    return problem(comp.tolist(), net.tolist(), machines)


def by_hand(one: JobGroupingProblem, found: JobGrouping) -> float:
    return value_of(one, found.group_J.tolist(), found.machine_G.tolist())


@pytest.mark.parametrize("seed", TINY)
def test_the_optimum_is_the_best_of_all_groupings(seed: int) -> None:
    one = tiny(seed)
    every = [value_of(one, *each) for each in groupings(len(one.net_s_J), one.machines)]
    found = best_grouping(one)
    assert found.value == pytest.approx(max(every), abs=1e-12)
    assert by_hand(one, found) == pytest.approx(found.value, abs=1e-12)
    assert found.machine_G.sum() == one.machines


@pytest.mark.parametrize("seed", TINY)
def test_where_all_jobs_must_run_it_is_the_best_of_those_groupings(seed: int) -> None:
    one = replace(tiny(seed), all_run=True)
    every = groupings(len(one.net_s_J), one.machines)
    best = max(value_of(one, *each) for each in every if NOT_RUN not in each[0])
    assert best_grouping(one).value == pytest.approx(best, abs=1e-12)


@pytest.mark.parametrize("seed", range(40))
def test_the_iteration_of_all_jobs_as_one_group_is_eq_4_1(seed: int) -> None:
    one = drawn(seed)
    found, machines = iteration_of(one, one.machines), one.machines
    comp_J = comp_s_J(one.comp_machine_s_J, machines)
    assert found.iteration_s == pytest.approx(group_iteration_s(comp_J, one.net_s_J))
    terms = {
        "cpu": comp_J.sum(), "network": one.net_s_J.sum(), "job": (comp_J + one.net_s_J).max()
    }  # fmt: skip
    assert terms[found.limit] == pytest.approx(max(terms.values()))


def test_of_terms_that_are_equal_the_first_limits_a_group() -> None:
    # All three are 4; COMM and the first job are 4; the first job is.
    assert iteration_of(problem([4, 4], [2, 2], 2), 2).limit == "cpu"
    assert iteration_of(problem([4, 2], [2, 2], 2), 2).limit == "network"
    assert iteration_of(problem([4, 1], [2, 1], 2), 2).limit == "job"


@pytest.mark.parametrize("seed", range(6100, 6140))
def test_where_all_jobs_must_run_the_search_is_within_two_percent(seed: int) -> None:
    one = replace(drawn(seed), all_run=True)
    found, best = grouped(one), best_grouping(one)
    assert found.group_J.min() >= 0
    assert best.group_J.min() >= 0
    assert 0.98 * best.utilization <= found.utilization
    assert found.value <= best.value + 1e-12


@pytest.mark.parametrize("seed", range(400, 440))
def test_no_optimum_is_above_the_bound(seed: int) -> None:
    for one in (drawn(seed), tiny(seed), replace(drawn(seed), cpu_weight=0.4)):
        assert best_grouping(one).utilization <= most_utilization(one) + 1e-12


def test_the_bound_is_reached_where_jobs_are_few_and_where_machines_are() -> None:
    # Two jobs on many machines: COMM is busy all the time, COMP W / N = 4 of 400 machines.
    few_jobs = problem([8, 8], [2, 2], 400)
    assert best_grouping_value(few_jobs) == pytest.approx(1 / 3 + 2 / 3 * 4 / 400)
    assert most_utilization(few_jobs) == pytest.approx(1 / 3 + 2 / 3 * 4 / 400, rel=1e-6)
    # Jobs that hardly send: CPU is busy, COMM a hundredth of the time.
    few_machines = problem([800, 800, 800], [2, 2, 2], 4)
    assert best_grouping(few_machines).utilization == pytest.approx(2 / 3 + 1 / 3 * 4 / 400)
    assert most_utilization(few_machines) == pytest.approx(2 / 3 + 1 / 3 * 4 / 400)
    alone = problem([6], [1], 3)
    assert most_utilization(alone) == pytest.approx(best_grouping(alone).utilization)


def best_grouping_value(one: JobGroupingProblem) -> float:
    """As ``best_grouping``, which does not try so many machines: both jobs in one group."""
    return grouping_of(one, np.array([0, 0]), np.array([one.machines])).utilization


@pytest.mark.parametrize("seed", range(5000, 5060))
def test_the_search_is_within_two_percent_of_the_optimum(seed: int) -> None:
    one = drawn(seed)
    found, best = grouped(one), best_grouping(one)
    assert found.utilization >= 0.98 * best.utilization
    assert found.value <= best.value + 1e-12
    assert by_hand(one, found) == pytest.approx(found.value, abs=1e-12)
    assert found.machine_G.sum() == one.machines


@pytest.mark.parametrize("seed", range(6000, 6030))
def test_it_is_so_where_nearly_all_that_counts_is_cpu(seed: int) -> None:
    one = replace(drawn(seed), cpu_weight=0.9)
    assert grouped(one).utilization >= 0.98 * best_grouping(one).utilization


def test_machines_of_two_groups_that_jobs_bind_are_split_where_both_gain_most() -> None:
    # Each of the two jobs has a group; the best split is at none of the groups' W / N.
    one = replace(problem([4.45, 0.88], [1.47, 0.31], 18), cpu_weight=0.9)
    found = grouped(one)
    assert found.machine_G.tolist() == [9, 9]
    assert found.value == pytest.approx(best_grouping(one).value, abs=1e-12)


@pytest.mark.parametrize(("jobs", "machines"), [(80, 100), (300, 40), (30, 700)])
def test_larger_groupings_are_what_they_are_said_to_be(jobs: int, machines: int) -> None:
    one = table_4_1(7, jobs, machines)
    found = grouped(one, work=500_000)
    assert by_hand(one, found) == pytest.approx(found.value, abs=1e-12)
    assert found.machine_G.sum() == machines
    assert found.machine_G.min() >= 1
    assert found.utilization <= most_utilization(one)
    again = grouped(one, work=500_000)
    assert again.group_J.tolist() == found.group_J.tolist()
    assert again.machine_G.tolist() == found.machine_G.tolist()


@pytest.mark.parametrize("seed", range(20))
def test_a_descent_never_loses_and_keeps_its_books(seed: int) -> None:
    one = table_4_1(seed, 40, 30)
    columns = new_columns(one)
    begun = grouping_of(one, *busiest_first(one, columns, 6.0))
    load(columns, begun.group_J, begun.machine_G)
    assert total_value(columns) / 30 == pytest.approx(begun.value, abs=1e-12)
    descend(columns, new_exchange(), np.uint64(seed), 10**7, False, True)
    ended = grouping_of(one, columns.group_J, columns.machine_G)
    assert total_value(columns) / 30 == pytest.approx(ended.value, abs=1e-9)
    assert ended.value >= begun.value
    assert ended.machine_G.sum() == 30


def test_of_equals_the_grouping_with_fewer_jobs_on_a_machine_is_taken() -> None:
    # Two opposite jobs fill one machine; two more of the same kind change nothing.
    one = problem([3, 1, 3, 1], [1, 3, 1, 3], 1)
    for found in (grouped(one), best_grouping(one)):
        assert found.utilization == pytest.approx(1.0)
        assert (found.group_J == 0).sum() == 2


@pytest.mark.parametrize(
    ("comp", "net", "machines"),
    [([2], [1], 1), ([2], [1], 9), ([2, 3], [0, 0], 5), ([1e-9, 1e9], [1e9, 1e-9], 30)],
)
def test_one_job_no_bytes_and_extreme_times_have_their_optimum(
    comp: list[float], net: list[float], machines: int
) -> None:
    one = problem(comp, net, machines)
    assert grouped(one).value == pytest.approx(best_grouping(one).value, rel=1e-12)


def test_what_cannot_be_asked_is_refused() -> None:
    for comp, net, machines in [([], [], 1), ([1], [1], 0), ([0], [1], 1), ([1], [-1], 1)]:
        with pytest.raises(ValueError, match=r"no job|COMP|COMM"):
            problem(comp, net, machines)
    with pytest.raises(ValueError, match="one length"):
        problem([1, 2], [1], 1)
    with pytest.raises(ValueError, match="weight"):
        replace(problem([1], [1], 1), cpu_weight=2.0)
    with pytest.raises(ValueError, match="at most"):
        best_grouping(problem([1] * (JOBS_MOST + 1), [1] * (JOBS_MOST + 1), 2))
    with pytest.raises(ValueError, match="machine"):
        grouping_of(problem([1, 1], [1, 1], 2), np.array([0, 1]), np.array([2, 1]))
