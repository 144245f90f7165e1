"""What rounds take beyond the model is learned, from jobs alone and from jobs in groups."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from warren.policy.joint.learned_comm import late_s
from warren.solve.common.arrays import FloatArray
from warren.solve.job_groups.problem import JobGroupingProblem, RoundTerms

MACHINES = 4
NEWEST = 0.3


def drawn(random: np.random.Generator, count: int) -> JobGroupingProblem:
    task_s = np.exp(random.normal(-1, 0.6, count))
    state_s = 0.4 * np.exp(random.normal(0, 0.6, count))
    return JobGroupingProblem(
        comp_machine_s_J=8 * task_s,
        net_s_J=np.zeros(count),
        machines=MACHINES,
        rounds=RoundTerms(pull_s_J=state_s, push_s_J=8 * state_s, task_s_J=task_s),
    )


def eq_4_1(problem: JobGroupingProblem, net_s_J: FloatArray) -> float:
    told = replace(problem, net_s_J=net_s_J)
    comp_s = told.comp_machine_s_J.sum() / MACHINES
    alone_s = told.alone_s_J(MACHINES).max()
    return float(max(comp_s, told.comm_s_J(MACHINES).sum(), alone_s))


def learned(problem: JobGroupingProblem, true_J: FloatArray, waits_J: FloatArray) -> FloatArray:
    """Follow a group whose jobs have all its iteration, and wait for links after their COMP."""
    count = len(true_J)
    known_J = np.zeros(count)
    sent_J = problem.terms[0] * (1 - 1 / MACHINES)
    for _ in range(80):
        told = replace(problem, net_s_J=known_J)
        found_J = late_s(
            told,
            MACHINES,
            np.full(count, eq_4_1(problem, true_J)),
            sent_J + true_J + waits_J,
            known_J,
        )
        known_J = known_J + NEWEST * (found_J - known_J)
    return known_J


@pytest.mark.parametrize("seed", range(5))
def test_of_a_job_alone_it_is_all_that_a_round_takes_longer(seed: int) -> None:
    random = np.random.default_rng(seed)
    problem, true_J = drawn(random, 1), random.uniform(0, 3, 1)
    assert learned(problem, true_J, np.zeros(1)) == pytest.approx(true_J, rel=1e-6)


@pytest.mark.parametrize("seed", range(20))
def test_a_group_takes_what_the_model_says_once_it_is_learned(seed: int) -> None:
    random = np.random.default_rng(seed)
    count = int(random.integers(2, 7))
    problem, true_J = drawn(random, count), np.zeros(count)
    true_J[int(random.integers(count))] = random.uniform(2, 10)
    known_J = learned(problem, true_J, random.uniform(0, 0.3, count))
    assert eq_4_1(problem, known_J) == pytest.approx(eq_4_1(problem, true_J), rel=0.01)
    # Most of it is of the job that has it, though others wait for links, too.
    assert known_J.argmax() == true_J.argmax()


@pytest.mark.parametrize("seed", range(5))
def test_waiting_for_links_is_not_taken_for_comm_where_the_iteration_is_as_modelled(
    seed: int,
) -> None:
    random = np.random.default_rng(seed)
    problem = drawn(random, 3)
    assert learned(problem, np.zeros(3), random.uniform(0, 3, 3)) == pytest.approx(0)


def test_what_was_taken_for_comm_and_is_none_is_forgotten() -> None:
    problem = drawn(np.random.default_rng(1), 2)
    took_s = eq_4_1(problem, np.zeros(2))
    known_J = np.array([5.0, 0.0])
    for _ in range(80):
        told = replace(problem, net_s_J=known_J)
        found_J = late_s(told, MACHINES, np.full(2, took_s), np.full(2, 9.0), known_J)
        known_J = known_J + NEWEST * (found_J - known_J)
    assert eq_4_1(problem, known_J) == pytest.approx(took_s, rel=0.01)
