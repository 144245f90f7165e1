"""Opportunistic hosts in the core: seen while they are absent, and refused as a place for work."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from warren.core.answers.rules import check_answers
from warren.core.scheduling_rules import check_assignment
from warren.core.state import State
from warren.model.decision import Assignment, Decision, Shape
from warren.model.errors import InfeasibleDecision
from warren.model.events import HostJoined, HostLeft, JobArrived

sys.path.insert(0, str(Path(__file__).parents[1]))
import question_worlds as q

ON_FIRST = Assignment(0, 0, 0, 1, (0,))
ON_SECOND = Assignment(2, 0, 0, 1, (0,))


def state_of(*events: HostLeft | HostJoined) -> State:
    """Two hosts of two devices, and a job that has arrived."""
    state = State(*q.small_world())
    for event in (JobArrived(0, 0), *events):
        state.apply(event)
    return state


def test_no_task_is_placed_on_a_host_that_is_not_there() -> None:
    state = state_of(HostLeft(1, 1))
    check_assignment(state, "p", ON_FIRST)
    with pytest.raises(InfeasibleDecision, match="host h1 of the device is not there now"):
        check_assignment(state, "p", ON_SECOND)
    state.apply(HostJoined(2, 1))
    check_assignment(state, "p", ON_SECOND)


@pytest.mark.parametrize("shape", [Shape((0, 1), (0,)), Shape((0,), (1,))])
def test_no_shape_has_a_host_that_is_not_there(shape: Shape) -> None:
    decision = Decision(shapes={0: shape})
    check_answers(state_of(), "p", decision)
    with pytest.raises(InfeasibleDecision, match="host h1 is not there now"):
        check_answers(state_of(HostLeft(1, 1)), "p", decision)


def test_policies_see_which_hosts_are_absent_and_tasks_are_left_the_others() -> None:
    state = state_of()
    view = state.view()
    assert not view.absent
    assert view.task_hosts(0) is None
    state.apply(HostLeft(1, 1))
    assert state.view().absent == {1}
    assert state.view().task_hosts(0) == {0}
    state.answer(Decision(shapes={0: Shape((0, 1), (0,))}))
    assert state.view().task_hosts(0) == {0}
    # What is said again changes nothing: a resumed run hears of all hosts.
    state.apply(HostLeft(2, 1))
    state.apply(HostJoined(3, 1))
    assert state.view().task_hosts(0) == {0, 1}
