"""HLAS: jobs that have attained least go first, on groups of GPUs that are equally fast.

What
    Devices are put into groups that are about equally fast for every job. A job's attained service
    is its rounds so far times its mean time of a round on a group. It sets the job's queue of K;
    a group that is idle takes the highest queue that is not empty: the rest of a round that is
    partly scheduled, else the first job of the queue.
Source
    Hare with HLAS (TCC'24), section IV, Algorithms 1-3, equations (4)-(6).
Differs
    Algorithm 1 loops over GPUs and Algorithm 3 lacks a break; as in the text, a group is what is
    scheduled, once all its devices are idle, and it takes one job: a task on each device that fits
    the job, fastest first, as far as the round has tasks. A queue is first in, first out by
    arrival, so that a job which stays in its queue keeps its place. At a coarse grain a stretch
    needs all its tasks placed at once: a job then takes as many idle groups as it has tasks for,
    and several tasks a device where these are too few. The paper gives no thresholds: see
    ``queues``. It gives no number of groups but that of its simulations, one for four GPUs. Groups
    are made when the first job arrives, from the jobs that are known then. ``age`` is ours: a job
    whose arrival is so long ago stands in a queue before all others, so that no stream of short
    jobs keeps it waiting for ever. Weights count for nothing: the paper's aim is the mean JCT.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Final

import numpy as np

from warren.model.cluster import Cluster
from warren.model.costs import CostTable
from warren.model.decision import NOTHING, Decision, Reason
from warren.model.events import (
    CompDone,
    Event,
    JobArrived,
    JobCancelled,
    JobFailed,
    RolledBack,
    RoundsDone,
)
from warren.model.plan import ENDLESS, Assignment
from warren.model.units import parse_time_s, seconds_to_ns
from warren.model.view import View
from warren.policy.place.estimate import MAKES_READY, fastest, gang_round_ns, may_start, shares
from warren.policy.place.gpu_groups import cluster_text, usual_groups
from warren.policy.place.grouped import Groups, attained_ns, make_groups
from warren.policy.place.line import Entry, Line, entries, put, take
from warren.policy.place.queues import Queues, parse_queues, queues_of

_AGED: Final = -1.0
"""Goes before all queues."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """``queues``: by attained service; ``line``: jobs whose next round may start, by queue and
    arrival; ``young``: jobs that have not waited too long yet, if age counts; ``partly``: rounds of
    which some tasks are placed."""

    queues: Queues
    groups: Groups | None = None
    line: Line | None = None
    young: Line | None = None
    partly: tuple[Entry, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Hlas:
    """See the module's text."""

    groups: int = 0
    """0: one for four devices."""
    thresholds: str = ""
    """Attained service at which a job leaves each queue but the last: ``1 min, 10 min, 2 h``."""
    age: str = ""
    """``12 h``: who has waited longer since his arrival goes first; empty: nobody."""

    name: ClassVar[str] = "hlas"
    source: ClassVar[str] = "HLAS (TCC'24) IV, Algorithms 1-3"
    offline: ClassVar[bool] = False
    needs_rounds: ClassVar[bool] = False
    triggers: ClassVar[frozenset[type[Event]]] = frozenset(
        {JobArrived, CompDone, RoundsDone, RolledBack, JobFailed, JobCancelled}
    )

    def __post_init__(self) -> None:
        if self.groups < 0:
            raise ValueError("groups is a count, 0 for one of four devices each")
        parse_queues(self.thresholds)
        self.age_ns()

    def age_ns(self) -> int:
        """How long a job waits at most before it goes first; 0: for ever."""
        return seconds_to_ns(parse_time_s(self.age)) if self.age else 0

    def initial(self, view: View) -> Memory:
        """Nothing is known of any job yet, so nothing is grouped; the past may give thresholds."""
        ended_ns = attained_ns(view, self._count(len(view.type_D)))
        return Memory(queues=queues_of(self.thresholds, ended_ns))

    def decide(self, view: View, memory: Memory) -> tuple[Decision, Memory]:
        """Jobs that may go on take their places in the line; idle groups take from it."""
        if memory.groups is None:
            if not len(view.jobs):
                return NOTHING, memory
            groups = make_groups(view, self._count(len(view.type_D)))
            memory = replace(memory, groups=groups)
        assert memory.groups is not None
        lines = memory.line, memory.young
        step = _Step(self, view, memory, memory.groups, *lines, list(memory.partly))
        step.queue_up()
        step.serve()
        return step.decision(), step.memory()

    def explain(self, view: View, memory: Memory, job: int) -> str:
        """One sentence: why this job is where it is."""
        if memory.groups is None or not view.open_J[job]:
            return "waits for nothing: it has not arrived or has ended"
        if view.next_round_J[job] > view.round_J[job]:
            return f"all its tasks of round {view.round_J[job]} are running or queued"
        had_ns = float(view.round_J[job] * memory.groups.round_ns(view, job))
        queue, count = self.queue(view, memory, job), len(memory.queues)
        ahead = len({other for key, other in entries(memory.line) if (key, other) < (queue, job)})
        stands = f"queue {int(queue) + 1} of {count}" if queue != _AGED else "before all queues"
        return (
            f"has attained {had_ns / 1e9:.1f} s, {stands}; "
            f"{ahead} jobs go first when one of {len(memory.groups.devices)} groups is idle"
        )

    def queue(self, view: View, memory: Memory, job: int) -> float:
        """The queue that a job belongs to now; 0 goes first, but for who has waited too long."""
        if self.age and view.now_ns - view.arrival_ns_J.item(job) >= self.age_ns():
            return _AGED
        assert memory.groups is not None, "a job has arrived, so there are groups"
        had_ns = view.round_J.item(job) * memory.groups.round_ns(view, job)
        return float(memory.queues.of(had_ns))

    def explain_cluster(self, cluster: Cluster, costs: CostTable) -> str:
        """The groups of a cluster, for ``warren policies hlas --explain CLUSTER``."""
        return cluster_text(cluster, costs, self._count(len(cluster.devices)))

    def _count(self, devices: int) -> int:
        """Groups of so many devices."""
        return min(self.groups or usual_groups(devices), devices)


