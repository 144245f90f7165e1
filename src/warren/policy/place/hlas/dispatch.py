"""One decision of HLAS and its kin: who stands where, and what idle groups take.

Where a job stands is not decided here: ``QueuePosition`` says it, as the policy sees it.
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
from warren.policy.common.round_times import MAKES_READY, fastest, gang_round_ns, may_start, shares
from warren.policy.place.hlas.gpu_groups import GpuGroups
from warren.policy.place.hlas.waiting_jobs import QueuePosition, WaitingJobs

LEAVES: Final = (RolledBack, JobFailed, JobCancelled)
"""Events after which a job does not stand where it stood."""
AGED: Final = -1.0
"""Goes before all queues."""


@dataclass(slots=True)
class HlasDispatch:
    """One decision in the making. ``shard``: first task not placed yet, of rounds begun here.

    ``spot`` says where a job stands now; while it waits it stays there, but for one whose time is
    up. ``ages``: whether who has waited too long goes first.
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
        """What is assigned, and why others wait."""
        for one in self.assign:
            self.reasons.pop(one.job, None)
        return Decision(assign=tuple(self.assign), reasons=self.reasons)

    def queue_up(self) -> None:
        """Who may begin a round now stands in the line."""
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
        while self.young is not None and self.spot(self.young.first.job).queue == AGED:
            entry, self.young = take(self.young)
            job = entry.job
            if may_start(view, job) and job not in begun:
                self.line.leave(job)
                self.line.stand(self.spot(job))
        self.partly = sorted(self.spot(job) for job in begun)

    def serve(self) -> None:
        """Every idle group takes what it can."""
        if not (self.line or self.partly):
            return
        idle = self.groups.idle(self.view)
        while idle and (self.line or self.partly):
            entry = self._next(idle[0]) if idle[0] else None
            if entry is not None:
                self._give(entry, idle)
            idle = idle[1:]

    def _next(self, devices: list[int]) -> QueuePosition | None:
        """Who is next on idle devices; who fits none of them is passed over."""
        partly = next((one for one in self.partly if self._fitting(one.job, devices)), None)
        found, place, spots = partly, 0, self.line.spots
        while place < len(spots) and (partly is None or spots[place].queue < partly.queue):
            entry = spots[place]
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
        """Whether a job waits there still: not if it has been placed."""
        return may_start(self.view, entry.job) and entry.job not in self.shard

    def _fitting(self, job: int, devices: list[int]) -> list[int]:
        """Of these devices those that fit the job, fastest first."""
        return fastest(self.view, job, np.array(devices, dtype=np.int64), len(devices))

    def _give(self, entry: QueuePosition, idle: list[list[int]]) -> None:
        """Place tasks of a job on the first idle group, of a stretch on as many as it needs.

        Takes the devices of groups that are idle no more.
        """
        view, job = self.view, entry.job
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
