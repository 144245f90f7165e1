"""Outstanding tasks of a job: one group a round, or a stretch of several."""

from __future__ import annotations

from collections.abc import Mapping

from warren.model.decision import Assignment
from warren.model.events import CompDone, TasksDone


class Group:
    """Outstanding tasks of one round, or of one stretch: how many rounds, how many shards done."""

    __slots__ = ("done", "rounds")

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds
        self.done = 0


def containing(groups: Mapping[int, Group], wanted: int) -> int | None:
    """The first round of the group that a round belongs to; None if it is in none."""
    for first, group in groups.items():
        if first <= wanted < first + group.rounds:
            return first
    return None


def is_of(event: CompDone | TasksDone, assignment: Assignment) -> bool:
    """Whether the event ends this assignment; fewer rounds of it if a stop rule ended the job."""
    return (
        assignment.job == event.job
        and assignment.round == event.round
        and assignment.shards == event.shards
        and 1 <= event.rounds <= assignment.rounds
    )
