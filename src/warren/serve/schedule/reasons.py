"""Why a job waits: one code of a fixed list, and a text that names the evidence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, NamedTuple

from warren.serve.queue.machines import MachineState
from warren.serve.queue.state import Queue
from warren.serve.queue.submissions import never
from warren.serve.queue.waiting import JobGroup
from warren.serve.records.jobs import JobState, ServiceJob
from warren.serve.schedule.decide import Order, SchedulePass
from warren.serve.schedule.placement import fits_host, fitting_types
from warren.serve.schedule.quotas import QuotaRoom
from warren.serve.schedule.timetable import UNKNOWN_NS

WaitCode = Literal[
    "held",
    "dependency",
    "quota",
    "devices",
    "drained",
    "foreign",
    "order",
    "host",
    "starting",
    "never",
]
"""Codes of all reasons for which a job waits."""


class WaitReason(NamedTuple):
    """Why a job waits; ``text`` names the evidence. ``code`` is empty if it does not wait."""

    code: WaitCode | Literal[""]
    text: str

    def __str__(self) -> str:
        return f"{self.code}: {self.text}" if self.code else self.text


NO_WAIT: Final = WaitReason("", "")
"""The reason of a job that does not wait."""


def why(queue: Queue, job: ServiceJob, now_ns: int, order: Order = "strict") -> WaitReason:
    """Return why a job waits; a job that runs or has ended does not.

    For a job that still runs after its cancel, the text says so, without a code.

    Parameters
    ----------
    queue
        The queue.
    job
        A job of it.
    now_ns
        The present. Answers are kept until the next event, as they hardly depend on it.
    order
        How jobs may overtake each other.
    """
    if job.state is JobState.HELD:
        return WaitReason("held", f"held until 'warren release {job.id}'")
    if job.state is JobState.RUNNING and job.cancelled_by is not None:
        grace, host = job.spec.grace_s, job.attempts[-1].host
        text = f"cancelled by {job.cancelled_by}; killed on {host} after a grace of {grace:g} s"
        return WaitReason("", text)
    if job.state is JobState.RUNNING and job.attempts[-1].started_ns is None:
        return WaitReason("starting", f"host {job.attempts[-1].host} is starting it")
    if job.state is not JobState.QUEUED:
        return NO_WAIT
    if job.id in queue.dependencies.unmet:
        return WaitReason("dependency", _dependency(queue, job))
    one_pass = _pass(queue, now_ns, order)
    if job.id in one_pass.starting:
        return WaitReason("starting", "about to start")
    reasons: dict[JobGroup, WaitReason] = queue.cache.setdefault(f"reasons {order}", {})
    group = queue.waiting.group(job)
    found = reasons.get(group)
    if found is None:
        found = reasons[group] = _Explanation(queue, group, one_pass).reason(job)
    return found


def expected_start_ns(queue: Queue, job: ServiceJob, now_ns: int, order: Order) -> int | None:
    """Return when a waiting job is expected to start, by the time limits of the jobs before it.

    None under ``strict``, for jobs behind the first ``RESERVED_MOST``, and where a job without a
    time limit is in the way.
    """
    if order == "strict" or job.state is not JobState.QUEUED:
        return None
    start = _pass(queue, now_ns, order).expected.get(job.id)
    return start.begin_ns if start is not None and start.begin_ns < UNKNOWN_NS else None


def _pass(queue: Queue, now_ns: int, order: Order) -> SchedulePass:
    found: SchedulePass | None = queue.cache.get(f"pass {order}")
    if found is None:
        found = queue.cache[f"pass {order}"] = SchedulePass(queue, now_ns, order)
        found.run(to_the_end=True)
    return found


def _dependency(queue: Queue, job: ServiceJob) -> str:
    texts = []
    for target, when in queue.dependencies.unmet[job.id].items():
        what = "finish" if when == "ok" else "end"
        array = queue.dependencies.arrays.get(target)
        if array is None:
            texts.append(f"job {target} is to {what}; it is {queue.jobs[target].state}")
        else:
            texts.append(
                f"array {target} is to {what}; {array.unended} of {len(array.ids)} jobs have not"
            )
    more = f", and {len(texts) - 1} more" if len(texts) > 1 else ""
    return texts[0] + more


Count = Callable[[MachineState, str], int]
"""Number of devices of a type that a machine has, in some sense."""


class _Explanation:
    """Why the first job of a group does not start."""

    def __init__(self, queue: Queue, group: JobGroup, one_pass: SchedulePass) -> None:
        self._queue = queue
        self._group = group
        self._need = group.need
        self._pass = one_pass
        self._quotas = QuotaRoom(queue)
        self._types = fitting_types(queue, self._need)

    def reason(self, job: ServiceJob) -> WaitReason:
        """Return the first cause that by itself keeps the job waiting."""
        if not self._queue.machines:
            return WaitReason("host", "no host has joined yet")
        if (text := never(self._queue, job.spec)) is not None:
            return WaitReason("never", text)
        self._types = [
            one
            for one in self._types
            if any(state.counts.get(one, 0) >= self._need.devices for state in self._hosts())
        ]
        full = {one: self._full(one) for one in self._types}
        allowed = [one for one in self._types if full[one] is None]
        if not allowed:
            return WaitReason("quota", next(text for text in full.values() if text))
        self._types = allowed
        wants = self._wants()
        host, most = self._best(lambda one, kind: one.counts.get(kind, 0) * one.connected)
        if most < self._need.devices:
            return WaitReason("host", f"{wants}; {self._lost()}")
        host, most = self._best(_undrained)
        if most < self._need.devices:
            return WaitReason("drained", f"{wants}; {self._drained()}")
        host, most = self._best(lambda one, kind: len(one.usable.get(kind, ())))
        if most < self._need.devices:
            return WaitReason("foreign", f"{wants}; {self._foreign()}")
        host, most = self._best(lambda one, kind: len(one.free(kind, share=self._need.share)))
        if most < self._need.devices:
            free = (
                f"{most} {'is' if most == 1 else 'are'} free on {host}" if most else "none is free"
            )
            return WaitReason("devices", f"{wants}; {free}")
        return WaitReason("order", self._order(host))

    def _wants(self) -> str:
        need = self._need
        one = "GPU" if need.device_type == "gpu" else need.device_type or "device"
        many = one if need.device_type not in (None, "gpu") or need.devices == 1 else f"{one}s"
        where = f" on {need.host}" if need.host else " on one host" if need.devices > 1 else ""
        return f"needs {need.devices} {many}{where}"

    def _full(self, device_type: str) -> str | None:
        key = self._quotas.full(self._group.user, device_type, self._need.devices)
        if key is None:
            return None
        return (
            f"needs {self._need.devices}; {key.subject} has {self._quotas.used(key)} "
            f"of {self._quotas.limit(key)} devices ({key.type})"
        )

    def _hosts(self) -> list[MachineState]:
        return [
            state
            for name, state in self._queue.machines.items()
            if fits_host(self._queue, self._need, name)
        ]

    def _best(self, count: Count) -> tuple[str, int]:
        """Return the host with the most devices of an allowed type, and how many it has."""
        host, most = "", 0
        for state in self._hosts():
            for kind in self._types:
                if (found := count(state, kind)) > most:
                    host, most = state.machine.name, found
        return host, most

    def _large(self) -> list[MachineState]:
        """Return the hosts that have enough devices, in whatever state."""
        return [
            state
            for state in self._hosts()
            if any(state.counts.get(one, 0) >= self._need.devices for one in self._types)
        ]

    def _lost(self) -> str:
        lost = next(one for one in self._large() if not one.connected)
        reason = f": {lost.reason}" if lost.reason else ""
        return f"host {lost.machine.name} does not answer{reason}"

    def _drained(self) -> str:
        drained = next(one for one in self._large() if one.connected and one.drained)
        device, reason = next(iter(drained.drained.items()))
        what = (
            f"host {drained.machine.name}"
            if device is None
            else f"{device} of {drained.machine.name}"
        )
        return f"{what} is drained{f': {reason}' if reason else ''}"

    def _foreign(self) -> str:
        for state in self._large():
            for use in state.uses.values():
                if use.foreign and state.connected:
                    return f"{use.foreign[0]} uses {use.id} of {state.machine.name}"
        return "processes of no job use devices"

    def _order(self, host: str) -> str:
        """Say for which job free devices are kept."""
        for kind in self._types:
            found = self._pass.keeper(self._group, host, kind) or self._pass.quota_keeper(
                self._group, kind
            )
            if found is not None:
                other = self._queue.jobs[found]
                return f"{self._wants()}; {host} has them, kept for job {found} of {other.user}"
        return f"{self._wants()}; {host} has them for jobs that come first"


def _undrained(state: MachineState, device_type: str) -> int:
    if not state.connected or None in state.drained:
        return 0
    return sum(
        one.type == device_type and one.id not in state.drained for one in state.machine.devices
    )
