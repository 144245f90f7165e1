"""The one mutable object: the state of the cluster and of every job, in columns.

It changes in two ways only: ``apply(event)``, through the table ``TRANSITIONS``, and
``assign(assignment)``, after ``core.scheduling_rules`` has allowed it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import IntEnum
from typing import Any, Final

import numpy as np

from warren.core.answers.standing import StandingAnswers
from warren.core.metric_history import MetricHistory
from warren.core.speculative_runs import SpeculativeRuns
from warren.core.view_columns import ViewColumns, extended, known_rounds
from warren.model.costs import CostTable
from warren.model.decision import Assignment, Decision, Reason
from warren.model.errors import InvalidTransition
from warren.model.events import (
    AnyEvent,
    CompDone,
    Event,
    HostJoined,
    HostLeft,
    JobArrived,
    JobCancelled,
    JobFailed,
    ParamsSaved,
    RolledBack,
    RoundsDone,
    ServersMoved,
    TaskDropped,
    TasksDone,
    TasksLost,
    Woken,
)
from warren.model.job import Job, Workload
from warren.model.past import NO_PAST, Past
from warren.model.run import Run
from warren.model.timeline import PlanOutcome
from warren.model.view import View


class Phase(IntEnum):
    """Phase of a job between its arrival and its end; no phase leads back to an earlier one."""

    PENDING = 0
    """Not arrived yet."""
    ACTIVE = 1
    """Arrived, rounds left."""
    FINISHED = 2
    FAILED = 3
    CANCELLED = 4

    @property
    def is_terminal(self) -> bool:
        """Tell whether nothing more of the job will run."""
        return self >= Phase.FINISHED


class OutstandingGroup:
    """The outstanding tasks of one round or stretch: its rounds, and how many shards are done."""

    __slots__ = ("done", "rounds")

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds
        self.done = 0


def containing(groups: Mapping[int, OutstandingGroup], wanted: int) -> int | None:
    """Return the first round of the group that a round belongs to; None if it is in none."""
    for first, group in groups.items():
        if first <= wanted < first + group.rounds:
            return first
    return None


def is_of(event: CompDone | TasksDone, assignment: Assignment) -> bool:
    """Tell whether the event ends this assignment, or fewer rounds of it by a stop rule."""
    return (
        assignment.job == event.job
        and assignment.round == event.round
        and assignment.shards == event.shards
        and 1 <= event.rounds <= assignment.rounds
    )


# A plain int: ``assign`` is called for every assignment, and an enum member costs more there.
_RUNNING: Final = int(Reason.RUNNING)
_FIRST_VALUES: Final[Mapping[str, int]] = {
    "phase_J": Phase.PENDING,
    "reason_J": Reason.NOT_ARRIVED,
    "round_J": 0,
    "next_round_J": 0,
    "next_shard_J": 0,
    "round_ns_J": -1,
    "open_J": False,
    "arrived_J": False,
    "done_J": False,
}
"""The value of each column for a job that has not arrived."""


class State:
    """The state of one run: columns over jobs (J) and devices (D), queues, outstanding rounds.

    ``queues[d]`` holds assignments whose COMP has not ended, head first; ``syncing[d]`` those
    whose COMP has ended and whose synchronization has not. ``groups[j]`` maps the first round of
    each outstanding round or stretch to its count of finished shards. ``races``: tasks that run
    twice. ``answers``: the class, shape and group of each job. ``blind``: the policy that places
    knows neither the future nor how many rounds a job has.
    """

    def __init__(
        self, run: Run, costs: CostTable, *, past: Past = NO_PAST, blind: bool = False
    ) -> None:
        devices = run.cluster.devices
        self.run = run
        self.costs = costs
        self.now_ns = 0
        # Columns of jobs have room for none yet: ``_append`` brings the first jobs, too.
        self.phase_J = np.zeros(0, dtype=np.int8)
        self.reason_J = np.zeros(0, dtype=np.int8)
        self.round_J = np.zeros(0, dtype=np.int64)
        self.next_round_J = np.zeros(0, dtype=np.int64)
        self.next_shard_J = np.zeros(0, dtype=np.int64)
        self.round_ns_J = np.zeros(0, dtype=np.int64)
        # When a job's last barrier passed; None: not since it began or was put back.
        self._barrier_ns_J: list[int | None] = []
        self.open_J = np.zeros(0, np.bool_)
        self.arrived_J = np.zeros(0, np.bool_)
        self.done_J = np.zeros(0, np.bool_)
        self.scale_J = np.zeros(0, dtype=np.int64)
        self.arrival_ns_J = np.zeros(0, dtype=np.int64)
        self.weight_J = np.zeros(0, dtype=np.float64)
        # -1 stands for an unknown number of rounds, here and in every view.
        self.rounds_J = np.zeros(0, dtype=np.int64)
        self.type_D = np.array(run.cluster.type_of_device, dtype=np.int64)
        self.queued_D = np.zeros(len(devices), dtype=np.int64)
        self.queues: list[deque[Assignment]] = [deque() for _ in devices]
        self.syncing: list[list[Assignment]] = [[] for _ in devices]
        self.groups: list[dict[int, OutstandingGroup]] = []
        self.races = SpeculativeRuns()
        self.planned = False
        # Recent events that an ``InvalidTransition`` reports of a job; bounded, since runs have
        # millions.
        self.recent: deque[AnyEvent | Assignment] = deque(maxlen=256)
        self.answers = StandingAnswers(run)
        # Opportunistic hosts that are not there.
        self.absent: frozenset[int] = frozenset()
        self._observed = MetricHistory(())
        self._past = past
        self._blind = blind
        self._views: dict[bool, ViewColumns] = {}
        self._append(run.workload.jobs)
        # The views of policies, by whether they are blind; the first view is for the policy of
        # place.
        self._shown = self.shown_to(blind=blind)

    def add(self, jobs: tuple[Job, ...], costs: CostTable) -> None:
        """Know of more jobs, which come after all others; ``costs``: theirs alone.

        Raises
        ------
        ValueError
            If their indices do not go on where those of the jobs known so far end.
        """
        known = self.run.workload.jobs
        if [job.index for job in jobs] != list(range(len(known), len(known) + len(jobs))):
            raise ValueError(f"jobs that are added have the indices from {len(known)} on")
        workload = Workload(jobs=(*known, *jobs), notes=self.run.workload.notes)
        self.run = replace(self.run, workload=workload)
        self.costs = self.costs.first(len(known)).joined(costs)
        self.answers.add(len(jobs))
        self._append(jobs)
        for shown in self._views.values():
            shown.add(self.run, self.costs, costs)

    def _append(self, jobs: Sequence[Job]) -> None:
        """Make the columns longer by these jobs, which have not arrived."""
        for name, value in _FIRST_VALUES.items():
            setattr(self, name, extended(getattr(self, name), np.full(len(jobs), value)))
        self.scale_J = extended(self.scale_J, [job.scale for job in jobs])
        self.arrival_ns_J = extended(self.arrival_ns_J, [job.arrival_ns for job in jobs])
        self.weight_J = extended(self.weight_J, [job.weight for job in jobs])
        self.rounds_J = extended(self.rounds_J, known_rounds(jobs, blind=self._blind))
        self._barrier_ns_J += [None] * len(jobs)
        self.groups += [{} for _ in jobs]
        self._observed.jobs = self.run.workload.jobs

    def apply(self, event: AnyEvent) -> None:
        """Change the state by one event.

        Raises
        ------
        InvalidTransition
            If the event cannot happen in this state; the text holds the job's recent story.
        """
        if event.time_ns < self.now_ns:
            raise InvalidTransition(f"time went back from {self.now_ns} ns to {event}")
        self.now_ns = event.time_ns
        self.recent.append(event)
        if isinstance(event, Woken):
            return
        if isinstance(event, HostLeft | HostJoined):
            self._host_changed(event)
            return
        # An IntEnum equals and hashes as its number, which is cheaper to make.
        handler = TRANSITIONS.get((self.phase_J.item(event.job), type(event)))
        if handler is None:
            raise self.invalid(event, f"job is {Phase(self.phase_J[event.job]).name}")
        handler(self, event)

    def assign(self, assignment: Assignment) -> None:
        """Append an assignment, which has been checked, to its device's queue."""
        job, first = assignment.job, assignment.round
        self.recent.append(assignment)
        queue = self.queues[assignment.device]
        queue.append(assignment)
        self.queued_D[assignment.device] = len(queue)
        self.reason_J[job] = _RUNNING
        groups = self.groups[job]
        if first not in groups:
            groups[first] = OutstandingGroup(assignment.rounds)
        # A plan assigns rounds in its own order, so there is no next task to keep.
        if not self.planned:
            self._advance(job, assignment)

    def copy(self, copy: Assignment) -> None:
        """Start a task once more: a checked copy goes before tasks not begun on its device."""
        self.recent.append(copy)
        first = self.races.first_run(self.queues, copy)
        assert first is not None, "a copy is of a task that is under way"
        self.races.begin(first, copy)
        self.queues[copy.device].appendleft(copy)
        self.queued_D[copy.device] += 1

    def _advance(self, job: int, assignment: Assignment) -> None:
        """Move the job's next unassigned task past this assignment."""
        shard = self.next_shard_J.item(job) + len(assignment.shards)
        if shard < self.scale_J.item(job):
            self.next_shard_J[job] = shard
            return
        # All shards are assigned: next is the round after the stretch. A job whose rounds are
        # unknown (-1) stays open, since only the barrier shows that it has ended.
        self.next_shard_J[job] = 0
        self.next_round_J[job] = following = assignment.round + assignment.rounds
        self.open_J[job] = self.arrived_J.item(job) and following != self.rounds_J.item(job)

    def adopt_plan(self) -> None:
        """Note that a plan covers every task: nothing is open to a policy any more."""
        self.planned = True
        self.open_J[:] = False

    def finish_plan(self, outcome: PlanOutcome) -> None:
        """End every job that a plan has completed in compiled code."""
        self.adopt_plan()
        finished = outcome.finish_ns_J >= 0
        self.now_ns = max(self.now_ns, int(outcome.finish_ns_J.max(initial=0)))
        self.phase_J[finished] = Phase.FINISHED
        self.arrived_J[finished] = self.done_J[finished] = True
        self.round_J[finished] = self.rounds_J[finished]

    def invalid(self, event: object, why: str) -> InvalidTransition:
        """Return the error for an impossible event, with the latest events of its job."""
        job = getattr(event, "job", None)
        story = [str(past) for past in self.recent if getattr(past, "job", None) == job]
        return InvalidTransition(f"{event}: {why}; recent: " + " <- ".join(reversed(story[-8:])))

    def answer(self, decision: Decision) -> None:
        """Apply the checked answers of a decision to shape, group and flow."""
        self.answers.apply(decision)
        if decision.groups is not None:
            for shown in self._views.values():
                shown.regroup()

    def shown_to(self, *, blind: bool) -> ViewColumns:
        """Return the columns that blind, or other, policies see; call it before time starts."""
        if blind not in self._views:
            self._views[blind] = ViewColumns(
                self,
                self.run,
                self.costs,
                past=self._past,
                blind=blind,
                answers=self.answers,
                observed=self._observed,
            )
        return self._views[blind]

    def view(self, changes: tuple[AnyEvent, ...] = ()) -> View:
        """Return the view for the policy that places; ``changes``: events of this instant."""
        return self._shown.view(self.now_ns, changes)

    # Handlers of the transition table ``TRANSITIONS``, at the end of the file.

    def _arrive(self, event: JobArrived) -> None:
        """Make the job active and show it to the policy."""
        job = event.job
        self.phase_J[job] = Phase.ACTIVE
        self.arrived_J[job] = True
        if True in self._views:
            self._views[True].show(job)
        self.open_J[job] = not self.planned
        if self.reason_J[job] == Reason.NOT_ARRIVED:
            self.reason_J[job] = Reason.NOT_LOOKED_AT

    def _host_changed(self, event: HostLeft | HostJoined) -> None:
        """Note that a host is there, or not; one event may say again what is known."""
        self.absent -= {event.host}
        if isinstance(event, HostLeft):
            self.absent |= {event.host}
        for shown in self._views.values():
            shown.show_absent(self.absent)

    def recall(self) -> list[int]:
        """Empty the queues of a run that was cut off of a plan's assignments of jobs to come.

        Return these jobs. Jobs that have arrived are rolled back, each by its own event.
        """
        pending_J = self.phase_J == Phase.PENDING
        early = [job for job, groups in enumerate(self.groups) if groups and pending_J[job]]
        for job in early:
            self._drop_queued(job)
        # Runs of tasks that were beaten belong to no roll-back: they ended with their processes.
        for lost in self.races.forget_lost(list(self.races.lost)):
            self._leave(lost)
        return early

    def _comp_done(self, event: CompDone) -> None:
        """Move the head of the device's queue from COMP to synchronization."""
        queue = self.queues[event.device]
        if not queue or not is_of(event, queue[0]):
            raise self.invalid(event, f"device runs {queue[0] if queue else 'nothing'}")
        self.syncing[event.device].append(queue.popleft())
        self.queued_D[event.device] = len(queue)

    def _tasks_done(self, event: TasksDone) -> None:
        """End an assignment's synchronization and count its shards for the barrier."""
        syncing = self.syncing[event.device]
        match = [one for one in syncing if is_of(event, one)]
        if not match:
            raise self.invalid(event, "no such synchronization is under way")
        syncing.remove(match[0])
        self.groups[event.job][event.round].done += len(event.shards)
        if self.races.pairs:
            self.races.done(event)

    def _rounds_done(self, event: RoundsDone) -> None:
        """Pass the barriers of these rounds, and end the job if they were its last."""
        job, end = event.job, event.round + event.rounds
        if event.round != self.round_J.item(job):
            raise self.invalid(event, f"barrier {self.round_J[job]} is next")
        # ``first`` names the stretch; barriers inside it may be reported before its last one.
        groups = self.groups[job]
        first = event.round if event.round in groups else containing(groups, event.round)
        if first is None or end > first + groups[first].rounds:
            raise self.invalid(event, "a round that was not assigned ended")
        # Only the last round of a stretch needs all its shards done, and ends its group.
        if end == first + groups[first].rounds:
            if groups[first].done != self.scale_J.item(job):
                raise self.invalid(event, f"only {groups[first].done} shards are done")
            del groups[first]
        elif event.finished and groups[first].done == self.scale_J.item(job):
            del groups[first]  # nothing is queued of a stretch that its job's end has cut
        self.round_J[job] = end
        before_ns = self._barrier_ns_J[job]
        if before_ns is not None:
            self.round_ns_J[job] = (event.barrier_ns - before_ns) // event.rounds
        self._barrier_ns_J[job] = event.barrier_ns
        if self.run.workload.jobs[job].stop is not None:
            self._observed.note(event)
        if event.finished:
            self._end(job, Phase.FINISHED)

    def _task_dropped(self, event: TaskDropped) -> None:
        """Take the beaten run of a task from its device, which was not free until now."""
        one = self.races.take(event)
        if one is None:
            raise self.invalid(event, "no such run has lost")
        self._leave(one)

    def _leave(self, lost: Assignment) -> None:
        """Take a beaten run from its device, from whichever lane it has reached."""
        if lost in self.syncing[lost.device]:
            self.syncing[lost.device].remove(lost)
            return
        self.queues[lost.device].remove(lost)
        self.queued_D[lost.device] -= 1

    def _tasks_lost(self, event: TasksLost) -> None:
        """Change nothing: tasks lost with a process run again on the same device."""

    def _rolled_back(self, event: RolledBack) -> None:
        """Put the job back to the start of a round; a stretch cut there goes on from it."""
        job = event.job
        if not 0 <= event.round <= self.round_J[job]:
            raise self.invalid(event, f"only {self.round_J[job]} barriers have passed")
        # Races first: ``_drop_queued`` leaves beaten runs where they are.
        self._forget_races(job)
        self._drop_queued(job)
        self.round_J[job] = self.next_round_J[job] = event.round
        self.next_shard_J[job] = 0
        self.round_ns_J[job] = -1
        self._barrier_ns_J[job] = None
        self.open_J[job] = not self.planned
        self._observed.go_back(job, event.round)
        self.reason_J[job] = Reason.WAITING_FOR_TURN

    def _end(self, job: int, phase: Phase) -> None:
        """Put the job into a terminal phase and remove the rest of it from all queues."""
        self.phase_J[job] = phase
        self.done_J[job] = True
        if True in self._views and not self.arrived_J[job]:
            self._views[True].keep_back(job)
        if self.answers.any:
            self.answers.forget(job)
        self.open_J[job] = False
        # A finished job's beaten runs stay until their ``TaskDropped``: their devices are at work.
        if phase != Phase.FINISHED:
            self._forget_races(job)
        if self.groups[job]:
            self._drop_queued(job)

    def _forget_races(self, job: int) -> None:
        """Forget which tasks of the job run twice, and take its beaten runs from their devices."""
        for lost in self.races.forget(job):
            self._leave(lost)

    def _drop_queued(self, job: int) -> None:
        """Take a job that ended early (stop rule, failure) or was rolled back from every queue."""
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

    def _servers_moved(self, event: ServersMoved) -> None:
        """Change nothing where they did: the shape stands since it was answered."""
        if event.reason:
            self.answers.keep_servers(event.job, event.servers, event.model_bytes)

    def _saved(self, event: ParamsSaved) -> None:
        """Change nothing: a finished job's parameters do not touch the schedule."""


TRANSITIONS: Final[Mapping[tuple[int, type[Event]], Callable[[State, Any], None]]] = {
    (Phase.PENDING, JobArrived): State._arrive,
    (Phase.PENDING, JobFailed): State._fail,
    (Phase.PENDING, JobCancelled): State._cancel,
    (Phase.ACTIVE, CompDone): State._comp_done,
    (Phase.ACTIVE, TasksDone): State._tasks_done,
    (Phase.ACTIVE, RoundsDone): State._rounds_done,
    (Phase.ACTIVE, TaskDropped): State._task_dropped,
    (Phase.ACTIVE, TasksLost): State._tasks_lost,
    (Phase.ACTIVE, ServersMoved): State._servers_moved,
    (Phase.ACTIVE, RolledBack): State._rolled_back,
    (Phase.ACTIVE, JobFailed): State._fail,
    (Phase.ACTIVE, JobCancelled): State._cancel,
    (Phase.FINISHED, TaskDropped): State._task_dropped,
    (Phase.FINISHED, ParamsSaved): State._saved,
}
"""Every (phase, event) that can happen, and its effect. Anything else is a defect."""
