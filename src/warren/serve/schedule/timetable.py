"""When devices are expected to be free, by the time limits that jobs state.

Expected starts are found on this: each waiting job in its order gets the earliest start at which
its devices are free for as long as it may run, and keeps them from jobs after it. A job without a
time limit is taken never to end. Where a job can start only after one of those, its start is
``UNKNOWN_NS``, and no other job without a time limit gets the same devices before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple

from warren.model.units import NS_PER_S
from warren.serve.queue.machines import SHARERS_MOST
from warren.serve.queue.state import Queue
from warren.serve.queue.waiting import DeviceNeed, JobGroup
from warren.serve.records.jobs import ServiceJob, resume_of
from warren.serve.schedule.placement import Placement, fits_host, fitting_types
from warren.serve.schedule.quotas import QuotaKey, QuotaRoom

UNKNOWN_NS: Final = 2**62
"""The expected start of a job that waits for the end of a job without a time limit."""
NEVER_ENDS_NS: Final = 2**62 + 1
"""The end up to which a job without a time limit needs its devices to be free."""
OVERDUE_NS: Final = NS_PER_S
"""Time that a job is expected to run on when its limit has passed, in nanoseconds."""


class Span(NamedTuple):
    """Time for which a job has a device, or is to have it."""

    begin_ns: int
    end_ns: int
    share: bool
    job: str


class ExpectedStart(NamedTuple):
    """When and where a waiting job is expected to start."""

    begin_ns: int
    placement: Placement


def end_of(begin_ns: int, time_limit_s: float | None) -> int:
    """Return when a job is expected to end that begins at a time."""
    if time_limit_s is None:
        return NEVER_ENDS_NS
    return min(NEVER_ENDS_NS, begin_ns + round(time_limit_s * NS_PER_S))


class Timetable:
    """Spans of all devices: of running jobs first, then of jobs that are to start.

    Parameters
    ----------
    queue
        The queue, which stays as it is meanwhile.
    quotas
        Quotas, for what counts for which.
    now_ns
        The present: nothing starts before it.
    """

    def __init__(self, queue: Queue, quotas: QuotaRoom, now_ns: int) -> None:
        self._queue = queue
        self._quotas = quotas
        self._now_ns = now_ns
        self._spans: dict[str, dict[str, list[Span]]] = {}
        self._counts: dict[QuotaKey, list[tuple[int, int, int]]] = {}
        self._bounds: dict[tuple[DeviceNeed, str, float | None], list[tuple[int, int]]] = {}
        self._first: dict[tuple[DeviceNeed, str], list[tuple[int, int]]] = {}
        self._ends: dict[tuple[str, str], list[int]] = {}
        self._reserved: dict[str, None] = {}
        for job_id in queue.running:
            job = queue.jobs[job_id]
            attempt = job.attempts[-1]
            span = Span(now_ns, self._running_end(job), job.spec.share, job_id)
            self._add(attempt.host, attempt.devices, span)
        self._count_running()

    def _running_end(self, job: ServiceJob) -> int:
        asked_ns, resume = job.attempts[-1].preempt_ns, resume_of(job.spec)
        if asked_ns is not None and resume is not None:
            # It leaves within its grace; the job that is to have its devices then keeps them.
            grace_ns = round(resume.grace_s * NS_PER_S)
            return max(asked_ns + grace_ns, self._now_ns + OVERDUE_NS)
        if job.spec.time_limit_s is None:
            return UNKNOWN_NS
        begin = job.attempts[-1].started_ns
        end = end_of(self._now_ns if begin is None else begin, job.spec.time_limit_s)
        return max(end, self._now_ns + OVERDUE_NS)

    def _count_running(self) -> None:
        if not self._queue.quotas:
            return
        for job_id, held in self._queue.running.items():
            job = self._queue.jobs[job_id]
            for one in held:
                if one.type in self._queue.types:
                    self._count(
                        job.user, one.type, one.devices, self._now_ns, self._running_end(job)
                    )

    def _count(self, user: str, device_type: str, devices: int, begin_ns: int, end_ns: int) -> None:
        for key in self._quotas.keys(user, device_type):
            self._counts.setdefault(key, []).append((begin_ns, end_ns, devices))

    def _add(self, host: str, devices: Sequence[str], span: Span) -> None:
        spans = self._spans.setdefault(host, {})
        for device in devices:
            spans.setdefault(device, []).append(span)

    def plan(self, job: ServiceJob, placement: Placement, begin_ns: int) -> None:
        """Note that a job is to start at a time; without a limit it ends as running ones do."""
        end = end_of(begin_ns, job.spec.time_limit_s)
        if begin_ns < UNKNOWN_NS:
            end = min(end, UNKNOWN_NS)
        self._add(placement.host, placement.devices, Span(begin_ns, end, job.spec.share, job.id))
        self._count(job.user, placement.type, len(placement.devices), begin_ns, end)
        if begin_ns > self._now_ns:
            self._reserved[placement.host] = None

    def free_now(self, host: str, devices: list[str], group: JobGroup) -> list[str]:
        """Return the devices that a job could have now without keeping an earlier one waiting."""
        if host not in self._reserved:
            return devices
        end = end_of(self._now_ns, group.time_limit_s)
        spans = self._spans[host]
        return [
            one
            for one in devices
            if _is_free(spans.get(one, ()), self._now_ns, end, group.need.share)
        ]

    def in_the_way(self, host: str, devices: Sequence[str], group: JobGroup) -> str | None:
        """Return a job for which one of these devices is kept, in the time that a job would run."""
        end = end_of(self._now_ns, group.time_limit_s)
        for one in devices:
            for span in self._spans.get(host, {}).get(one, ()):
                if self._now_ns < span.begin_ns < end:
                    return span.job
        return None

    def quota_allows(self, group: JobGroup, device_type: str, begin_ns: int) -> bool:
        """Tell whether quotas leave room for a job from a time on, for as long as it may run."""
        return self._room_from(group, device_type, begin_ns) == begin_ns

    def _room_from(self, group: JobGroup, device_type: str, after: int) -> int | None:
        """Return the earliest time from which all quotas leave room for a job; None if never."""
        keys = self._quotas.keys(group.user, device_type)
        time = after
        for _ in range(len(self._counts) + 1):
            later = time
            for key in keys:
                found = self._room_under(key, group, later)
                if found is None:
                    return None
                later = found
            if later == time:
                return time
            time = later
        return time

    def _room_under(self, key: QuotaKey, group: JobGroup, after: int) -> int | None:
        changes: dict[int, int] = {after: 0}
        for begin, end, devices in self._counts.get(key, ()):
            if end > after:
                at = max(begin, after)
                changes[at] = changes.get(at, 0) + devices
                changes[end] = changes.get(end, 0) - devices
        most = self._quotas.limit(key) - group.need.devices
        used, since = 0, None
        for time in sorted(changes):
            if since is not None and end_of(since, group.time_limit_s) <= time:
                return since
            used += changes[time]
            if used > most:
                since = None
            elif since is None:
                since = time
        return since if since is not None and since <= UNKNOWN_NS else None

    def earliest(self, group: JobGroup) -> ExpectedStart | None:
        """Return when and where a job of a group can start at the earliest; None if it never can.

        Devices that are drained, in use by processes of no job, or on hosts that do not answer, do
        not count. Of equal times the least valuable type comes first, then the first host.
        """
        best: ExpectedStart | None = None
        for device_type in fitting_types(self._queue, group.need):
            found = self._earliest_of(group, device_type)
            if found is not None and (best is None or found.begin_ns < best.begin_ns):
                best = found
        return best

    def _earliest_of(self, group: JobGroup, device_type: str) -> ExpectedStart | None:
        after = self._now_ns
        while (allowed := self._room_from(group, device_type, after)) is not None:
            found = self._on_devices(group, device_type, allowed)
            if found is None or self.quota_allows(group, device_type, found.begin_ns):
                return found
            after = found.begin_ns
        return None

    def _on_devices(self, group: JobGroup, device_type: str, after: int) -> ExpectedStart | None:
        """Return the earliest start from a time on, as far as devices go.

        Hosts are looked at in the order of a time before which they cannot take such a job: what
        was found for one before. A host whose time is later than the best is not looked at.
        """
        names = self._queue.hosts[device_type]
        key = (group.need, device_type, group.time_limit_s)
        bounds = self._bounds.get(key)
        if bounds is None:
            first = self._first.get(key[:2])
            if first is None:
                first = self._first[key[:2]] = self._first_bounds(group.need, device_type)
            bounds = self._bounds[key] = list(first)
        best: tuple[int, int] | None = None
        devices: tuple[str, ...] = ()
        seen = []
        while bounds and (best is None or max(after, bounds[0][0]) <= best[0]):
            bound, place = heappop(bounds)
            found = self._on_host(group, device_type, names[place], max(after, bound))
            if found is None:
                continue
            seen.append((found[0] if after == self._now_ns else bound, place))
            if best is None or (found[0], place) < best:
                best, devices = (found[0], place), found[1]
        for one in seen:
            heappush(bounds, one)
        if best is None:
            return None
        return ExpectedStart(best[0], Placement(names[best[1]], device_type, devices))

    def _first_bounds(self, need: DeviceNeed, device_type: str) -> list[tuple[int, int]]:
        """Return when hosts have enough devices free of running jobs; jobs that share wait less."""
        bounds = []
        for place, name in enumerate(self._queue.hosts[device_type]):
            if not fits_host(self._queue, need, name):
                continue
            ends = self._ends_of(name, device_type)
            if len(ends) >= need.devices:
                bounds.append((self._now_ns if need.share else ends[need.devices - 1], place))
        heapify(bounds)
        return bounds

    def _ends_of(self, host: str, device_type: str) -> list[int]:
        """Return when the devices of a host are free of running jobs, the earliest first."""
        ends = self._ends.get((host, device_type))
        if ends is None:
            spans = self._spans.get(host, {})
            ends = self._ends[host, device_type] = sorted(
                max(
                    (span.end_ns for span in spans.get(one, ()) if span.begin_ns <= self._now_ns),
                    default=self._now_ns,
                )
                for one in self._usable(host, device_type)
            )
        return ends

    def _usable(self, host: str, device_type: str) -> list[str]:
        return self._queue.machines[host].usable.get(device_type, [])

    def _on_host(
        self, group: JobGroup, device_type: str, host: str, after: int
    ) -> tuple[int, tuple[str, ...]] | None:
        spans = self._spans.get(host, {})
        devices = self._usable(host, device_type)
        ends = {
            span.end_ns
            for one in devices
            for span in spans.get(one, ())
            if after < span.end_ns <= UNKNOWN_NS
        }
        for time in (after, *sorted(ends)):
            end = end_of(time, group.time_limit_s)
            free = [
                one for one in devices if _is_free(spans.get(one, ()), time, end, group.need.share)
            ]
            if len(free) >= group.need.devices:
                return time, tuple(free[: group.need.devices])
        return None


def _is_free(spans: Sequence[Span], begin_ns: int, end_ns: int, share: bool) -> bool:
    """Tell whether a device can take one job more for a time."""
    sharers = 0
    for span in spans:
        if span.begin_ns < end_ns and begin_ns < span.end_ns:
            if not (share and span.share):
                return False
            sharers += 1
    return sharers < SHARERS_MOST
