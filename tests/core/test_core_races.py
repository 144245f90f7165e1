"""What a copy may be, and what becomes of the run that was not first."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from warren.core.scheduling_rules import check_copy, check_invariants
from warren.model.decision import Assignment
from warren.model.errors import InfeasibleDecision, InvalidTransition
from warren.model.events import (
    AnyEvent,
    CompDone,
    JobFailed,
    RolledBack,
    RoundsDone,
    TaskDropped,
    TasksDone,
)

sys.path.insert(0, str(Path(__file__).parents[1]))

from copy_worlds import S, begun

FIRST = Assignment(0, 0, 0, 1, (0,))


@pytest.mark.parametrize(
    ("copy", "rule"),
    [
        (Assignment(1, 0, 1, 1, (0,)), "the barrier before it has not passed"),
        (Assignment(1, 0, 0, 1, (1,)), "is not first on another device"),
        (Assignment(0, 0, 0, 1, (0,)), "is not first on another device"),
        (Assignment(1, 0, 0, 2, (0,)), "is not first on another device"),
        (Assignment(2, 0, 0, 1, (0,)), "has something to do"),
        (Assignment(3, 0, 0, 1, (0,)), "does not fit"),
    ],
)
def test_a_copy_that_breaks_a_rule_is_refused(copy: Assignment, rule: str) -> None:
    queues = [[FIRST], [], [Assignment(2, 1, 0, 1, (0,))], []]
    state = begun([10.0, 10.0, 10.0, np.inf], queues)
    with pytest.raises(InfeasibleDecision, match=rule):
        check_copy(state, copy)
    check_copy(state, Assignment(1, 0, 0, 1, (0,)))


def test_a_task_that_was_copied_is_not_copied_again() -> None:
    state = begun([10.0] * 3, [[FIRST], [], []])
    state.copy(Assignment(1, 0, 0, 1, (0,)))
    with pytest.raises(InfeasibleDecision, match="has been copied already"):
        check_copy(state, Assignment(2, 0, 0, 1, (0,)))


def test_the_later_run_keeps_its_device_until_it_is_dropped_also_when_its_job_has_ended() -> None:
    state = begun([10.0, 10.0], [[Assignment(0, 1, 0, 1, (0,))], []])
    state.copy(Assignment(1, 1, 0, 1, (0,)))
    state.apply(CompDone(30 * S, 1, 0, 1, (0,), 1))
    state.apply(TasksDone(32 * S, 1, 0, 1, (0,), 1, 20 * S, 30 * S, 10 * S))
    state.apply(RoundsDone(32 * S, 1, 0, 1, True))
    assert state.queued_D.tolist() == [1, 0]
    check_invariants(state)
    state.apply(TaskDropped(90 * S, 1, 0, 0, 0, 90 * S))
    assert state.queued_D.tolist() == [0, 0]
    check_invariants(state)
    with pytest.raises(InvalidTransition, match="no such run"):
        state.apply(TaskDropped(90 * S, 1, 0, 0, 0, 90 * S))


@pytest.mark.parametrize(
    "end", [JobFailed(40 * S, 0, "it broke"), RolledBack(40 * S, 0, 0, "lost")]
)
def test_a_job_that_fails_or_goes_back_leaves_no_run_behind(end: AnyEvent) -> None:
    for done in (False, True):
        state = begun([10.0, 10.0], [[FIRST], []])
        state.copy(Assignment(1, 0, 0, 1, (0,)))
        if done:
            state.apply(CompDone(30 * S, 0, 0, 1, (0,), 1))
            state.apply(TasksDone(32 * S, 0, 0, 1, (0,), 1, 20 * S, 30 * S, 10 * S))
        state.apply(end)
        assert state.queued_D.tolist() == [0, 0]
        assert not state.races.pairs
        assert not state.races.lost
        check_invariants(state)


def test_when_a_run_goes_on_nothing_computes_for_a_job_that_has_ended() -> None:
    state = begun([10.0, 10.0], [[Assignment(0, 1, 0, 1, (0,))], []])
    state.copy(Assignment(1, 1, 0, 1, (0,)))
    state.apply(CompDone(30 * S, 1, 0, 1, (0,), 1))
    state.apply(TasksDone(32 * S, 1, 0, 1, (0,), 1, 20 * S, 30 * S, 10 * S))
    state.apply(RoundsDone(32 * S, 1, 0, 1, True))
    state.recall()
    assert state.queued_D.tolist() == [0, 0]
    check_invariants(state)
