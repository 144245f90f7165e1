"""The queue: a fold over the events of the service.

``Queue.apply`` is all that changes it, so the same events make the same queue. Beside jobs,
machines, users and quotas it keeps what answers quickly: the jobs that wait for devices by group,
what each user holds, device time by user, and which dependencies do not hold yet.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from warren.model.errors import InvalidTransition
from warren.serve.queue.dependencies import Dependencies
from warren.serve.queue.forecasts import ForecastRecord
from warren.serve.queue.machines import MachineState
from warren.serve.queue.usage import HALF_LIFE_S, DeviceUsage
from warren.serve.queue.waiting import ReadyJobs
from warren.serve.records.events import (
    AnyEvent,
    AttemptBegun,
    AttemptEnded,
    AttemptStarted,
    CancelAsked,
    DeviceFaulted,
    DevicesUsed,
    Drained,
    Foreseen,
    IdleEndAsked,
    JobEnded,
    JobExtended,
    JobHeld,
    JobIdle,
    JobReleased,
    JobSubmitted,
    MachineJoined,
    MachineLost,
    MachineRemoved,
    PreemptAsked,
    PriorityChanged,
    QuotaSet,
    Refused,
    Undrained,
    UserRemoved,
    UserSet,
)
from warren.serve.records.jobs import (
    NOT_IDLE,
    Attempt,
    Idleness,
    JobState,
    ServiceJob,
    keeps_checkpoints_on_host,
)
from warren.serve.records.users import Quota, User
from warren.serve.records.xid import worst, xid


class TypeTotal(NamedTuple):
    """All devices of one type that the known machines have."""

    kind: str
    memory_bytes: int
    devices: int


class HeldType(NamedTuple):
    """Devices of one type that a job holds."""

    type: str
    kind: str
    devices: int


class Queue:
    """All that the service knows, as its events have left it.

    Parameters
    ----------
    half_life_s
        Seconds after which a device second counts half in the fair share.

    Attributes
    ----------
    jobs
        All jobs by id, in the order of their submission.
    machines, users, quotas
        What is there, by name; quotas by subject and type.
    types
        Types of all devices, the least valuable first: processors before GPUs, then by memory.
    hosts
        Type to the hosts that have devices of it, those with the fewest first.
    waiting
        Jobs that wait for devices alone.
    running
        Jobs that hold devices, with the number of each type; a machine may lose devices meanwhile.
    dependencies
        Dependencies that do not hold yet, and the arrays.
    names
        User and name to the ids of the jobs and arrays of that name that have not ended.
    last_named
        User and name to the job or array that came last.
    keys
        User and key of a submission to the id of its job or array.
    holds
        User to the number of devices held: by type, by kind, and under ``any``.
    usage
        Device time by user and type.
    forecasts
        What was foreseen of waiting jobs, and how often it held.
    next_number
        Number of the next job or array.
    version
        Number of events applied.
    cache
        Answers that hold until the next event; emptied by it.
    policy
        The place policy in whose order jobs of equal priority wait
        (``schedule.policy_order.PlacePolicy``); None: by fair shares. No event sets it.
    """

    def __init__(self, half_life_s: float = HALF_LIFE_S) -> None:
        self.jobs: dict[str, ServiceJob] = {}
        self.in_order: list[ServiceJob] = []
        self.machines: dict[str, MachineState] = {}
        self.types: dict[str, TypeTotal] = {}
        self.hosts: dict[str, list[str]] = {}
        self.users: dict[str, User] = {}
        self.quotas: dict[tuple[str, str], Quota] = {}
        self.waiting = ReadyJobs()
        self.running: dict[str, tuple[HeldType, ...]] = {}
        self.dependencies = Dependencies(self.jobs)
        self.names: dict[tuple[str, str], dict[str, None]] = {}
        self.last_named: dict[tuple[str, str], str] = {}
        self.keys: dict[tuple[str, str], str] = {}
        self.holds: dict[str, dict[str, int]] = {}
        self.usage = DeviceUsage(half_life_s)
        self.forecasts = ForecastRecord()
        self.next_number = 1
        self.version = 0
        self.cache: dict[str, Any] = {}
        self.policy: Any = None
        self._environments: dict[str, dict[str, str]] = {}

    def apply(self, event: AnyEvent) -> None:
        """Take over an event.

        Raises
        ------
        InvalidTransition
            If the event cannot happen in this state; the queue is as it was.
        """
        try:
            _APPLY[type(event)](self, event)
        except KeyError as unknown:
            raise InvalidTransition(f"event {event!r} names {unknown}, which is unknown") from None
        self.version += 1
        if self.cache:
            self.cache.clear()

    def ids(self, target: str) -> list[str]:
        """Return the jobs of an array, or the job itself; nothing where the id is unknown."""
        array = self.dependencies.arrays.get(target)
        if array is not None:
            return array.ids
        return [target] if target in self.jobs else []

    def user(self, name: str) -> User:
        """Return a user, with the defaults where no admin has set one."""
        return self.users.get(name) or User(name)


def _submitted(queue: Queue, event: JobSubmitted) -> None:
    if event.job in queue.jobs:
        raise InvalidTransition(f"job {event.job} was submitted before")
    spec = event.spec
    last = queue._environments.get(event.user)
    if last is not None and last == spec.environment:
        # Jobs of one shell have equal environments: thousands of them share one.
        spec = msgspec.structs.replace(spec, environment=last)
    else:
        queue._environments[event.user] = spec.environment
    job = ServiceJob(
        id=event.job,
        order=len(queue.in_order),
        user=event.user,
        spec=spec,
        submitted_ns=event.time_ns,
        state=JobState.HELD if spec.held else JobState.QUEUED,
        priority=spec.priority,
        array=event.array,
        attempts=[],
    )
    queue.dependencies.add(job)
    queue.jobs[job.id] = job
    queue.in_order.append(job)
    unit = event.array or event.job
    queue.next_number = max(queue.next_number, int(unit) + 1)
    if spec.key is not None:
        queue.keys.setdefault((event.user, spec.key), unit)
    if spec.name:
        name = (event.user, spec.name)
        queue.names.setdefault(name, {})[unit] = None
        queue.last_named[name] = unit
    _wait(queue, job)


def _wait(queue: Queue, job: ServiceJob) -> None:
    """Let a job wait for devices, if it waits for nothing else."""
    if job.state is JobState.QUEUED and job.id not in queue.dependencies.unmet:
        queue.waiting.add(job)


def _held(queue: Queue, event: JobHeld) -> None:
    job = _expected(queue, event.job, JobState.QUEUED, JobState.HELD)
    queue.waiting.remove(job)
    job.state = JobState.HELD
    queue.forecasts.drop(job.id)


def _released(queue: Queue, event: JobReleased) -> None:
    job = _expected(queue, event.job, JobState.QUEUED, JobState.HELD)
    job.state = JobState.QUEUED
    _wait(queue, job)


def _priority(queue: Queue, event: PriorityChanged) -> None:
    job = _expected(queue, event.job, JobState.QUEUED, JobState.HELD)
    queue.waiting.remove(job)
    job.priority = event.priority
    _wait(queue, job)


def _cancel(queue: Queue, event: CancelAsked) -> None:
    job = queue.jobs[event.job]
    job.cancelled_by = event.by


def _preempt(queue: Queue, event: PreemptAsked) -> None:
    attempt = _attempt(queue, event.job, event.attempt)
    attempt.preempt_ns = event.time_ns
    attempt.preempt_by = event.by
    attempt.preempt_reason = event.reason
    attempt.preempt_for = event.for_job


def _begun(queue: Queue, event: AttemptBegun) -> None:
    job = _expected(queue, event.job, JobState.QUEUED)
    machine = queue.machines[event.host]
    queue.waiting.remove(job)
    job.state = JobState.RUNNING
    job.attempts.append(Attempt(event.attempt, event.host, event.devices, event.time_ns))
    queue.forecasts.starts.came(job.id, event.time_ns)
    queue.running[job.id] = held = _held_devices(machine, event.devices)
    _count(queue, job.user, held, 1, event.time_ns)
    machine.hold(job.id, event.devices, job.spec.share)


def _held_devices(machine: MachineState, devices: tuple[str, ...]) -> tuple[HeldType, ...]:
    counts: dict[tuple[str, str], int] = {}
    for name in devices:
        key = (machine.devices[name].type, machine.devices[name].kind)
        counts[key] = counts.get(key, 0) + 1
    return tuple(HeldType(*key, count) for key, count in counts.items())


def _count(queue: Queue, user: str, held: tuple[HeldType, ...], sign: int, time_ns: int) -> None:
    """Count devices as held by a user from now on, or as no longer held."""
    holds = queue.holds.setdefault(user, {})
    for one in held:
        for key in ("any", one.kind, one.type):
            holds[key] = holds.get(key, 0) + sign * one.devices
        queue.usage.change(user, one.type, sign * one.devices, time_ns)


def _started(queue: Queue, event: AttemptStarted) -> None:
    attempt = _attempt(queue, event.job, event.attempt)
    attempt.started_ns = event.time_ns


def _attempt_ended(queue: Queue, event: AttemptEnded) -> None:
    job = queue.jobs[event.job]
    attempt = _attempt(queue, event.job, event.attempt)
    attempt.ended_ns = event.time_ns
    attempt.exit_code = event.exit_code
    attempt.signal = event.signal
    attempt.reason = event.reason
    attempt.cause = event.cause
    attempt.ran = event.ran
    attempt.saved, attempt.save_s, attempt.lost_s = event.saved, event.save_s, event.lost_s
    _count(queue, job.user, queue.running.pop(job.id), -1, event.time_ns)
    queue.machines[attempt.host].let_go(job.id, attempt.devices)
    job.state, job.idle = JobState.QUEUED, NOT_IDLE
    if attempt.ran and keeps_checkpoints_on_host(job.spec):
        job.tied_to = attempt.host
    if job.cancelled_by is None:
        _wait(queue, job)


def _ended(queue: Queue, event: JobEnded) -> None:
    job = _expected(queue, event.job, JobState.QUEUED, JobState.HELD)
    queue.waiting.remove(job)
    job.state = event.state
    job.ended_ns = event.time_ns
    job.reason = event.reason
    queue.forecasts.ended(job.id, event.time_ns)
    for free in queue.dependencies.end(job):
        _wait(queue, queue.jobs[free])
    unit = job.array or job.id
    if job.spec.name and queue.dependencies.ended(unit):
        name = (job.user, job.spec.name)
        named = queue.names.get(name, {})
        named.pop(unit, None)
        if not named:
            queue.names.pop(name, None)


def _joined(queue: Queue, event: MachineJoined) -> None:
    state = queue.machines.get(event.machine.name)
    if state is None:
        state = queue.machines[event.machine.name] = MachineState(event.machine)
    state.describe(event.machine)
    _count_types(queue)
    state.connected, state.reason = True, ""
    state.refresh()


def _lost(queue: Queue, event: MachineLost) -> None:
    state = queue.machines[event.host]
    state.connected, state.reason = False, event.reason
    state.refresh()


def _removed(queue: Queue, event: MachineRemoved) -> None:
    if queue.machines[event.host].attempts:
        raise InvalidTransition(f"host {event.host} is removed before its jobs have ended")
    del queue.machines[event.host]
    _count_types(queue)
    for job in queue.in_order:
        if job.tied_to == event.host and not job.state.ended:
            _untie(queue, job)


def _untie(queue: Queue, job: ServiceJob) -> None:
    """Let a job run on any host: its checkpoints are gone with theirs."""
    waits = job in queue.waiting
    queue.waiting.remove(job)
    job.tied_to = None
    if waits:
        queue.waiting.add(job)


def _count_types(queue: Queue) -> None:
    found: dict[str, TypeTotal] = {}
    for state in queue.machines.values():
        for kind, count in state.counts.items():
            before = found.get(kind, TypeTotal(state.kinds[kind], 0, 0))
            memory = max(before.memory_bytes, state.memory[kind])
            found[kind] = TypeTotal(before.kind, memory, before.devices + count)
    order = sorted(found, key=lambda one: (found[one].kind == "gpu", found[one].memory_bytes, one))
    queue.types = {one: found[one] for one in order}
    queue.hosts = {
        kind: sorted(
            (name for name, state in queue.machines.items() if kind in state.counts),
            key=lambda name: queue.machines[name].counts[kind],
        )
        for kind in order
    }


def _drained(queue: Queue, event: Drained) -> None:
    state = queue.machines[event.host]
    state.drain(event.device, event.reason, event.time_ns, by_itself=not event.by)


def _undrained(queue: Queue, event: Undrained) -> None:
    queue.machines[event.host].undrain(event.device)


def _used(queue: Queue, event: DevicesUsed) -> None:
    state = queue.machines[event.host]
    state.uses = {use.id: use for use in event.devices}
    state.refresh()


def _faulted(queue: Queue, event: DeviceFaulted) -> None:
    state = queue.machines[event.host]
    if xid(event.xid).kind != "program":
        state.xids[event.device] = (event.xid, event.time_ns)
    for job in state.holders.get(event.device, ()):
        attempt = queue.jobs[job].attempts[-1]
        attempt.xid = worst((attempt.xid, event.xid))


def _idle(queue: Queue, event: JobIdle) -> None:
    _attempt(queue, event.job, event.attempt)
    job = queue.jobs[event.job]
    job.idle = msgspec.structs.replace(job.idle, since_ns=event.since_ns, ends_ns=event.ends_ns)


def _extended(queue: Queue, event: JobExtended) -> None:
    job = _expected(queue, event.job, JobState.RUNNING)
    job.idle = Idleness(extended_ns=event.until_ns)


def _idle_end(queue: Queue, event: IdleEndAsked) -> None:
    _attempt(queue, event.job, event.attempt)
    job = queue.jobs[event.job]
    job.idle = msgspec.structs.replace(job.idle, end_reason=event.reason)


def _foreseen(queue: Queue, event: Foreseen) -> None:
    """Take down what was foreseen; a job that has started meanwhile has no start to foresee."""
    if queue.jobs[event.job].state is JobState.QUEUED:
        queue.forecasts.note(event)


def _user(queue: Queue, event: UserSet) -> None:
    queue.users[event.user.name] = event.user


def _user_removed(queue: Queue, event: UserRemoved) -> None:
    queue.users.pop(event.name, None)


def _quota(queue: Queue, event: QuotaSet) -> None:
    key = (event.quota.subject, event.quota.type)
    if event.quota.devices < 0:
        queue.quotas.pop(key, None)
    else:
        queue.quotas[key] = event.quota


def _refused(queue: Queue, event: Refused) -> None:
    """Change nothing: the event is for the audit log."""


def _expected(queue: Queue, job_id: str, *states: JobState) -> ServiceJob:
    job = queue.jobs[job_id]
    if job.state not in states:
        raise InvalidTransition(f"job {job_id} is {job.state}, not {' or '.join(states)}")
    return job


def _attempt(queue: Queue, job_id: str, number: int) -> Attempt:
    """Return the attempt of a job that is under way."""
    attempt = _expected(queue, job_id, JobState.RUNNING).attempts[-1]
    if attempt.number != number:
        raise InvalidTransition(f"job {job_id} is at attempt {attempt.number}, not {number}")
    return attempt


_APPLY: dict[type[Any], Callable[[Queue, Any], None]] = {
    JobSubmitted: _submitted,
    JobHeld: _held,
    JobReleased: _released,
    PriorityChanged: _priority,
    CancelAsked: _cancel,
    PreemptAsked: _preempt,
    AttemptBegun: _begun,
    AttemptStarted: _started,
    AttemptEnded: _attempt_ended,
    JobEnded: _ended,
    Foreseen: _foreseen,
    MachineJoined: _joined,
    MachineLost: _lost,
    MachineRemoved: _removed,
    Drained: _drained,
    Undrained: _undrained,
    DevicesUsed: _used,
    DeviceFaulted: _faulted,
    JobIdle: _idle,
    JobExtended: _extended,
    IdleEndAsked: _idle_end,
    UserSet: _user,
    UserRemoved: _user_removed,
    QuotaSet: _quota,
    Refused: _refused,
}