@dataclass(slots=True)
class _Step:
    """One decision in the making. ``shard``: first task not placed yet, of rounds begun here."""

    policy: Hlas
    view: View
    before: Memory
    groups: Groups
    line: Line | None
    young: Line | None
    partly: list[Entry]
    assign: list[Assignment] = field(default_factory=list)
    reasons: dict[int, Reason] = field(default_factory=dict)
    shard: dict[int, int] = field(default_factory=dict)

    def decision(self) -> Decision:
        for one in self.assign:
            self.reasons.pop(one.job, None)
        return Decision(assign=tuple(self.assign), reasons=self.reasons)

    def memory(self) -> Memory:
        partly = tuple(self.partly)
        return replace(self.before, line=self.line, young=self.young, partly=partly)

    def queue_up(self) -> None:
        """Who may begin a round now stands in the line."""
        view = self.view
        partly = (job for _, job in self.partly if may_start(view, job))
        begun = [job for job in partly if view.next_shard_J.item(job)]
        for event in view.changes:
            if isinstance(event, MAKES_READY) and may_start(view, event.job):
                self.line = put(self.line, (self._queue(event.job), event.job))
                self.reasons[event.job] = Reason.WAITING_FOR_TURN
            if self.policy.age and isinstance(event, JobArrived):
                self.young = put(self.young, (0.0, event.job))
        while self.young is not None and self._queue(self.young.first[1]) == _AGED:
            (_, job), self.young = take(self.young)
            if may_start(view, job) and job not in begun:
                self.line = put(self.line, (_AGED, job))
        self.partly = sorted((self._queue(job), job) for job in begun)

    def _queue(self, job: int) -> float:
        return self.policy.queue(self.view, self.before, job)

    def serve(self) -> None:
        """Every idle group takes what it can."""
        if self.line is None and not self.partly:
            return
        idle = self.groups.idle(self.view)
        while idle and (self.line is not None or self.partly):
            entry = self._next(idle[0]) if idle[0] else None
            if entry is not None:
                self._give(entry, idle)
            idle = idle[1:]

    def _next(self, devices: list[int]) -> Entry | None:
        """Who is next on idle devices; who fits none of them is passed over."""
        partly = next((one for one in self.partly if self._fitting(one[1], devices)), None)
        found, passed = partly, list[Entry]()
        while self.line is not None and (partly is None or self.line.first[0] < partly[0]):
            entry, self.line = take(self.line)
            if not self._stands(entry):
                continue
            if self._fitting(entry[1], devices):
                found = entry
                break
            passed.append(entry)
        for one in passed:
            self.line = put(self.line, one)
        if found is not None and found is partly:
            self.partly.remove(found)
        return found

    def _stands(self, entry: Entry) -> bool:
        """Whether a job stands there still: not if it has ended, been placed or changed queues."""
        queue, job = entry
        return may_start(self.view, job) and job not in self.shard and queue == self._queue(job)

    def _fitting(self, job: int, devices: list[int]) -> list[int]:
        """Of these devices those that fit the job, fastest first."""
        return fastest(self.view, job, np.array(devices, dtype=np.int64), len(devices))

    def _give(self, entry: Entry, idle: list[list[int]]) -> None:
        """Place tasks of a job on the first idle group, of a stretch on as many as it needs.

        Takes the devices of groups that are idle no more.
        """
        view, job = self.view, entry[1]
        first, scale = view.next_round_J.item(job), view.scale_J.item(job)
        shard = self.shard.get(job, view.next_shard_J.item(job))
        round_ns = self.groups.round_ns(view, job)
        if shard == 0 and view.grain.rounds_for(round_ns, ENDLESS) > 1:
            self._stretch(job, idle)
            return
        devices = self._fitting(job, idle[0])[: scale - shard]
        for place, device in enumerate(devices, start=shard):
            self.assign.append(Assignment(device, job, first, 1, (place,)))
        self.shard[job] = shard + len(devices)
        if self.shard[job] < scale:
            self.partly = sorted([*self.partly, entry])

    def _stretch(self, job: int, idle: list[list[int]]) -> None:
        view, scale, gang = self.view, self.view.scale_J.item(job), list[int]()
        for devices in idle:
            if fitting := self._fitting(job, devices):
                gang += fitting
                devices.clear()
            if len(gang) >= scale:
                break
        gang = gang[:scale]
        rounds = view.grain.rounds_for(gang_round_ns(view, job, gang), ENDLESS)
        first = view.next_round_J.item(job)
        self.assign += [
            Assignment(device, job, first, rounds, shards)
            for device, shards in zip(gang, shares(scale, len(gang)), strict=True)
        ]
        self.shard[job] = scale
