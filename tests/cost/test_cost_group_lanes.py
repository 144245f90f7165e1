"""Lanes of a group, step by step: by hand, and in the steady state against (4.1)."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from warren.cost.group_lanes import group_lanes
from warren.model.costs import FloatArray

BEFORE = "sends while it computes"


def drawn_group(seed: int) -> tuple[FloatArray, FloatArray]:
    """COMP and COMM of up to seven jobs; every third group is bound by its first job."""
    random = np.random.default_rng(seed)
    jobs = int(random.integers(1, 8))
    comp_J, comm_J = random.gamma(1.5, 1.0, (2, jobs)) * random.uniform(0.3, 3.0, (2, 1))
    if seed % 3 == 0:
        comp_J[0] += 2 * comp_J.sum()
        comm_J[0] += 2 * comm_J.sum()
    return comp_J, comm_J


def steady_s_J(comp_J: FloatArray, comm_J: FloatArray, alone_J: FloatArray) -> FloatArray:
    """The mean of 840 iterations of each job; few jobs repeat themselves after so many."""
    lanes = group_lanes(comp_J, comm_J, alone_J, 2200)
    return np.array([(one[1840] - one[1000]) / 840 for one in lanes.comm_begin_s_I])


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("kind", ["", BEFORE])
def test_each_job_has_the_group_iteration_of_4_1_in_the_steady_state(seed: int, kind: str) -> None:
    comp_J, comm_J = drawn_group(seed)
    alone_J = comp_J + comm_J
    if kind == BEFORE:
        alone_J -= np.random.default_rng(seed).random(len(comp_J)) * np.minimum(comp_J, comm_J)
    expected = max(comp_J.sum(), comm_J.sum(), alone_J.max())
    assert steady_s_J(comp_J, comm_J, alone_J) == pytest.approx(expected, rel=1e-9)


def begins(
    comp_J: FloatArray, comm_J: FloatArray, alone_J: FloatArray, iterations: int
) -> tuple[list[list[float]], list[list[float]]]:
    lanes = group_lanes(comp_J, comm_J, alone_J, iterations)
    return [one.tolist() for one in lanes.comp_begin_s_I], [
        one.tolist() for one in lanes.comm_begin_s_I
    ]


def test_others_have_two_turns_while_a_job_waits_for_a_last_task() -> None:
    """The first could send at 1 and does at 5; the second takes 2 s a turn, and (4.1) says 6 s."""
    comp, comm = np.array([1.0, 1.0]), np.array([1.0, 1.0])
    comp_s, comm_s = begins(comp, comm, np.array([6.0, 2.0]), 2)
    assert comm_s == [[5, 11], [2, 4, 6, 8, 10]]
    assert comp_s == [[0, 6], [1, 3, 5, 7, 9, 11]]


def test_the_network_bound_group_of_fig_4_7a_by_hand() -> None:
    """COMP 1 and 2, COMM 3 and 4: while B sends A waits to send, and CPU idles."""
    comp, comm = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    comp_s, comm_s = begins(comp, comm, comp + comm, 3)
    assert comp_s == [[0, 4, 11, 18], [1, 8, 15]]
    assert comm_s == [[1, 8, 15], [4, 11, 18]]


@pytest.mark.parametrize(("alone", "due"), [(5.0, 2.0), (4.0, 1.0), (5.5, 2.5)])
def test_a_job_alone_repeats_as_it_does_alone(alone: float, due: float) -> None:
    comp_s, comm_s = begins(np.array([2.0]), np.array([3.0]), np.array([alone]), 3)
    assert comp_s == [[0, alone, 2 * alone]]
    assert comm_s == [[due, due + alone, due + 2 * alone]]


@pytest.mark.parametrize("seed", range(20))
def test_a_lane_does_one_step_at_a_time(seed: int) -> None:
    comp_J, comm_J = drawn_group(seed)
    lanes = group_lanes(comp_J, comm_J, comp_J + comm_J, 50)
    for begin_s_I, took_J in ((lanes.comp_begin_s_I, comp_J), (lanes.comm_begin_s_I, comm_J)):
        steps = sorted(
            (begin, begin + took)
            for one, took in zip(begin_s_I, took_J, strict=True)
            for begin in one
        )
        assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(steps))
    for job, comp in enumerate(comp_J):
        sent = lanes.comm_begin_s_I[job]
        assert (sent >= lanes.comp_begin_s_I[job][: len(sent)] + comp * (1 - 1e-9)).all()


def test_a_group_of_nobody_has_no_steps() -> None:
    none = np.zeros(0)
    assert group_lanes(none, none, none, 4).comp_begin_s_I == ()


@pytest.mark.parametrize(
    ("comp", "comm", "alone", "message"),
    [
        (-1.0, 1.0, 1.0, "a COMP or a COMM is negative"),
        (1.0, 2.0, 1.5, "a job alone is quicker than one of its steps"),
    ],
)
def test_times_that_cannot_be_are_refused(
    comp: float, comm: float, alone: float, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        group_lanes(np.array([comp]), np.array([comm]), np.array([alone]), 1)
