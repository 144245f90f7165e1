"""One decision of HLAS and its variants: the queues of waiting jobs, the starts of idle groups.

A job's place in the queues is not decided here: the policy gives it as a ``QueuePosition``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from warren.model.decision import ENDLESS, Assignment, Decision, Reason
from warren.model.events import JobArrived, JobCancelled, JobFailed, RolledBack
from warren.model.view import View
from warren.policy.common.persistent_heap import PersistentHeap, put, take
from warren.policy.common.round_times import (
    MAKES_READY,
    fastest,
    gang_round_ns,
    may_start,
    stretch_on,
    tasks_on,
)
from warren.policy.place.hlas.gpu_groups import GpuGroups
from warren.policy.place.hlas.waiting_jobs import QueuePosition, WaitingJobs

LEAVES: Final = (RolledBack, JobFailed, JobCancelled)
"""Events after which a job leaves its place in the queues."""
AGED: Final = -1.0
"""The queue of jobs that have waited too long, which goes before all others."""


@dataclass(slots=True)
class HlasDispatch:
    """One decision in the making: a step of HLAS's Algorithm 1.

    ``spot`` gives a job's place in the queues now; while it waits it stays there, unless it has
    waited too long. ``ages``: whether jobs that have waited too long go first. ``line``: jobs none
    of whose round is placed; ``partly``: jobs of whose round some tasks are placed. ``shard``: the
    first task not placed yet, of rounds begun in this decision.
    """

    view: View
    groups: GpuGroups
    spot: Callable[[int], QueuePosition]
    ages: bool
    line: WaitingJobs
    young: PersistentHeap[QueuePosition] | None
    partly: list[QueuePosition]
    assign: list[Assignment] = field(default_factory=list)
    reasons: dict[int, Reason] = field(default_factory=dict)
    shard: dict[int, int] = field(default_factory=dict)

    def decision(self) -> Decision:
        """Return the new assignments, and why other jobs wait."""
        for one in self.assign:
            self.reasons.pop(one.job, None)
        return Decision(assign=tuple(self.assign), reasons=self.reasons)

    def queue_up(self) -> None:
        """Put jobs that may begin a round into their queues: Algorithm 2 (QueueUpdate).

        Only jobs that an event made ready are looked at, since the size of the others has not
        changed (line 2).
        """
        view = self.view
        partly = (one.job for one in self.partly if may_start(view, one.job))
        begun = [job for job in partly if view.next_shard_J.item(job)]
        for event in view.changes:
            if isinstance(event, LEAVES):
                self.line.leave(event.job)
            if isinstance(event, MAKES_READY) and may_start(view, event.job):
                if event.job not in begun:
                    self.line.stand(self.spot(event.job))
                self.reasons[event.job] = Reason.WAITING_FOR_TURN
            if self.ages and isinstance(event, JobArrived):
                self.young = put(self.young, QueuePosition(0.0, 0.0, event.job))
        # Ours: jobs whose age is up go before all queues, so that none waits for ever. In ``young``
        # they stand by index, which is arrival, so its first comes of age before the others.
        while self.young is not None and self.spot(self.young.first.job).queue == AGED:
            entry, self.young = take(self.young)
            job = entry.job
            if may_start(view, job) and job not in begun:
                self.line.leave(job)
                self.line.stand(self.spot(job))
        self.partly = sorted(self.spot(job) for job in begun)

    def serve(self) -> None:
        """Start tasks on every idle group: Algorithm 1, lines 6-11, with groups for GPUs."""
        if not (self.line or self.partly):
            return
        idle = self.groups.idle(self.view)
        # A stretch may take the devices of several groups: such a group's list is empty then.
        while idle and (self.line or self.partly):
            entry = self._next(idle[0]) if idle[0] else None
            if entry is not None:
                self._give(entry, idle)
            idle = idle[1:]

    def _next(self, devices: list[int]) -> QueuePosition | None:
        """Take out the job that is next on idle devices, passing over those that fit none of them.

        Algorithm 3 with the break that it lacks: the first queue that is not empty, in it a job
        that is partly scheduled (lines 5-7), else the first in, first out (lines 8-10).
        """
        partly = next((one for one in self.partly if self._fitting(one.job, devices)), None)
        found = partly
        place = 0
        spots = self.line.spots
        # A round that is partly placed goes before the whole of its own queue, not before others.
        while place < len(spots) and (partly is None or spots[place].queue < partly.queue):
            entry = spots[place]
            # Entries of jobs that no longer wait there are dropped on the way.
            fitting = self._stands(entry) and self._fitting(entry.job, devices)
            if fitting or not self._stands(entry):
                self.line.drop(place)
            else:
                place += 1
            if fitting:
                found = entry
                break
        if found is not None and found is partly:
            self.partly.remove(found)
        return found

    def _stands(self, entry: QueuePosition) -> bool:
        """Tell whether a job waits there still: not if it has been placed."""
        return may_start(self.view, entry.job) and entry.job not in self.shard

    def _fitting(self, job: int, devices: list[int]) -> list[int]:
        """Return those of the devices that fit the job, fastest first."""
        return fastest(self.view, job, np.array(devices, dtype=np.int64), len(devices))

    def _give(self, entry: QueuePosition, idle: list[list[int]]) -> None:
        """Place tasks of a job on the first idle group; a stretch takes as many as it needs.

        Algorithm 3, lines 7 and 10. The devices of groups that are no longer idle are taken from
        ``idle``.
        """
        view, job = self.view, entry.job
        scale = view.scale_J.item(job)
        shard = self.shard.get(job, view.next_shard_J.item(job))
        round_ns = self.groups.round_ns(view, job)
        if shard == 0 and view.grain.rounds_for(round_ns, ENDLESS) > 1:
            self._stretch(job, idle)
            return
        # One task a device; the rest of the round stays ``partly`` for the next idle group.
        devices = self._fitting(job, idle[0])[: scale - shard]
        self.assign += tasks_on(view, job, shard, devices)
        self.shard[job] = shard + len(devices)
        if self.shard[job] < scale:
            self.partly = sorted([*self.partly, entry])

    def _stretch(self, job: int, idle: list[list[int]]) -> None:
        """Place a whole stretch on idle groups, from the first on, until each task has a device.

        Ours, for a coarse grain: all tasks of a stretch must be placed at once, so where devices
        are too few each takes several.
        """
        view = self.view
        scale = view.scale_J.item(job)
        gang = list[int]()
        for devices in idle:
            if fitting := self._fitting(job, devices):
                gang += fitting
                devices.clear()
            if len(gang) >= scale:
                break
        gang = gang[:scale]
        rounds = view.grain.rounds_for(gang_round_ns(view, job, gang), ENDLESS)
        self.assign += stretch_on(view, job, rounds, gang)
        self.shard[job] = scale
