"""Turns: of jobs that share hosts, the first to begin COMM goes first on their links.

What
    COMM of a round begins when its first task has computed, and ends when the state of the next
    round is there. The job whose COMM began first has class 1, the next job class 2, and so on,
    each among the jobs of its group (without groups, among all). So a job's traffic takes as long
    as if it had the links for itself, and others use the rest.
Source
    Harmony (dissertation 2020), 4.3.1: one COMM subtask at a time in the order of their queue, and
    a secondary subtask that yields.
Differs
    All jobs behind the first are secondary ones, in their order. Classes bind on links; a host of
    the paper's has a queue for its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from immutables import Map

from warren.model.decision import Decision, Question
from warren.model.events import (
    CompDone,
    Event,
    JobArrived,
    JobCancelled,
    JobFailed,
    RolledBack,
    RoundsDone,
)
from warren.model.view import View
from warren.policy.flow.changed import MOST, changed


@dataclass(frozen=True, slots=True)
class TurnMemory:
    """The jobs in the order in which their last COMM began, and the round of that, by job."""

    order: tuple[int, ...] = ()
    round_of: Map[int, int] = field(default_factory=Map)

    def after(self, view: View) -> TurnMemory:
        """Return it with the events of this instant."""
        order, round_of = list(self.order), self.round_of
        for event in view.changes:
            match event:
                case CompDone() if round_of.get(event.job, -1) < event.round:
                    round_of = round_of.set(event.job, event.round + event.rounds - 1)
                    if event.job in order:
                        order.remove(event.job)
                    order.append(event.job)
                case RolledBack() if event.job in round_of:
                    round_of = round_of.delete(event.job)
        return TurnMemory(tuple(job for job in order if not view.done_J[job]), round_of)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """Let jobs that share hosts send one after another, in the order in which they began."""

    name: ClassVar[str] = "turns"
    source: ClassVar[str] = "Harmony (dissertation 2020) 4.3.1"
    offline: ClassVar[bool] = False
    needs_rounds: ClassVar[bool] = False
    answers: ClassVar[frozenset[Question]] = frozenset({Question.FLOW})
    triggers: ClassVar[frozenset[type[Event]]] = frozenset(
        {JobArrived, CompDone, RoundsDone, RolledBack, JobFailed, JobCancelled}
    )

    def initial(self, view: View) -> TurnMemory:
        """Return a memory of no turns."""
        return TurnMemory()

    def decide(self, view: View, memory: TurnMemory) -> tuple[Decision, TurnMemory]:
        """Return the classes that have changed."""
        memory = memory.after(view)
        return changed(view, _classes(view, memory)), memory

    def explain(self, view: View, memory: TurnMemory, job: int) -> str:
        """Say in one sentence which jobs' bytes go before the job's."""
        before = _classes(view, memory).get(job, 0) - 1
        if before < 0:
            return "it has computed no task yet: class 0, before all others"
        return f"{before} jobs of its group began to send before it"


def _classes(view: View, memory: TurnMemory) -> dict[int, int]:
    """Return the class of each job that has computed a task, by its place in its group."""
    seen: dict[int, int] = {}
    classes = {}
    for job in memory.order:
        group = view.group_J.item(job)
        seen[group] = seen.get(group, 0) + 1
        classes[job] = min(seen[group], MOST)
    return classes
