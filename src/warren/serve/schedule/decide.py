"""Which jobs start now, and what keeps the others.

``strict``: jobs start in their order; a job that cannot start keeps what it waits for, devices or
the room of a quota, from jobs after it.

``backfill``: a job may overtake others if by the stated time limits no job before it is expected
to start later for that. Expected starts are found for the first ``RESERVED_MOST`` jobs that cannot
start now; only those are kept from waiting longer. A job without a time limit is taken never to
end, so it overtakes only on devices that none of those jobs is expected to use. Places do not
depend on later jobs: while all jobs end at their limits, and no job comes that goes first, no
expected start moves later.

The order is that of fair shares (``order``), or of the queue's place policy (``policy_order``).

Of jobs that are equal in all that matters only the first is looked at, and a decision ends after
``LOOKED_MOST`` groups of equal jobs that cannot start.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, TypeAlias

from warren.serve.queue.state import Queue
from warren.serve.queue.waiting import DeviceNeed, JobGroup
from warren.serve.records.events import AttemptBegun
from warren.serve.records.jobs import ServiceJob
from warren.serve.schedule.order import FairOrder
from warren.serve.schedule.placement import OpenDevices, Placement, fits_host, fitting_types
from warren.serve.schedule.policy_order import PolicyOrder
from warren.serve.schedule.quotas import QuotaRoom
from warren.serve.schedule.timetable import ExpectedStart, Timetable

Order: TypeAlias = Literal["strict", "backfill"]
"""How jobs may overtake each other."""

RESERVED_MOST: Final = 32
"""Most jobs for which a decision finds an expected start, and keeps it."""
LOOKED_MOST: Final = 2_000
"""Most groups of equal jobs that cannot start which a decision passes on its way to others."""


class SchedulePass:
    """One pass over the waiting jobs in their order.

    Parameters
    ----------
    queue
        The queue, which stays as it is meanwhile.
    now_ns
        The present.
    order
        How jobs may overtake each other.

    Attributes
    ----------
    begun
        The attempts that begin now; ``starting`` has their jobs.
    expected
        Job to its expected start, of jobs that cannot start now; empty under ``strict``.
    blocked
        Groups of which no job could start, with the first of these jobs.
    """

    def __init__(self, queue: Queue, now_ns: int, order: Order) -> None:
        self._queue = queue
        self._now_ns = now_ns
        self._order = order
        self._jobs = order_of(queue, now_ns)
        self._quotas = QuotaRoom(queue)
        self._free = OpenDevices(queue, first_fit=order == "backfill")
        self._timetable: Timetable | None = None
        self._sharing: bool | None = None
        self._kept: set[tuple[DeviceNeed, str]] = set()
        self._placed: list[tuple[ServiceJob, Placement]] = []
        self.begun: list[AttemptBegun] = []
        self.starting: set[str] = set()
        self.expected: dict[str, ExpectedStart] = {}
        self.blocked: dict[JobGroup, ServiceJob] = {}

    def run(self, *, to_the_end: bool = False) -> None:
        """Go over the jobs while any might start; to the end if all groups are to be looked at."""
        while (first := self._jobs.next()) is not None:
            if not to_the_end and not self._goes_on():
                return
            group, job = first
            placement = None if group in self.blocked else self._place(group, job)
            if placement is not None:
                self._begin(job, placement)
                self._jobs.take(placement.type, len(placement.devices))
                continue
            self.blocked.setdefault(group, job)
            if self._order == "strict":
                self._keep(group, job)
                self._jobs.drop()
            else:
                self._expect(group, job)

    def _goes_on(self) -> bool:
        return len(self.blocked) < LOOKED_MOST and (
            self._free.has_room(share=False)
            or (self._free.has_room(share=True) and self._some_share())
        )

    def _some_share(self) -> bool:
        if self._sharing is None:
            self._sharing = any(group.need.share for group in self._queue.waiting.groups)
        return self._sharing

    def _place(self, group: JobGroup, job: ServiceJob) -> Placement | None:
        """Return devices on which a job may start now."""
        need = group.need
        failed = _failed_hosts(job)
        for device_type in fitting_types(self._queue, need):
            if self._quotas.full(group.user, device_type, need.devices) is not None:
                continue
            may = None
            if self._timetable is not None:
                if not self._timetable.quota_allows(group, device_type, self._now_ns):
                    continue
                may = _may(self._timetable, group)
            found = self._free.place(need, device_type, may, failed) if failed else None
            found = found or self._free.place(need, device_type, may)
            if found is not None:
                return found
        return None

    def _begin(self, job: ServiceJob, placement: Placement) -> None:
        self._free.take(placement, job.spec.share)
        self._quotas.take(job.user, placement.type, len(placement.devices))
        if self._timetable is not None:
            self._timetable.plan(job, placement, self._now_ns)
        self.begun.append(
            AttemptBegun(
                time_ns=self._now_ns,
                job=job.id,
                attempt=len(job.attempts) + 1,
                host=placement.host,
                devices=placement.devices,
            )
        )
        self._placed.append((job, placement))
        self.starting.add(job.id)

    def _keep(self, group: JobGroup, job: ServiceJob) -> None:
        """Keep from later jobs what a job waits for."""
        need = group.need
        for device_type in fitting_types(self._queue, need):
            if self._quotas.never(group.user, device_type, need.devices) is not None:
                continue
            full = self._quotas.full(group.user, device_type, need.devices)
            if full is not None:
                self._quotas.close(full, job.id)
            elif (need, device_type) not in self._kept:
                self._kept.add((need, device_type))
                for name, state in self._queue.machines.items():
                    enough = len(state.usable.get(device_type, ())) >= need.devices
                    if enough and fits_host(self._queue, need, name):
                        self._free.keep(name, device_type, job.id)

    def _expect(self, group: JobGroup, job: ServiceJob) -> None:
        """Find the expected start of a job, and keep it."""
        if len(self.expected) >= RESERVED_MOST:
            self._jobs.drop()
            return
        if self._timetable is None:
            self._timetable = Timetable(self._queue, self._quotas, self._now_ns)
            for other, placement in self._placed:
                self._timetable.plan(other, placement, self._now_ns)
        start = self._timetable.earliest(group)
        if start is None:
            self._jobs.drop()
            return
        self.expected[job.id] = start
        self._timetable.plan(job, start.placement, start.begin_ns)
        self._jobs.take(start.placement.type, group.need.devices)

    def keeper(self, group: JobGroup, host: str, device_type: str) -> str | None:
        """Return the job for which free devices of a host are kept from a group."""
        if self._timetable is None:
            return self._free.kept_for(host, device_type)
        devices = self._queue.machines[host].usable.get(device_type, [])
        return self._timetable.in_the_way(host, devices, group)

    def quota_keeper(self, group: JobGroup, device_type: str) -> str | None:
        """Return the job for which the room of a quota is kept from a group."""
        keys = self._quotas.keys(group.user, device_type)
        return next((one for key in keys if (one := self._quotas.kept_for(key))), None)


def order_of(queue: Queue, now_ns: int) -> FairOrder | PolicyOrder:
    """Return the waiting jobs in the order of the queue: by its policy, else by fair shares."""
    if queue.policy is None:
        return FairOrder(queue, now_ns)
    return PolicyOrder(queue, now_ns, queue.policy)


def _may(timetable: Timetable, group: JobGroup) -> Callable[[str, list[str]], list[str]]:
    return lambda host, devices: timetable.free_now(host, devices, group)


def _failed_hosts(job: ServiceJob) -> frozenset[str]:
    """Return the hosts on which a job could not be started since it ran last."""
    found = []
    for attempt in reversed(job.attempts):
        if attempt.ran:
            break
        found.append(attempt.host)
    return frozenset(found)


def decide(queue: Queue, now_ns: int, order: Order) -> list[AttemptBegun]:
    """Return the attempts that begin now; it costs next to nothing where no device is free.

    Parameters
    ----------
    queue
        The queue.
    now_ns
        The present, in nanoseconds since 1970.
    order
        ``strict`` or ``backfill``.
    """
    if not queue.waiting.groups or not any(
        one.open or one.roomy for one in queue.machines.values()
    ):
        return []
    one_pass = SchedulePass(queue, now_ns, order)
    one_pass.run()
    return one_pass.begun
