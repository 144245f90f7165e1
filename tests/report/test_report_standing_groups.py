"""Which groups stand when, from a history written by hand."""

from __future__ import annotations

import numpy as np
import pytest

from warren.core.journal import Header
from warren.core.journal_reader import History, TimedAnswers
from warren.model.decision import Decision, Group
from warren.model.events import RoundsDone, TasksDone
from warren.model.timeline import Timeline
from warren.report.standing_groups import GroupHistory, StandingGroup

S = 10**9
PAIR, LAST = Group((0, 1), (0, 1)), Group((2,), (2,))
ANSWERS = [
    (0, (PAIR,)),
    (10, (LAST, PAIR)),
    (20, (Group((0,), (0, 1)), LAST)),
    (30, (Group((2,), (0, 1, 2)),)),
    (40, ()),
]


def told(
    answers: list[tuple[int, tuple[Group, ...]]],
    finish_s: tuple[int, ...] = (30, 20, 40),
    rounds: tuple[RoundsDone, ...] = (),
    tasks: tuple[TasksDone, ...] = (),
) -> GroupHistory:
    """Jobs 0 and 1 come at 0 s and job 2 at 10 s."""
    names = ("a", "b", "c")
    history = History(
        header=Header("r", "sim", "p", "1", 0, names, ("d",)),
        timeline=Timeline.from_events(tasks),
        finish_ns_J=np.array([-1 if one < 0 else one * S for one in finish_s]),
        rounds=list(rounds),
        answers=[
            TimedAnswers(time_ns=at * S, decision=Decision(groups=groups)) for at, groups in answers
        ],
    )
    return GroupHistory(history=history, arrival_ns_J=np.array([0, 0, 10 * S]))


def stood(found: list[StandingGroup]) -> dict[Group, tuple[float, float]]:
    return {one.group: (one.begin_ns / S, one.end_ns / S) for one in found}


def test_a_group_stands_while_its_jobs_and_hosts_are_the_same() -> None:
    history = told(ANSWERS)
    # An answer that changes other groups alone, and their order, ends none.
    assert stood(history.standing(5 * S)) == {PAIR: (0, 20)}
    assert stood(history.standing(10 * S)) == {PAIR: (0, 20), LAST: (10, 30)}
    assert stood(history.standing(25 * S)) == {Group((0,), (0, 1)): (20, 30), LAST: (10, 30)}
    assert stood(history.standing(30 * S)) == {Group((2,), (0, 1, 2)): (30, 40)}
    assert history.standing(40 * S) == []


def test_a_job_that_has_ended_is_in_no_group_though_nobody_says_so() -> None:
    history = told([(0, (PAIR,)), (10, (PAIR, LAST))])
    assert stood(history.standing(12 * S)) == {PAIR: (0, 20), LAST: (10, 40)}
    assert stood(history.standing(22 * S)) == {Group((0,), (0, 1)): (20, 30), LAST: (10, 40)}
    assert history.groups_at(35 * S) == (LAST,)


def test_what_was_answered_stands_until_it_is_answered_otherwise_though_jobs_end() -> None:
    assert stood(told(ANSWERS).answered()) == {
        PAIR: (0, 20), LAST: (10, 30), Group((0,), (0, 1)): (20, 30),
        Group((2,), (0, 1, 2)): (30, 40),
    }  # fmt: skip
    assert stood(told([(0, (PAIR,)), (10, (PAIR, LAST))]).answered()) == {
        PAIR: (0, 40), LAST: (10, 40),
    }  # fmt: skip
    assert told([]).answered() == []


def test_before_the_first_answer_there_is_no_group() -> None:
    history = told([(10, (LAST,))])
    assert history.standing(5 * S) == []
    assert told([]).standing(5 * S) == []


@pytest.mark.parametrize(
    ("finish_s", "at_s"),
    [
        ((30, 20, 40), 10),
        # One goes as another comes: no more are there than before.
        ((30, 10, 40), 0),
        ((-1, -1, -1), 10),
    ],
)
def test_the_busiest_time_is_the_first_with_most_jobs(finish_s: tuple[int, ...], at_s: int) -> None:
    assert told(ANSWERS, finish_s).busiest_ns() == at_s * S


def test_rounds_of_a_job_are_counted_between_its_first_and_last_barrier_within() -> None:
    barriers = [(0, 2, 1), (1, 3, 1), (0, 5, 1), (0, 11, 2), (0, 20, 1), (0, 23, 1)]
    history = told(
        ANSWERS,
        rounds=tuple(RoundsDone(at * S, job, 0, rounds, False) for job, at, rounds in barriers),
    )
    # 2 to 20 s: rounds of 3, 3, 3 and 9 s; the stretch counts as two.
    assert history.round_ns(0, 0, 20 * S) == 18 * S / 4
    assert history.round_ns(0, 3 * S, 20 * S) == 15 * S / 3
    assert history.round_ns(0, 0, 20 * S, skip=1) == 15 * S / 3
    assert history.round_ns(0, 0, 20 * S, skip=3) is None
    assert history.round_ns(1, 0, 20 * S) is None
    assert history.round_ns(2, 0, 20 * S) is None


def test_a_job_runs_while_a_task_of_it_is_under_way() -> None:
    history = told(ANSWERS, tasks=(TasksDone(9 * S, 1, 0, 1, (0,), 0, 5 * S, 8 * S, 3 * S),))
    assert history.runs(1, 8 * S, 10 * S)
    assert history.runs(1, 0, 6 * S)
    assert not history.runs(1, 9 * S, 10 * S)
    assert not history.runs(1, 0, 5 * S)
    assert not history.runs(0, 0, 40 * S)


def test_the_next_change_is_an_arrival_an_end_or_an_answer() -> None:
    history = told([(0, ()), (33, ())])
    changes = [history.next_change_ns(at * S) / S for at in (0, 10, 20, 30, 33, 40)]
    assert changes == [10, 20, 30, 33, 40, 40]
