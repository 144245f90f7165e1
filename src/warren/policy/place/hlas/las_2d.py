"""2D-LAS: jobs that have had least GPU time go first, as gangs, blind to the kind of GPU.

What
    A job's attained service is the number of its GPUs times the time it has held them. It sets the
    job's queue; within a queue jobs go by arrival. The first job of the first queue takes as many
    free devices as its scale, whatever their type, for one stretch of its rounds; then it is looked
    at again. It waits until that many are free, and no job passes it, unless ``fit_first`` is set.
    A gang keeps all its devices to the barrier, fast ones too.
Source
    HLAS (TCC'24), sections IV-B and VI-D, "2D-LAS"; after Tiresias (Gu et al., NSDI'19), which
    introduced discretized 2D-LAS.
Differs
    Tiresias looks again at fixed times and restarts a job from its checkpoint; here a job may be
    preempted between stretches of rounds, for nothing. Devices are drawn from the free ones by the
    run's seed, as for ``sched-homo``: the lowest index would favor the type that a cluster file
    names first. That no job passes the first in line is our reading: the papers ask only that
    enough devices are free, and Tiresias's public simulator lets jobs that fit pass. A job of more
    tasks than fitting devices takes all of them. Thresholds: see ``feedback_queues``; Tiresias
    takes two queues and tunes their threshold by hand. Weights count for nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final, NamedTuple

import numpy as np
from immutables import Map

from warren.model.costs import BoolArray
from warren.model.decision import ENDLESS, Assignment, Decision, Reason
from warren.model.events import (
    Event,
    JobArrived,
    JobCancelled,
    JobFailed,
    RolledBack,
    RoundsDone,
)
from warren.model.view import View
from warren.policy.common.persistent_heap import Entry, PersistentHeap, entries, put, take
from warren.policy.common.random_devices import drawn
from warren.policy.common.round_times import (
    TASK_TRIGGERS,
    cluster_speed,
    counts_T,
    gang_round_ns,
    gang_size,
    may_start,
    stretch_on,
)
from warren.policy.place.hlas.feedback_queues import FeedbackQueues, parse_queues, queues_of

_TURNS: Final = (JobArrived, RoundsDone, RolledBack, JobFailed, JobCancelled)
"""Events after which a job may start its next stretch, or never any."""


class AttainedService(NamedTuple):
    """The GPU time that a job has had, and since when it holds which devices."""

    attained_ns: int
    since_ns: int = 0
    gang: tuple[int, ...] = ()


NOTHING_YET: Final = AttainedService(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Las2dMemory:
    """The service that jobs have had, the devices that are held, and the jobs that wait.

    ``queues``: by attained service; ``held_D``: devices of gangs; ``lines``: jobs that may go on,
    by queue and arrival: by the devices they need where jobs may pass, else all under 0; ``ran``:
    of jobs that have not ended.
    """

    queues: FeedbackQueues
    held_D: BoolArray
    lines: Mapping[int, PersistentHeap[Entry]] = field(default_factory=dict)
    ran: Map[int, AttainedService] = field(default_factory=Map)


@dataclass(frozen=True, slots=True, kw_only=True)
class Las2d:
    """Run gangs for one stretch at a time, those that have had the least GPU time first."""

    thresholds: str = ""
    """GPU time at which a job leaves each queue but the last: ``1 h, 10 h``."""
    fit_first: bool = False
    """A job for which enough devices are free passes those for which too few are."""

    name: ClassVar[str] = "las-2d"
    source: ClassVar[str] = "HLAS (TCC'24) VI-D; Tiresias (NSDI'19)"
    offline: ClassVar[bool] = False
    needs_rounds: ClassVar[bool] = False
    triggers: ClassVar[frozenset[type[Event]]] = TASK_TRIGGERS

    def __post_init__(self) -> None:
        parse_queues(self.thresholds)

    def initial(self, view: View) -> Las2dMemory:
        """Return the memory before the first job arrives; the past may give thresholds."""
        held_D = np.zeros(len(view.type_D), np.bool_)
        return Las2dMemory(queues=queues_of(self.thresholds, gpu_time_ns(view)), held_D=held_D)

    def decide(self, view: View, memory: Las2dMemory) -> tuple[Decision, Las2dMemory]:
        """Count the service of jobs, then give free devices to the first of the line."""
        held_D, lines = memory.held_D.copy(), dict(memory.lines)
        step = _Step(memory.queues, view, self.fit_first, held_D, lines, memory.ran)
        step.queue_up()
        step.serve()
        decision = Decision(assign=tuple(step.assign), reasons=step.reasons)
        left = Las2dMemory(queues=memory.queues, held_D=step.held_D, lines=step.lines, ran=step.ran)
        return decision, left

    def explain(self, view: View, memory: Las2dMemory, job: int) -> str:
        """Say in one sentence why this job is where it is."""
        if view.next_round_J[job] > view.round_J[job]:
            return f"runs as a gang until round {view.next_round_J[job]}"
        had_ns = _ran(memory.ran, job).attained_ns
        here = (float(memory.queues.of(had_ns)), job)
        waiting = (other for line in memory.lines.values() for other in entries(line))
        ahead = sum(1 for other in waiting if other < here)
        return (
            f"has had {had_ns / 1e9:.1f} s of GPU time and needs {gang_size(view, job)} devices; "
            f"{ahead} jobs go first"
        )


def gpu_time_ns(view: View) -> list[int]:
    """Return the GPU time of jobs of the past, in ns: their tasks on the mean device that fits."""
    if not view.past.jobs:
        return []
    costs, count_T = view.past.costs, np.array(counts_T(view))
    turn_ns_JT = np.where(costs.fits_JT, costs.comp_ns_JT + costs.sync_ns_JT, 0)
    task_ns_J = (turn_ns_JT @ count_T) / np.maximum(costs.fits_JT @ count_T, 1)
    return [
        round((job.rounds or 0) * job.scale * task_ns)
        for job, task_ns in zip(view.past.jobs, task_ns_J.tolist(), strict=True)
    ]


def _before_ns(view: View, job: int) -> int:
    """Return the GPU time of the rounds that a job has run, in ns: on the mean device that fits."""
    count_T = counts_T(view)
    fitting = int(np.count_nonzero(view.costs.fits_JT[job, view.type_D]))
    speed = cluster_speed(view.costs, job, count_T)
    task_ns = fitting / speed if speed else 0.0
    return round(view.round_J.item(job) * view.scale_J.item(job) * task_ns)


def _ran(ran: Map[int, AttainedService], job: int) -> AttainedService:
    """Return the attained service of a job; nothing yet if it has not run."""
    return ran.get(job) or NOTHING_YET


@dataclass(slots=True)
class _Step:
    """One decision in the making."""

    queues: FeedbackQueues
    view: View
    fit_first: bool
    held_D: BoolArray
    lines: dict[int, PersistentHeap[Entry]]
    ran: Map[int, AttainedService]
    assign: list[Assignment] = field(default_factory=list)
    reasons: dict[int, Reason] = field(default_factory=dict)

    def queue_up(self) -> None:
        """Put jobs that may go on back into the queue of their attained service."""
        view = self.view
        for event in view.changes:
            # Other events of the instant would put a job in line twice.
            if not isinstance(event, _TURNS):
                continue
            job = event.job
            if isinstance(event, JobArrived) and view.round_J.item(job):
                # A job that has run before it came here: its rounds are known, not who held what.
                self.ran = self.ran.set(job, AttainedService(_before_ns(view, job)))
            had = _ran(self.ran, job)
            # An ended job gives its devices back, and its service is forgotten.
            if view.done_J.item(job):
                self.held_D[list(had.gang)] = False
                if job in self.ran:
                    self.ran = self.ran.delete(job)
            elif may_start(self.view, job):
                # Attained service (Tiresias): GPUs held times the time since they were taken.
                self.held_D[list(had.gang)] = False
                held_ns = len(had.gang) * (view.now_ns - had.since_ns)
                self.ran = self.ran.set(job, AttainedService(had.attained_ns + held_ns))
                self._stand((self._queue(job), job))
                self.reasons[job] = Reason.WAITING_FOR_DEVICES

    def _queue(self, job: int) -> float:
        """Return the queue that a job's attained service gives it."""
        return float(self.queues.of(_ran(self.ran, job).attained_ns))

    def _stand(self, entry: Entry) -> None:
        """Add a job to those that wait."""
        # By need, so that the first job for which enough devices are free is found without a walk.
        need = gang_size(self.view, entry[1]) if self.fit_first else 0
        self.lines[need] = put(self.lines.get(need), entry)

    def _first(self, free: int) -> Entry | None:
        """Take out the first job for which ``free`` devices are enough, if there is one."""
        enough = [need for need in self.lines if need <= free]
        if not enough:
            return None
        need = min(enough, key=lambda one: self.lines[one].first)
        entry, rest = take(self.lines.pop(need))
        if rest is not None:
            self.lines[need] = rest
        return entry

    def serve(self) -> None:
        """Give devices to the first jobs, until one finds too few or all have been asked."""
        # Only devices that are neither at work nor held: a gang keeps its fast ones to the barrier.
        passed: list[Entry] = []
        free = ((self.view.queued_D == 0) & ~self.held_D).nonzero()[0]
        started: set[int] = set()
        while len(free) and (entry := self._first(len(free))) is not None:
            queue, job = entry
            # A job may be queued more than once, since old entries are not searched for: those of
            # jobs that have started, or that stand in another queue by now, are dropped here.
            if not may_start(self.view, job) or job in started or queue != self._queue(job):
                continue
            gang = drawn(self.view, job, free, gang_size(self.view, job))
            if gang:
                self._start(job, gang)
                started.add(job)
                free = free[[device not in gang for device in free.tolist()]]
            else:
                passed.append(entry)
                if not self.fit_first:
                    break
        for entry in passed:
            self._stand(entry)

    def _start(self, job: int, gang: list[int]) -> None:
        """Assign a stretch of the job to its gang, and hold these devices until it has passed."""
        view = self.view
        rounds = view.grain.rounds_for(gang_round_ns(view, job, gang), ENDLESS)
        self.assign += stretch_on(view, job, rounds, gang)
        self.held_D[gang] = True
        attained_ns = _ran(self.ran, job).attained_ns
        self.ran = self.ran.set(job, AttainedService(attained_ns, view.now_ns, tuple(gang)))
        self.reasons.pop(job, None)
