"""The ports of the core: they carry commands out and bring events back.

The simulator and the live controller both implement ``Port``; the core cannot distinguish them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from warren.model.costs import CostTable
from warren.model.decision import Assignment, Group, Plan, Question, Shape
from warren.model.events import AnyEvent
from warren.model.job import Job
from warren.model.link_use import LinkUse
from warren.model.timeline import PlanOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """Where a run that was cut off goes on, by its journal: the beginning of a new port.

    ``now_ns`` is the last time of the journal; time goes on from there, whatever has passed
    meanwhile. Per job: the last round it may go back to, whether it has arrived, whether it has
    ended. ``wakes_ns`` are wake-ups asked for that have not come. ``numerics`` is the class that
    the run computes in; empty where the journal does not say.

    The port's first events are one ``RolledBack`` for each job that has arrived and not ended, all
    at one time; ``JobArrived`` does not come again.
    """

    now_ns: int
    rounds_J: tuple[int, ...]
    arrived_J: tuple[bool, ...]
    ended_J: tuple[bool, ...]
    wakes_ns: tuple[int, ...] = ()
    numerics: str = ""


class Port(Protocol):
    """A world that runs the core's assignments: virtual time or the real cluster.

    ``carries``: the questions whose answers the port can carry out. A run whose policies answer
    others is refused before anything starts.
    """

    @property
    def carries(self) -> frozenset[Question]:
        """Return the questions whose answers the port can carry out."""
        ...

    def submit(self, assignments: tuple[Assignment, ...]) -> None:
        """Append to device queues, in order. Called only with checked assignments."""
        ...

    def copy(self, copies: tuple[Assignment, ...]) -> None:
        """Start tasks under way once more, each before the tasks that its device has not begun.

        Of both runs the first that is done gives ``TasksDone``. The other run is forgotten at the
        round's barrier if it has left COMP, else at the end of COMP. Then comes its
        ``TaskDropped``. Called only with checked copies, after ``submit``.
        """
        ...

    def wake_at(self, time_ns: int) -> None:
        """Ask for a ``Woken`` event at ``time_ns`` (or now, if that is past)."""
        ...

    def next_events(self) -> tuple[AnyEvent, ...]:
        """Return all events of the next instant, sorted by (time, rank, sequence); () when over.

        The port itself produces ``JobArrived``. Times never go back. It is over when no job
        that has arrived or will arrive can make progress without a further ``submit``.
        """
        ...

    def run_plan(self, plan: Plan) -> PlanOutcome | None:
        """Run a whole plan in compiled code; None where it must go through events (live)."""
        ...

    def link_use(self) -> LinkUse | None:
        """Return the bytes that passed each link over time; None if the port does not count them.

        Asked once, when the run is over. A port that counts no bytes adds nothing to the journal.
        """
        ...


class GrowingPort(Port, Protocol):
    """A port to which jobs come that the core did not know at the beginning of the run."""

    def new_jobs(self) -> tuple[tuple[Job, ...], CostTable] | None:
        """Return the jobs that have come since the last call, with their costs; None: none have.

        Asked after each ``next_events``, before its events are applied: one may be the arrival of a
        new job. They have the indices after those of all other jobs, and none is to arrive before
        a job that is known. It is over when no job will come any more, either.
        """
        ...


class AnswerPort(Port, Protocol):
    """A port that carries more than place. It gets those of these commands that it ``carries``.

    Called only with checked answers, after the journal has them, in this order: ``reshape``,
    ``regroup``, ``submit``, ``classify``, ``delay``. When a run that was cut off goes on, these
    calls repeat all standing answers. A delay does not stand: if it was not served before the cut,
    it is void.
    """

    def reshape(self, shapes: Mapping[int, Shape]) -> None:
        """Give jobs, by index, their workers and servers, while they train."""
        ...

    def regroup(self, groups: tuple[Group, ...]) -> None:
        """Make these groups of jobs share hosts, and no others."""
        ...

    def classify(
        self, classes: Mapping[int, int], host_classes: Mapping[tuple[int, int], int]
    ) -> None:
        """Give the bytes of jobs, by index, their classes; and by (host, job) on single hosts.

        A class of a job replaces its earlier classes on single hosts.
        """
        ...

    def delay(self, delays_ns: Mapping[int, int]) -> None:
        """Delay the next round of each job: ``delays_ns[job]`` after the barrier before it.

        That barrier is the first that passes from now on. No task of the round starts, and no state
        is pulled for one, before barrier + delay; where the state was on its way already, tasks
        wait alone. ``Decision.delays_ns`` says when a delay is taken back.
        """
        ...
