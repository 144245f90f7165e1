"""What can be done about the cause that keeps a job waiting, or what is to come by itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from warren.model.units import NEVER_NS, NS_PER_S
from warren.serve.forecast.counterfactual import Counterfactual
from warren.serve.forecast.remaining import Remaining, expected_end_ns
from warren.serve.page.text import duration
from warren.serve.queue.state import Queue
from warren.serve.queue.submissions import PRIORITY_MOST
from warren.serve.queue.waiting import group_of
from warren.serve.records.jobs import JobState, ServiceJob
from warren.serve.schedule.decide import Order, SchedulePass, order_of
from warren.serve.schedule.placement import fits_host, fitting_types
from warren.serve.schedule.quotas import QuotaKey, QuotaRoom

SHORTEST_LIMIT_S: Final = 60
"""Shortest time limit that is proposed, in seconds."""
LONGEST_LIMIT_S: Final = 365 * 86_400
"""Longest time limit that is proposed, in seconds."""
_COUNTED_MOST: Final = 5_000
"""Most jobs that are counted before another."""


class _Room(NamedTuple):
    """From when on a host has enough devices, and the job whose end gives the last of them."""

    time_ns: int
    host: str
    job: str


class NextStep:
    """Looks for what helps a waiting job.

    Parameters
    ----------
    queue
        The queue, which stays as it is.
    job
        A job of it that waits.
    now_ns
        The present.
    order
        How jobs may overtake each other.
    remaining_s
        How long jobs run on.
    test
        Tries the job in copies; without it nothing is proposed that must be tried.
    """

    def __init__(
        self,
        queue: Queue,
        job: ServiceJob,
        now_ns: int,
        order: Order,
        remaining_s: Remaining,
        test: Counterfactual | None = None,
    ) -> None:
        self._queue = queue
        self._job = job
        self._need = group_of(job).need
        self._now_ns = now_ns
        self._order: Order = order
        self._remaining_s = remaining_s
        self._test = test

    def after(self, cause: str) -> str:
        """Return what can be done about a cause; empty where nothing is known."""
        steps = {
            "held": self._release,
            "dependency": self._dependency,
            "quota": self._quota,
            "host": self._host,
            "drained": self._undrain,
            "foreign": self._foreign,
            "devices": self._devices,
            "order": self._overtake,
            "never": self._never,
        }
        return "; or ".join(steps[cause]()) if cause in steps else ""

    def _release(self) -> Iterator[str]:
        yield f"let it start: warren release {self._job.id}"

    def _never(self) -> Iterator[str]:
        yield "cancel it, and submit it with fewer devices, another type or another host"

    def _dependency(self) -> Iterator[str]:
        for target in self._queue.dependencies.unmet[self._job.id]:
            job = self._queue.jobs.get(target)
            if job is None:
                yield f"see which jobs of the array wait: warren queue --array {target}"
            elif job.state is JobState.RUNNING:
                end_ns = expected_end_ns(job, self._now_ns, self._remaining_s)
                when = "" if end_ns is None else f", and ends in about {self._until(end_ns)}"
                yield f"{_named(job)} runs{when}"
            else:
                yield f"see why job {target} waits: warren why {target}"
            return

    def _quota(self) -> Iterator[str]:
        room, user, devices = QuotaRoom(self._queue), self._job.user, self._need.devices
        types = fitting_types(self._queue, self._need)
        key = next((key for one in types if (key := room.full(user, one, devices))), None)
        if key is None:
            return
        limit, used = room.limit(key), room.used(key)
        if devices > limit:
            if limit:
                yield f"submit it with --devices {limit}"
        elif (end := self._room_under(key, room.members(key), used + devices - limit)) is not None:
            yield f"there is room in about {self._until(end[0])}, when {_named(end[1])} ends"
        who, most = key.subject.removeprefix("user:"), max(limit, used + devices)
        yield f"ask an admin for more: warren quota set {who} {key.type} {most}"

    def _room_under(
        self, key: QuotaKey, members: list[str], devices: int
    ) -> tuple[int, ServiceJob] | None:
        """Return when this number of devices is given back under a quota, and the last job then."""
        ends = []
        for job_id, held in self._queue.running.items():
            job = self._queue.jobs[job_id]
            count = sum(one.devices for one in held if key.type in (one.type, one.kind, "any"))
            end_ns = expected_end_ns(job, self._now_ns, self._remaining_s)
            if count and job.user in members and end_ns is not None:
                ends.append((end_ns, job.order, count))
        for end_ns, place, count in sorted(ends):
            devices -= count
            if devices <= 0:
                return end_ns, self._queue.in_order[place]
        return None

    def _host(self) -> Iterator[str]:
        away = [name for name, one in self._queue.machines.items() if not one.connected]
        fits = [name for name in away if fits_host(self._queue, self._need, name)]
        if not self._queue.machines:
            yield "lend a machine to the service: warren agent"
        for name in fits[:1]:
            yield f"start the agent of {name} again"
            yield f"if it never comes back: warren drain {name} --gone"

    def _undrain(self) -> Iterator[str]:
        for name, machine in self._queue.machines.items():
            if machine.drained and fits_host(self._queue, self._need, name):
                device = next(iter(machine.drained))
                where = name if device is None else f"{name} {device}"
                yield f"an admin lets jobs start there again: warren undrain {where}"
                return

    def _foreign(self) -> Iterator[str]:
        yield "end these processes, or ask the user that runs them; the job then starts by itself"

    def _devices(self) -> Iterator[str]:
        room = self._first_room()
        if room is not None and not room.job:
            yield from self._quota()  # devices are free, and its user holds too many of them
            return
        if room is not None:
            by = f", when {_named(self._queue.jobs[room.job])} ends"
            yield f"{room.host} has {self._need.devices} in about {self._until(room.time_ns)}{by}"
        else:
            yield "jobs that hold them state no time limit"
        fewer = max(self._free_counts(), default=0)
        if (
            0 < fewer < self._need.devices
            and self._test is not None
            and self._test.starts_with(devices=fewer)
        ):
            yield f"ask for {fewer}, and it starts now"

    def _overtake(self) -> Iterator[str]:
        """Propose a shorter time limit, if the job would start with it; or a higher priority."""
        limit_s = self._shorter_limit_s()
        if limit_s is not None:
            yield f"state a time limit of at most {duration(limit_s * NS_PER_S)}, and it starts now"
        first = max(self._queue.waiting.heads, default=0) + 1
        if first <= PRIORITY_MOST:
            yield f"put it first: warren priority {self._job.id} {first}"

    def _shorter_limit_s(self) -> int | None:
        """Return a time limit with which the job could start now; None if none is known."""
        if self._order != "backfill" or self._test is None:
            return None
        one_pass = SchedulePass(self._queue, self._now_ns, self._order)
        one_pass.run(to_the_end=True)
        group = group_of(self._job)
        keepers = [
            one_pass.keeper(group, host, kind)
            for kind in fitting_types(self._queue, self._need)
            for host in self._queue.hosts[kind]
        ]
        expected = one_pass.expected
        starts = [expected[one].begin_ns for one in keepers if one is not None and one in expected]
        limit_s = (max(starts, default=0) - self._now_ns) // NS_PER_S
        if not SHORTEST_LIMIT_S <= limit_s <= LONGEST_LIMIT_S:
            return None
        return limit_s if self._test.starts_with(time_limit_s=float(limit_s)) else None

    def _first_room(self) -> _Room | None:
        """Return where there are enough devices first, as far as running jobs go."""
        best: _Room | None = None
        for name, machine in self._queue.machines.items():
            if not fits_host(self._queue, self._need, name):
                continue
            for kind in fitting_types(self._queue, self._need):
                ends = sorted(self._free_from(name, one) for one in machine.usable.get(kind, ()))
                if len(ends) < self._need.devices:
                    continue
                time_ns, job = ends[self._need.devices - 1]
                if time_ns < (NEVER_NS if best is None else best.time_ns):
                    best = _Room(time_ns, name, job)
        return best

    def _free_from(self, host: str, device: str) -> tuple[int, str]:
        """Return when a device is free, and the last job that holds it until then."""
        free = (self._now_ns, "")
        for job_id in self._queue.machines[host].holders.get(device, ()):
            end_ns = expected_end_ns(self._queue.jobs[job_id], self._now_ns, self._remaining_s)
            free = max(free, (NEVER_NS if end_ns is None else end_ns, job_id))
        return free

    def _free_counts(self) -> Iterator[int]:
        """Yield how many devices are free on each host, by type."""
        for name, machine in self._queue.machines.items():
            if fits_host(self._queue, self._need, name):
                for kind in fitting_types(self._queue, self._need):
                    yield len(machine.free(kind, share=self._need.share))

    def _until(self, time_ns: int) -> str:
        return duration(time_ns - self._now_ns)


def jobs_before(queue: Queue, job: ServiceJob, now_ns: int) -> int:
    """Return how many waiting jobs come before one in the order, counted up to 5,000."""
    order = order_of(queue, now_ns)
    for count in range(_COUNTED_MOST):
        found = order.next()
        if found is None or found[1].id == job.id:
            return count
        need = found[0].need
        order.take(next(iter(fitting_types(queue, need)), ""), need.devices)
    return _COUNTED_MOST


def _named(job: ServiceJob) -> str:
    """Return a job as the list of the queue shows it."""
    name = f" ({job.spec.name})" if job.spec.name else ""
    return f"job {job.id}{name} of {job.user}"


def free_in_all(queue: Queue, job: ServiceJob) -> tuple[int, int]:
    """Return how many devices are free that a job may have, and on how many hosts."""
    need = group_of(job).need
    counts = [
        sum(len(machine.free(kind, share=need.share)) for kind in fitting_types(queue, need))
        for name, machine in queue.machines.items()
        if fits_host(queue, need, name)
    ]
    return sum(counts), sum(count > 0 for count in counts)
