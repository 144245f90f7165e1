"""The one mutable object: what the cluster and every job are doing, in columns.

It changes in two ways only: ``apply(event)``, through the table ``TRANSITIONS``, and
``assign(assignment)``, after ``core.scheduling_rules`` has allowed it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any, Final

import numpy as np

from warren.core.outstanding import OutstandingGroup, SpeculativeRuns, containing, is_of
from warren.core.view_columns import ViewColumns
from warren.model.costs import CostTable
from warren.model.decision import Assignment, Reason
from warren.model.errors import InvalidTransition
from warren.model.events import (
    AnyEvent,
    CompDone,
    Event,
    JobArrived,
    JobCancelled,
    JobFailed,
    ParamsSaved,
    RolledBack,
    RoundsDone,
    TaskDropped,
    TasksDone,
    TasksLost,
    Woken,
)
from warren.model.past import NO_PAST, Past
from warren.model.run import Run
from warren.model.timeline import PlanOutcome
from warren.model.view import View


class Phase(IntEnum):
    """From arrival to end; nothing leads back."""

    PENDING = 0
    """Not arrived yet."""
    ACTIVE = 1
    """Arrived, rounds left."""
    FINISHED = 2
    FAILED = 3
    CANCELLED = 4

    @property
    def is_terminal(self) -> bool:
        """Nothing more will run."""
        return self >= Phase.FINISHED


_RUNNING: Final = int(Reason.RUNNING)


class State:
    """Columns over jobs (J) and devices (D), device queues, and outstanding rounds.

    ``queues[d]`` holds assignments whose COMP has not ended, head first; ``syncing[d]`` those
    whose COMP has ended and whose synchronisation has not. ``groups[j]`` maps the first round of
    each outstanding round or stretch to its count of finished shards. ``races``: tasks that run
    twice. ``blind``: the policy knows neither the future nor how many rounds a job has.
    """

    def __init__(
        self, run: Run, costs: CostTable, *, past: Past = NO_PAST, blind: bool = False
    ) -> None:
        jobs, devices = run.workload.jobs, run.cluster.devices
        self.run, self.costs, self.now_ns = run, costs, 0
        self.phase_J = np.zeros(len(jobs), dtype=np.int8)
        self.reason_J = np.full(len(jobs), Reason.NOT_ARRIVED, dtype=np.int8)
        self.round_J = np.zeros(len(jobs), dtype=np.int64)
        self.next_round_J = np.zeros(len(jobs), dtype=np.int64)
        self.next_shard_J = np.zeros(len(jobs), dtype=np.int64)
        self.open_J, self.arrived_J, self.done_J = (np.zeros(len(jobs), np.bool_) for _ in range(3))
        known = [-1 if blind else job.rounds or -1 for job in jobs]
        self.rounds_J = np.array(known, dtype=np.int64)
        self.scale_J = np.array([job.scale for job in jobs], dtype=np.int64)
        self.arrival_ns_J = np.array([job.arrival_ns for job in jobs], dtype=np.int64)
        self.weight_J = np.array([job.weight for job in jobs], dtype=np.float64)
        self.type_D = np.array(run.cluster.type_of_device, dtype=np.int64)
        self.queued_D = np.zeros(len(devices), dtype=np.int64)
        self.queues: list[deque[Assignment]] = [deque() for _ in devices]
        self.syncing: list[list[Assignment]] = [[] for _ in devices]
        self.groups: list[dict[int, OutstandingGroup]] = [{} for _ in jobs]
        self.races = SpeculativeRuns()
        self.planned = False
        self.recent: deque[AnyEvent | Assignment] = deque(maxlen=256)
        self._shown = ViewColumns(self, run, costs, past=past, blind=blind)
        self.told = self._shown.told

    def apply(self, event: AnyEvent) -> None:
        """Let one event change the state.

        Raises
        ------
        InvalidTransition
            If the event cannot happen in this state; the text tells the job's recent story.
        """
        if event.time_ns < self.now_ns:
            raise InvalidTransition(f"time went back from {self.now_ns} ns to {event}")
        self.now_ns = event.time_ns
        self.recent.append(event)
        if isinstance(event, Woken):
            return
        # An IntEnum equals and hashes as its number, which is cheaper to make.
        handler = TRANSITIONS.get((self.phase_J.item(event.job), type(event)))
        if handler is None:
            raise self.invalid(event, f"job is {Phase(self.phase_J[event.job]).name}")
        handler(self, event)

    def assign(self, assignment: Assignment) -> None:
        """Append a checked assignment to its device's queue."""
        job, first = assignment.job, assignment.round
        self.recent.append(assignment)
        queue = self.queues[assignment.device]
        queue.append(assignment)
        self.queued_D[assignment.device] = len(queue)
        self.reason_J[job] = _RUNNING
        groups = self.groups[job]
        if first not in groups:
            groups[first] = OutstandingGroup(assignment.rounds)
        if not self.planned:
            self._advance(job, assignment)

    def copy(self, copy: Assignment) -> None:
        """Start a task once more: a checked copy goes before what its device has not begun."""
        self.recent.append(copy)
        first = self.races.first_run(self.queues, copy)
        assert first is not None, "a copy is of a task that is under way"
        self.races.begin(first, copy)
        self.queues[copy.device].appendleft(copy)
        self.queued_D[copy.device] += 1

    def _advance(self, job: int, assignment: Assignment) -> None:
        shard = self.next_shard_J.item(job) + len(assignment.shards)
        if shard < self.scale_J.item(job):
            self.next_shard_J[job] = shard
            return
        self.next_shard_J[job] = 0
        self.next_round_J[job] = following = assignment.round + assignment.rounds
        self.open_J[job] = self.arrived_J.item(job) and following != self.rounds_J.item(job)

    def adopt_plan(self) -> None:
        """From now on a plan covers every task: nothing is open to a policy any more."""
        self.planned = True
        self.open_J[:] = False

    def finish_plan(self, outcome: PlanOutcome) -> None:
        """Every job that a plan completed in compiled code has ended."""
        self.adopt_plan()
        finished = outcome.finish_ns_J >= 0
        self.now_ns = max(self.now_ns, int(outcome.finish_ns_J.max(initial=0)))
        self.phase_J[finished] = Phase.FINISHED
        self.arrived_J[finished] = self.done_J[finished] = True
        self.round_J[finished] = self.rounds_J[finished]

    def invalid(self, event: object, why: str) -> InvalidTransition:
        """The error for an impossible event, with the recent story of its job."""
        job = getattr(event, "job", None)
        story = [str(past) for past in self.recent if getattr(past, "job", None) == job]
        return InvalidTransition(f"{event}: {why}; recent: " + " <- ".join(reversed(story[-8:])))

    def view(self, changes: tuple[AnyEvent, ...] = ()) -> View:
        """What a policy may see now."""
        return View(now_ns=self.now_ns, changes=changes, **self._shown.columns)

    # Handlers of the transition table.

    def _arrive(self, event: JobArrived) -> None:
        job = event.job
        self.phase_J[job] = Phase.ACTIVE
        self.arrived_J[job] = True
        self._shown.show(job)
        self.open_J[job] = not self.planned
        if self.reason_J[job] == Reason.NOT_ARRIVED:
            self.reason_J[job] = Reason.NOT_LOOKED_AT

    def recall(self) -> list[int]:
        """A run that was cut off goes on: what a plan had queued of jobs to come is gone.

        Gives these jobs. Those that have arrived are rolled back, each by its event.
        """
        pending_J = self.phase_J == Phase.PENDING
        early = [job for job, groups in enumerate(self.groups) if groups and pending_J[job]]
        for job in early:
            self._drop_queued(job)
        for lost in self.races.forget_lost(list(self.races.lost)):
            self._leave(lost)
        return early

    def _comp_done(self, event: CompDone) -> None:
        queue = self.queues[event.device]
        if not queue or not is_of(event, queue[0]):
            raise self.invalid(event, f"device runs {queue[0] if queue else 'nothing'}")
        self.syncing[event.device].append(queue.popleft())
        self.queued_D[event.device] = len(queue)

    def _tasks_done(self, event: TasksDone) -> None:
        syncing = self.syncing[event.device]
        match = [one for one in syncing if is_of(event, one)]
        if not match:
            raise self.invalid(event, "no such synchronisation is under way")
        syncing.remove(match[0])
        self.groups[event.job][event.round].done += len(event.shards)
        if self.races.pairs:
            self.races.done(event)

    def _rounds_done(self, event: RoundsDone) -> None:
        job, end = event.job, event.round + event.rounds
        if event.round != self.round_J.item(job):
            raise self.invalid(event, f"barrier {self.round_J[job]} is next")
        groups = self.groups[job]
        first = event.round if event.round in groups else containing(groups, event.round)
        if first is None or end > first + groups[first].rounds:
            raise self.invalid(event, "a round that was not assigned ended")
        if end == first + groups[first].rounds:
            if groups[first].done != self.scale_J.item(job):
                raise self.invalid(event, f"only {groups[first].done} shards are done")
            del groups[first]
        elif event.finished and groups[first].done == self.scale_J.item(job):
            del groups[first]  # nothing is queued of a stretch that its job's end has cut
        self.round_J[job] = end
        self._shown.observed.note(event)
        if event.finished:
            self._end(job, Phase.FINISHED)

    def _task_dropped(self, event: TaskDropped) -> None:
        """The later run of a task is over; until now its device was not free."""
        one = self.races.take(event)
        if one is None:
            raise self.invalid(event, "no such run has lost")
        self._leave(one)

    def _leave(self, lost: Assignment) -> None:
        if lost in self.syncing[lost.device]:
            self.syncing[lost.device].remove(lost)
            return
        self.queues[lost.device].remove(lost)
        self.queued_D[lost.device] -= 1

    def _tasks_lost(self, event: TasksLost) -> None:
        """They run again where they ran: nothing changes in the schedule."""

    def _rolled_back(self, event: RolledBack) -> None:
        """The job is where it was at the start of the round; a cut stretch goes on from there."""
        job = event.job
        if not 0 <= event.round <= self.round_J[job]:
            raise self.invalid(event, f"only {self.round_J[job]} barriers have passed")
        self._forget_races(job)
        self._drop_queued(job)
        self.round_J[job] = self.next_round_J[job] = event.round
        self.next_shard_J[job] = 0
        self.open_J[job] = not self.planned
        self._shown.observed.go_back(job, event.round)
        self.reason_J[job] = Reason.WAITING_FOR_TURN

    def _end(self, job: int, phase: Phase) -> None:
        self.phase_J[job] = phase
        self.done_J[job] = True
        self._shown.keep_back(job)
        self.open_J[job] = False
        if phase != Phase.FINISHED:
            self._forget_races(job)
        if self.groups[job]:
            self._drop_queued(job)

    def _forget_races(self, job: int) -> None:
        for lost in self.races.forget(job):
            self._leave(lost)

    def _drop_queued(self, job: int) -> None:
        """A job that ended early (stop rule, failure) or was rolled back leaves every queue."""
        self.groups[job].clear()
        lost = self.races.lost
        for device, queue in enumerate(self.queues):
            kept = [one for one in queue if one.job != job or one in lost]
            if len(kept) < len(queue):
                self.queues[device] = deque(kept)
                self.queued_D[device] = len(kept)
            if self.syncing[device]:
                syncing = self.syncing[device]
                self.syncing[device] = [one for one in syncing if one.job != job or one in lost]

    def _fail(self, event: JobFailed) -> None:
        self._end(event.job, Phase.FAILED)

    def _cancel(self, event: JobCancelled) -> None:
        self._end(event.job, Phase.CANCELLED)

    def _saved(self, event: ParamsSaved) -> None:
        """A finished job's parameters change nothing in the schedule."""


TRANSITIONS: Final[Mapping[tuple[int, type[Event]], Callable[[State, Any], None]]] = {
    (Phase.PENDING, JobArrived): State._arrive,
    (Phase.PENDING, JobFailed): State._fail,
    (Phase.PENDING, JobCancelled): State._cancel,
    (Phase.ACTIVE, CompDone): State._comp_done,
    (Phase.ACTIVE, TasksDone): State._tasks_done,
    (Phase.ACTIVE, RoundsDone): State._rounds_done,
    (Phase.ACTIVE, TaskDropped): State._task_dropped,
    (Phase.ACTIVE, TasksLost): State._tasks_lost,
    (Phase.ACTIVE, RolledBack): State._rolled_back,
    (Phase.ACTIVE, JobFailed): State._fail,
    (Phase.ACTIVE, JobCancelled): State._cancel,
    (Phase.FINISHED, TaskDropped): State._task_dropped,
    (Phase.FINISHED, ParamsSaved): State._saved,
}
"""Every (phase, event) that can happen, and what it does. Anything else is a defect."""
