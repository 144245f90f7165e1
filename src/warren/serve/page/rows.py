"""What the pages show: values of the queue as text, for one caller."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from warren.model.units import NS_PER_S
from warren.serve.api.endpoint import Call
from warren.serve.api.routes.hosts import DeviceJob, HostDeviceRow, HostRow
from warren.serve.api.routes.users import UserRow
from warren.serve.api.service import may_see
from warren.serve.client.shown import size
from warren.serve.page.text import duration, moment
from warren.serve.queue.forecasts import Held
from warren.serve.queue.state import Queue
from warren.serve.queue.views import JobShown, ServiceJobRow, preempted_text
from warren.serve.records.jobs import Attempt, JobState, ServiceJob, resume_of
from warren.serve.records.users import Caller

JOBS_MAX: Final = 200
"""Most jobs on a page."""
STATES: Final = {
    "active": (JobState.RUNNING, JobState.QUEUED, JobState.HELD),
    "ended": (JobState.FINISHED, JobState.FAILED, JobState.CANCELLED),
}
"""States of the jobs behind each tab."""
_LONGEST_S: Final = 1e9
"""Longest time limit that is shown, in seconds."""
_USES: Final = {
    "free": "free",
    "jobs": "in use",
    "foreign": "used by processes of no job",
    "drained": "drained",
    "away": "away",
}


@dataclass(frozen=True, slots=True)
class JobLine:
    """A job in the table of the queue."""

    id: str
    name: str
    user: str
    state: str
    reason: str
    expected: str
    devices: str
    waited: str
    ran: str
    may_change: bool
    is_idle: bool


@dataclass(frozen=True, slots=True)
class AttemptLine:
    """An attempt in the table of a job."""

    number: int
    host: str
    devices: str
    began: str
    ran: str
    end: str


@dataclass(frozen=True, slots=True)
class DeviceLine:
    """A device in the table of its host."""

    id: str
    type: str
    use: str
    use_text: str
    jobs: list[DeviceJob]
    memory: str
    used_bytes: int
    memory_bytes: int
    is_drained: bool


@dataclass(frozen=True, slots=True)
class HostPart:
    """A host with its table of devices."""

    name: str
    connected: bool
    is_drained: bool
    about: str
    why: str
    devices: list[DeviceLine]


@dataclass(frozen=True, slots=True)
class Tab:
    """A link to a selection of jobs."""

    name: str
    url: str
    is_chosen: bool
    begins_group: bool = False


def job_line(job: ServiceJob, seen: ServiceJobRow, caller: Caller, now_ns: int) -> JobLine:
    """Return the line of a job."""
    attempt = job.attempt
    waited_to_ns = attempt.begun_ns if attempt else (job.ended_ns or now_ns)
    return JobLine(
        id=job.id,
        name=job.spec.name,
        user=job.user,
        state=job.state.value,
        reason=seen.reason,
        expected=_expected(seen, now_ns),
        devices=_devices(job),
        waited=duration(waited_to_ns - job.submitted_ns),
        ran=_ran(attempt, now_ns) if attempt else "",
        may_change=not job.state.ended and may_see(job, caller),
        is_idle=job.idle.since_ns is not None,
    )


def chosen_jobs(call: Call, state: str, who: str) -> tuple[list[ServiceJob], int]:
    """Return the jobs of a tab, and how many more there are.

    Jobs that run come first, then those that wait in the order of submission; of ended jobs the
    last comes first.
    """
    states = STATES[state]
    user = call.caller.user if who == "mine" else None
    found = [
        job
        for job in call.service.queue.jobs.values()
        if job.state in states and (user is None or job.user == user)
    ]
    if state == "ended":
        found.sort(key=lambda job: -(job.ended_ns or 0))
    else:
        found.sort(key=lambda job: states.index(job.state))
    return found[:JOBS_MAX], max(0, len(found) - JOBS_MAX)


def tabs(state: str, who: str) -> list[Tab]:
    """Return the links to the selections of jobs."""

    def url(state: str, who: str) -> str:
        return f"/?{urlencode({'state': state, 'who': who})}"

    return [
        Tab("Active", url("active", who), state == "active"),
        Tab("Ended", url("ended", who), state == "ended"),
        Tab("All users", url(state, "all"), who == "all", begins_group=True),
        Tab("Mine", url(state, "mine"), who == "mine"),
    ]


def tiles(queue: Queue) -> list[tuple[str, int]]:
    """Return the figures above the queue."""
    states = Counter(job.state for job in queue.jobs.values())
    devices = [(one, id_) for one in queue.machines.values() for id_ in one.devices]
    return [
        ("running", states[JobState.RUNNING]),
        ("queued", states[JobState.QUEUED]),
        ("held", states[JobState.HELD]),
        ("devices in use", sum(bool(one.holders.get(id_)) for one, id_ in devices)),
        ("devices free", sum(len(one.open) for one in queue.machines.values())),
    ]


def facts(job: ServiceJob, seen: JobShown, now_ns: int) -> Iterator[tuple[str, str]]:
    """Yield what the page of a job lists; the command and the folder where the caller sees them."""
    yield "User", job.user
    yield "Submitted", moment(job.submitted_ns)
    yield from _expectations(seen)
    if job.ended_ns is not None:
        yield "Ended", moment(job.ended_ns)
    if job.attempt is not None:
        yield "Ran", _ran(job.attempt, now_ns)
        if job.attempt.exit_code is not None:
            yield "Exit code", str(job.attempt.exit_code)
    spec = job.spec
    type_ = f" {spec.device_type}" if spec.device_type else ""
    yield "Devices", _devices(job) if job.attempt else f"{spec.devices}{type_}"
    if job.priority:
        yield "Priority", str(job.priority)
    if spec.time_limit_s is not None:
        yield "Time limit", duration(int(min(spec.time_limit_s, _LONGEST_S) * 1e9))
    if (resume := resume_of(spec)) is not None:
        grace = duration(int(resume.grace_s * 1e9))
        yield "Comes back", f"after SIG{resume.signal}, with {grace} to save"
    if job.array is not None:
        yield "Array", job.array
    if spec.after:
        yield "After", ", ".join(f"{one.job} ({one.when})" for one in spec.after)
    if seen.command is not None:
        yield "Command", shlex.join(seen.command)
        yield "Folder", seen.folder or ""


def _expectations(seen: JobShown) -> Iterator[tuple[str, str]]:
    """Yield when a job is expected to start and to end, and how often such intervals held."""
    for name, at_s, span_s in (
        ("Expected start", seen.expected_start_s, seen.expected_start_80_s),
        ("Expected end", seen.expected_end_s, seen.expected_end_80_s),
    ):
        if at_s is not None and span_s is not None:
            low, high = (_moment(one) for one in span_s)
            yield name, f"{_moment(at_s)}; 80 % interval: {low} to {high}"
    if seen.expected_start_s is None and seen.expected_s is not None:
        yield "Expected start", f"{_moment(seen.expected_s)}, by the time limits"
    if seen.starts_held is not None:
        yield "Such intervals held", held_text(Held(*seen.starts_held))


def held_text(held: Held) -> str:
    """Return how often the intervals of starts held."""
    return f"for {100 * held.held / held.of:.0f} % of the last {held.of} starts"


def _moment(time_s: float) -> str:
    return moment(int(time_s * NS_PER_S))


def attempt_line(attempt: Attempt, now_ns: int) -> AttemptLine:
    """Return the line of an attempt."""
    return AttemptLine(
        number=attempt.number,
        host=attempt.host,
        devices=", ".join(attempt.devices),
        began=moment(attempt.begun_ns),
        ran=_ran(attempt, now_ns),
        end=_end(attempt),
    )


def used(user: UserRow) -> str:
    """Return the device time that counts in the fair share of a user."""
    times = user.used_device_s.items()
    return ", ".join(f"{duration(int(s * 1e9))} {type_}" for type_, s in times if s >= 1)


def host_part(host: HostRow) -> HostPart:
    """Return a host for its page."""
    about = (
        f"{host.processors} processors, {size(host.memory_bytes)} memory, "
        f"limits by {host.limits}, Warren {host.version}"
    )
    why = host.reason if not host.connected else (host.drained or "")
    devices = [_device_line(device) for device in host.devices]
    return HostPart(host.name, host.connected, host.drained is not None, about, why, devices)


def _device_line(device: HostDeviceRow) -> DeviceLine:
    text = _USES[device.use]
    if device.use == "foreign":
        text = f"{text}: {', '.join(device.foreign)}"
    elif device.drained:
        text = f"{text}: {device.drained}"
    elif device.fault:
        text = f"{text}; {device.fault}"
    memory = ""
    if device.memory_bytes:
        memory = f"{size(device.used_bytes)} of {size(device.memory_bytes)}"
    return DeviceLine(
        device.id, device.type, device.use, text, device.jobs, memory, device.used_bytes,
        device.memory_bytes, device.drained is not None,
    )  # fmt: skip


def _expected(seen: ServiceJobRow, now_ns: int) -> str:
    if seen.expected_s is None:
        return ""
    return duration(int(seen.expected_s * 1e9) - now_ns)


def _devices(job: ServiceJob) -> str:
    if job.attempt is None or job.state is JobState.QUEUED:
        return ""
    return f"{len(job.attempt.devices)} on {job.attempt.host}"


def _ran(attempt: Attempt, now_ns: int) -> str:
    if attempt.started_ns is None:
        return ""
    return duration((attempt.ended_ns or now_ns) - attempt.started_ns)


def _end(attempt: Attempt) -> str:
    if attempt.ended_ns is None:
        return ""
    if found := attempt.reason or preempted_text(attempt):
        return found + _saved(attempt)
    if attempt.signal is not None:
        return f"signal {attempt.signal}"
    return f"exit code {attempt.exit_code}"


def _saved(attempt: Attempt) -> str:
    """Say whether a preempted attempt has saved, behind why it ended."""
    if attempt.saved:
        return f"; saved in {duration(int((attempt.save_s or 0) * 1e9))}"
    if attempt.lost_s is not None:
        return f"; not saved: {duration(int(attempt.lost_s * 1e9))} lost"
    return ""
