"""GPU groups of HLAS, (4)-(6): the paper's example, and what a caller gets."""

from __future__ import annotations

import numpy as np
import pytest
from grouping_cases import lists, mixed, optimum

from warren.solve.common.arrays import FloatArray
from warren.solve.gpu_groups.local_search import GroupingSearch, constructions
from warren.solve.gpu_groups.problem import (
    GroupingProblem,
    ReducedProblem,
    expanded,
    mean_speeds,
    reduced,
    relative_speeds,
    speeds,
    spread,
)
from warren.solve.gpu_groups.solve import grouped

FIG_9_S = np.array([[3.0, 3.0, 1.8, 1.8], [1.0, 2.0, 2.5, 1.0]])
"""Seconds of a task of jobs A and B on GPUs 1 to 4."""


TASKS = (4, 6)


def fig_9(groups: int = 2, relative: bool = False) -> GroupingProblem:
    """Fig. 9, each GPU a type of its own."""
    comp_ns_JT = (FIG_9_S * 1e9).astype(np.int64)
    speed_JT = speeds(comp_ns_JT, np.zeros_like(comp_ns_JT), np.ones(FIG_9_S.shape, np.bool_))
    type_D = np.arange(4)
    if relative:
        speed_JT = relative_speeds(speed_JT, type_D, groups)
    return GroupingProblem(speed_JT=speed_JT, type_D=type_D, groups=groups)


def test_fig_9_in_two_groups_is_gpus_1_and_3_against_2_and_4() -> None:
    problem = fig_9()
    found = grouped(problem)
    assert lists(found) == [[0, 2], [1, 3]]
    assert found.spread == pytest.approx(0.1)
    assert found.bound == found.spread == pytest.approx(optimum(problem))
    assert lists(grouped(fig_9(relative=True))) == [[0, 2], [1, 3]]


def test_fig_9_by_mean_speed_b_goes_first() -> None:
    problem = fig_9()
    mean_J = mean_speeds(problem.speed_JT, problem.type_D, problem.groups)
    time_s_J = np.array(TASKS) / mean_J
    assert time_s_J == pytest.approx([4.5, 6 / 1.45])
    assert time_s_J[1] == pytest.approx(4.14, abs=0.005)
    assert time_s_J[1] < time_s_J[0]


def test_an_empty_group_gets_a_gpu_of_the_largest() -> None:
    problem = GroupingProblem(speed_JT=np.ones((1, 2)), type_D=np.array([0, 0, 1, 1]), groups=2)
    least = ReducedProblem(np.array([[1.0, 2.0]]), np.array([2, 2]), 2, np.array([0, 1]), 1.0)
    found = expanded(problem, least, np.array([[2, 2], [0, 0]]), bound=0.0)
    assert np.bincount(found.group_D).tolist() == [3, 1]


@pytest.mark.parametrize(("devices", "groups"), [(160, 40), (160, 7), (61, 60), (400, 80)])
def test_every_gpu_is_in_one_group_and_no_group_is_empty(devices: int, groups: int) -> None:
    problem = mixed(devices + groups, devices, groups)
    found = grouped(problem, moves=100, programs=0)
    assert np.bincount(found.group_D, minlength=groups).min() >= 1
    counts = np.zeros_like(found.count_GT)
    np.add.at(counts, (found.group_D, problem.type_D), 1)
    assert (counts == found.count_GT).all()
    assert found.spread == spread(found.count_GT, problem.speed_JT)
    assert found.bound <= found.spread
    # One type after the other, every group in turn: what one would do without thinking.
    turns = np.zeros_like(counts)
    np.add.at(turns, (np.arange(devices) % groups, problem.type_D), 1)
    assert found.spread <= spread(turns, problem.speed_JT) + 1e-9


def test_what_divides_evenly_is_divided_evenly() -> None:
    type_D = np.repeat(np.arange(4), 40)
    speed_JT = np.random.default_rng(3).random((8, 4))
    found = grouped(GroupingProblem(speed_JT=speed_JT, type_D=type_D, groups=40))
    assert (found.count_GT == 1).all()
    assert (found.spread, found.bound, found.gap) == (pytest.approx(0.0), found.spread, 0.0)
    assert found.group_D.tolist() == list(range(40)) * 4


def test_a_fast_model_counts_no_more_than_a_slow_one_when_speeds_are_relative() -> None:
    slow_JT: FloatArray = np.array([[1.0, 3.0, 2.0], [1.0, 1.5, 4.0]])
    type_D = np.array([0, 0, 0, 1, 1, 2, 2])
    fast_JT = slow_JT * np.array([[1.0], [1000.0]])
    both = [
        GroupingProblem(speed_JT=relative_speeds(one, type_D, 3), type_D=type_D, groups=3)
        for one in (slow_JT, fast_JT)
    ]
    assert both[0].speed_JT == pytest.approx(both[1].speed_JT)
    assert mean_speeds(both[0].speed_JT, type_D, 3) == pytest.approx(1.0)
    # To the letter the fast model decides alone.
    alone = grouped(GroupingProblem(speed_JT=fast_JT[1:], type_D=type_D, groups=3)).spread
    letter = grouped(GroupingProblem(speed_JT=fast_JT, type_D=type_D, groups=3)).spread
    assert letter == pytest.approx(alone)


def test_jobs_said_twice_or_in_another_order_change_nothing() -> None:
    problem = mixed(5, 90, 20)
    order = [3, 1, 0, 2, 7, 6, 5, 4, 0, 0, 3]
    other = GroupingProblem(
        speed_JT=problem.speed_JT[order], type_D=problem.type_D, groups=problem.groups
    )
    one, two = grouped(problem, programs=0), grouped(other, programs=0)
    assert one.group_D.tolist() == two.group_D.tolist()
    assert (one.spread, one.bound) == (two.spread, two.bound)
    assert grouped(problem, programs=0).group_D.tolist() == one.group_D.tolist()


@pytest.mark.parametrize("jobs", [0, 1, 2])
def test_gpus_that_no_job_can_use_go_evenly_to_all(jobs: int) -> None:
    speed_JT = np.tile([0.0, 1.0, 0.0], (jobs, 1))
    type_D = np.array([0, 0, 0, 0, 1, 1, 2, 2])
    found = grouped(GroupingProblem(speed_JT=speed_JT, type_D=type_D, groups=2))
    assert np.bincount(found.group_D).tolist() == [4, 4]
    assert (found.spread, found.bound) == (0.0, 0.0)
    more = grouped(GroupingProblem(speed_JT=speed_JT, type_D=type_D, groups=4))
    assert more.spread == (1.0 if jobs else 0.0)
    assert more.bound == more.spread
    assert np.bincount(more.group_D, minlength=4).min() >= 1


@pytest.mark.parametrize("groups", [0, 5, -1])
def test_a_number_of_groups_that_cannot_be_is_refused(groups: int) -> None:
    with pytest.raises(ValueError, match=f"{groups} groups of 4 GPUs"):
        fig_9(groups)


def test_a_speed_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="not finite"):
        GroupingProblem(speed_JT=np.array([[np.inf]]), type_D=np.array([0]), groups=1)


def test_disturbing_the_best_never_loses_it() -> None:
    problem = reduced(mixed(11, 100, 24))
    search = GroupingSearch(problem, seed=1)
    for count_GK in constructions(problem):
        search.consider(count_GK, 1000)
    value = search.value
    search.go_on(search.spent + 100, goal=0.0)
    assert search.value <= value
    assert spread(search.count_GK, problem.speed_NK) == search.value
    assert (search.count_GK.sum(axis=0) == problem.count_K).all()
