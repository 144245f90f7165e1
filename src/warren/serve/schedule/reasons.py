"""Why a job waits: one code of a fixed list, and a text that names the evidence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, NamedTuple

from warren.serve.queue.idleness import idle_text
from warren.serve.queue.machines import MachineState
from warren.serve.queue.state import Queue
from warren.serve.queue.submissions import never
from warren.serve.queue.waiting import DeviceNeed, JobGroup, group_of
from warren.serve.records.jobs import Attempt, JobState, ServiceJob, resume_of
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

    For a job that still runs after its cancel, is to save and leave, or does nothing, the text says
    so, without a code.

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
        return WaitReason("held", _held(job))
    if job.state is JobState.RUNNING and job.cancelled_by is not None:
        grace, host = job.spec.grace_s, job.attempts[-1].host
        text = f"cancelled by {job.cancelled_by}; killed on {host} after a grace of {grace:g} s"
        return WaitReason("", text)
    if job.state is JobState.RUNNING and job.attempts[-1].preempt_ns is not None:
        return WaitReason("", _preempted(job))
    if job.state is JobState.RUNNING and job.attempts[-1].started_ns is None:
        return WaitReason("starting", f"host {job.attempts[-1].host} is starting it")
    if job.state is JobState.RUNNING:
        return WaitReason("", idle_text(job, now_ns))
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
        about = _Explanation(queue, group, one_pass)
        code = about.code(job)
        found = reasons[group] = WaitReason(code, about.text(code, job))
    if job.tied_to is not None:
        return WaitReason(found.code, f"{found.text}; its checkpoints are on {job.tied_to}")
    return found


def evidence(queue: Queue, job: ServiceJob, code: WaitCode, now_ns: int, order: Order) -> str:
    """Return the evidence for one cause of a waiting job, whatever else keeps it waiting."""
    if code == "held":
        return _held(job)
    if code == "dependency":
        return _dependency(queue, job)
    about = _Explanation(queue, group_of(job), _pass(queue, now_ns, order))
    return about.text(code, job)


def _preempted(job: ServiceJob) -> str:
    attempt, resume = job.attempts[-1], resume_of(job.spec)
    why = f" ({attempt.preempt_reason})" if attempt.preempt_reason else ""
    grace_s = resume.grace_s if resume is not None else job.spec.grace_s
    return f"{preempted(attempt)}{why}; it has {grace_s:g} s to save on {attempt.host}"


def preempted(attempt: Attempt) -> str:
    """Say by whom an attempt was preempted, and for which job."""
    by = f" by {attempt.preempt_by}" if attempt.preempt_by else ""
    other = f" for job {attempt.preempt_for}" if attempt.preempt_for else ""
    return f"preempted{by}{other}"


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


def _held(job: ServiceJob) -> str:
    return f"held until 'warren release {job.id}'"


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
    """Why a job with these needs does not start."""

    def __init__(self, queue: Queue, group: JobGroup, one_pass: SchedulePass) -> None:
        self._queue = queue
        self._group = group
        self._need = group.need
        self._pass = one_pass
        self._quotas = QuotaRoom(queue)
        large = [
            one
            for one in fitting_types(queue, self._need)
            if any(state.counts.get(one, 0) >= self._need.devices for state in self._hosts())
        ]
        full = {one: self._full(one) for one in large}
        self._quota = next((text for text in full.values() if text), "a quota is full")
        self._types = [one for one in large if full[one] is None]
        self._is_full = not self._types
        if self._is_full:
            # Jobs that end give back the room of the quota together with their devices.
            self._types = [one for one in large if self._fits_quotas(one)]
            self._is_full = not self._types or self._enough(_free_of(self._need))
            self._types = self._types or large

    def code(self, job: ServiceJob) -> WaitCode:
        """Return the first cause that by itself keeps the job waiting."""
        if not self._queue.machines:
            return "host"
        if never(self._queue, job.spec) is not None:
            return "never"
        if self._is_full:
            return "quota"
        if not self._enough(lambda one, kind: one.counts.get(kind, 0) * one.connected):
            return "host"
        if not self._enough(_undrained):
            return "drained"
        if not self._enough(lambda one, kind: len(one.usable.get(kind, ()))):
            return "foreign"
        return "order" if self._enough(_free_of(self._need)) else "devices"

    def text(self, code: WaitCode, job: ServiceJob) -> str:
        """Return the evidence for a cause."""
        wants = self._wants()
        match code:
            case "quota":
                return self._quota
            case "host" if not self._queue.machines:
                return "no host has joined yet"
            case "host":
                return f"{wants}; {self._lost()}"
            case "drained":
                return f"{wants}; {self._drained()}"
            case "foreign":
                return f"{wants}; {self._foreign()}"
            case "devices" if self._enough(_free_of(self._need)):
                return self._quota  # by the devices that jobs of the user hold
            case "devices":
                return f"{wants}; {self._free()}"
            case "order":
                return self._order()
            case _:
                return never(self._queue, job.spec) or ""

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

    def _fits_quotas(self, device_type: str) -> bool:
        never = self._quotas.never(self._group.user, device_type, self._need.devices)
        return never is None

    def _enough(self, count: Count) -> bool:
        return self._best(count)[1] >= self._need.devices

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
        lost = next((one for one in self._large() if not one.connected), None)
        if lost is None:
            return "a host does not answer"
        reason = f": {lost.reason}" if lost.reason else ""
        return f"host {lost.machine.name} does not answer{reason}"

    def _drained(self) -> str:
        drained = next((one for one in self._large() if one.drained), None)
        if drained is None:
            return "hosts are drained"
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

    def _free(self) -> str:
        """Say how many devices are free where most are."""
        host, most = self._best(_free_of(self._need))
        return f"{most} {'is' if most == 1 else 'are'} free on {host}" if most else "none is free"

    def _order(self) -> str:
        """Say for which job free devices are kept."""
        host, most = self._best(_free_of(self._need))
        if most < self._need.devices:
            return f"{self._wants()}; other jobs come first"
        for kind in self._types:
            found = self._pass.keeper(self._group, host, kind) or self._pass.quota_keeper(
                self._group, kind
            )
            if found is not None:
                other = self._queue.jobs[found]
                return f"{self._wants()}; {host} has them, kept for job {found} of {other.user}"
        return f"{self._wants()}; {host} has them for jobs that come first"


def _free_of(need: DeviceNeed) -> Count:
    return lambda state, kind: len(state.free(kind, share=need.share))


def _undrained(state: MachineState, device_type: str) -> int:
    if not state.connected or None in state.drained:
        return 0
    return sum(
        one.type == device_type and one.id not in state.drained for one in state.machine.devices
    )
