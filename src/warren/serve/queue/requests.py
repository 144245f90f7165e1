"""Requests become events, or are refused. A request changes nothing by itself."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from warren.serve.queue.ends import attempt_ends, lost_attempts
from warren.serve.queue.refusals import Refusal as Refusal
from warren.serve.queue.refusals import admin_only, named_jobs
from warren.serve.queue.state import Queue
from warren.serve.queue.submissions import (
    PRIORITY_MOST,
    checked,
    device_types,
    members,
    placeable,
    url_problems,
)
from warren.serve.records.events import (
    AnyEvent,
    CancelAsked,
    Drained,
    JobEnded,
    JobHeld,
    JobReleased,
    JobSubmitted,
    MachineRemoved,
    PreemptAsked,
    PriorityChanged,
    QuotaSet,
    Undrained,
    UserRemoved,
    UserSet,
)
from warren.serve.records.jobs import (
    CommandSpec,
    Dependency,
    JobState,
    ServiceJob,
    Submission,
    resume_of,
)
from warren.serve.records.users import Caller, Quota, User

_USER: Final = re.compile(r"[\w.@+-]{1,100}")
_WAITING: Final = (JobState.QUEUED, JobState.HELD)


class SubmitAnswer(NamedTuple):
    """The id of a job or array, and the ids of all its jobs."""

    id: str
    ids: tuple[str, ...]


class Submitted(NamedTuple):
    """The events of a request to submit, and an answer for each submission."""

    events: list[AnyEvent]
    answers: list[SubmitAnswer]


def submit(
    queue: Queue, submissions: Sequence[Submission], caller: Caller, now_ns: int
) -> Submitted:
    """Return the events that submissions mean; all of them, or none.

    A submission whose key the user has used before is answered with the ids from then. One may
    depend on another before it in the same request, by name.

    Raises
    ------
    Refusal
        If a submission is wrong, names a job that is not there, or could never run.
    """
    request = _Request(queue, caller, now_ns)
    return Submitted(request.events, [request.add(one) for one in submissions])


class _Request:
    """Submissions of one request, of which later ones see earlier ones."""

    def __init__(self, queue: Queue, caller: Caller, now_ns: int) -> None:
        self._queue = queue
        self._caller = caller
        self._now_ns = now_ns
        self._number = queue.next_number
        self._ids: dict[str, tuple[str, ...]] = {}
        self._keys: dict[str, str] = {}
        self._names: dict[str, list[str]] = {}
        self._failed: dict[str, str] = {}
        self.events: list[AnyEvent] = []

    def add(self, submission: Submission) -> SubmitAnswer:
        checked(submission)
        spec = submission.spec
        if (known := self._known(spec.key)) is not None:
            return known
        spec = placeable(self._queue, spec)
        spec = msgspec.structs.replace(spec, after=self._resolved(spec))
        submission = msgspec.structs.replace(submission, spec=spec)
        unit = str(self._number)
        self._number += 1
        is_array = submission.array is not None or submission.sweep is not None
        ids = []
        for member in members(submission):
            ids.append(unit if member.place is None else f"{unit}_{member.place}")
            self.events.append(
                JobSubmitted(
                    time_ns=self._now_ns,
                    by=self._caller.user,
                    job=ids[-1],
                    user=self._caller.user,
                    spec=member.spec,
                    array=unit if is_array else None,
                )
            )
        self._ids[unit] = tuple(ids)
        self._names.setdefault(spec.name, []).append(unit)
        if spec.key is not None:
            self._keys[spec.key] = unit
        self._fail(spec, unit)
        return SubmitAnswer(unit, tuple(ids))

    def _known(self, key: str | None) -> SubmitAnswer | None:
        """Return the answer to an earlier submission of this key."""
        if key is None:
            return None
        if (unit := self._keys.get(key)) is not None:
            return SubmitAnswer(unit, self._ids[unit])
        unit = self._queue.keys.get((self._caller.user, key))
        return None if unit is None else SubmitAnswer(unit, tuple(self._queue.ids(unit)))

    def _resolved(self, spec: CommandSpec) -> tuple[Dependency, ...]:
        """Return the dependencies of a spec, each on the id of a job or array."""
        resolved: dict[Dependency, None] = {}
        for dependency in spec.after:
            for unit in self._units(dependency.job):
                resolved[Dependency(unit, dependency.when)] = None
        return tuple(resolved)

    def _units(self, target: str) -> list[str]:
        if target in self._ids or self._queue.ids(target):
            return [target]
        name = (self._caller.user, target)
        units = [*self._queue.names.get(name, ()), *(self._names.get(target, ()) if target else ())]
        if not units and name in self._queue.last_named:
            units = [self._queue.last_named[name]]
        if not units:
            raise Refusal("unknown", f"after: job '{target}' is unknown")
        return units

    def _fail(self, spec: CommandSpec, unit: str) -> None:
        """End the jobs of a unit at once if they wait for a job that has failed."""
        for dependency in spec.after:
            if dependency.when != "ok":
                continue
            if dependency.job in self._ids:
                reason = self._failed.get(dependency.job)
            else:
                reason = self._queue.dependencies.failed(dependency.job)
            if reason is None:
                continue
            for job in self._ids[unit]:
                self.events.append(
                    JobEnded(time_ns=self._now_ns, job=job, state=JobState.FAILED, reason=reason)
                )
            self._failed[unit] = f"dependency: job {self._ids[unit][0]} failed"
            return


def cancel(queue: Queue, ids: Sequence[str], caller: Caller, now_ns: int) -> list[AnyEvent]:
    """Return the events that end jobs: waiting ones at once, running ones are asked to end.

    Jobs that have ended, or were asked before, are passed over.

    Raises
    ------
    Refusal
        If a job is unknown or another user's, or all of them have ended.
    """
    jobs = named_jobs(queue, ids, caller)
    if all(job.state.ended for job in jobs):
        raise Refusal("conflict", _ended(jobs, "cancelled"))
    ends = []
    events: list[AnyEvent] = []
    for job in jobs:
        if job.state is JobState.RUNNING:
            if job.cancelled_by is None:
                events.append(CancelAsked(time_ns=now_ns, by=caller.user, job=job.id))
        elif not job.state.ended:
            events.append(CancelAsked(time_ns=now_ns, by=caller.user, job=job.id))
            ends.append(
                JobEnded(
                    time_ns=now_ns,
                    by=caller.user,
                    job=job.id,
                    state=JobState.CANCELLED,
                    reason=f"cancelled by {caller.user}",
                )
            )
    return [*events, *queue.dependencies.failures(ends)]


def preempt(queue: Queue, ids: Sequence[str], caller: Caller, now_ns: int) -> list[AnyEvent]:
    """Return the events that ask running jobs to save, leave their devices, and wait again.

    Jobs that cannot be preempted now, or were asked before, are passed over.

    Raises
    ------
    Refusal
        If a job is unknown or another user's, or none of them can be preempted.
    """
    jobs = named_jobs(queue, ids, caller)
    reasons = [why_not_preempted(job) for job in jobs]
    if None not in reasons:
        raise Refusal("conflict", f"job {jobs[0].id} {reasons[0]}")
    return [
        PreemptAsked(time_ns=now_ns, by=caller.user, job=job.id, attempt=job.attempts[-1].number)
        for job, reason in zip(jobs, reasons, strict=True)
        if reason is None and job.attempts[-1].preempt_ns is None
    ]


def why_not_preempted(job: ServiceJob) -> str | None:
    """Return why a job cannot be preempted now, as words behind its id; None if it can."""
    if job.state is not JobState.RUNNING:
        return f"is {job.state}; only a running job can be preempted"
    if resume_of(job.spec) is None:
        return "does not say that it can come back; submit it with --resume"
    if job.cancelled_by is not None:
        return "is being cancelled"
    if job.attempts[-1].started_ns is None:
        return "is being started; try again when it runs"
    return None


def hold(queue: Queue, ids: Sequence[str], caller: Caller, now_ns: int) -> list[AnyEvent]:
    """Return the events that hold the waiting ones of these jobs; held ones stay held.

    Raises
    ------
    Refusal
        If a job is unknown or another user's, or none of them waits.
    """
    waiting = _waiting(queue, ids, caller, "held")
    return [
        JobHeld(time_ns=now_ns, by=caller.user, job=job.id)
        for job in waiting
        if job.state is not JobState.HELD
    ]


def release(queue: Queue, ids: Sequence[str], caller: Caller, now_ns: int) -> list[AnyEvent]:
    """Return the events that release the held ones of these jobs; the others stay as they are.

    Raises
    ------
    Refusal
        If a job is unknown or another user's, or none of them waits.
    """
    waiting = _waiting(queue, ids, caller, "released")
    return [
        JobReleased(time_ns=now_ns, by=caller.user, job=job.id)
        for job in waiting
        if job.state is JobState.HELD
    ]


def set_priority(
    queue: Queue, ids: Sequence[str], priority: int, caller: Caller, now_ns: int
) -> list[AnyEvent]:
    """Return the events that give the waiting ones of these jobs another priority.

    Raises
    ------
    Refusal
        If the priority is out of range, a job is unknown or another user's, or none of them waits.
    """
    if abs(priority) > PRIORITY_MOST:
        raise Refusal(
            "wrong",
            f"priority: {priority} is not between -{PRIORITY_MOST:,} and {PRIORITY_MOST:,}",
        )
    waiting = _waiting(queue, ids, caller, "given another priority")
    return [
        PriorityChanged(time_ns=now_ns, by=caller.user, job=job.id, priority=priority)
        for job in waiting
        if job.priority != priority
    ]


def _waiting(queue: Queue, ids: Sequence[str], caller: Caller, what: str) -> list[ServiceJob]:
    jobs = named_jobs(queue, ids, caller)
    waiting = [job for job in jobs if job.state in _WAITING]
    if not waiting:
        raise Refusal("conflict", _ended(jobs, what))
    return waiting


def _ended(jobs: Sequence[ServiceJob], what: str) -> str:
    """Say why no job of these can be changed so."""
    if len(jobs) == 1:
        state = "running" if jobs[0].state is JobState.RUNNING else f"already {jobs[0].state}"
        return f"job {jobs[0].id} is {state} and cannot be {what}"
    return f"none of these {len(jobs)} jobs waits any more, so none can be {what}"


def drain(
    queue: Queue, host: str, device: str | None, reason: str, caller: Caller, now_ns: int
) -> list[AnyEvent]:
    """Return the events after which no job starts on a host, or on one device of it.

    Raises
    ------
    Refusal
        If the caller is no admin, or the host or device is unknown.
    """
    admin_only(caller, "drain a host")
    _known_device(queue, host, device)
    return [Drained(time_ns=now_ns, by=caller.user, host=host, device=device, reason=reason)]


def undrain(
    queue: Queue, host: str, device: str | None, caller: Caller, now_ns: int
) -> list[AnyEvent]:
    """Return the events after which jobs may start on a host and all its devices, or on one device.

    Raises
    ------
    Refusal
        If the caller is no admin, or the host or device is unknown.
    """
    admin_only(caller, "undrain a host")
    _known_device(queue, host, device)
    return [Undrained(time_ns=now_ns, by=caller.user, host=host, device=device)]


def _known_device(queue: Queue, host: str, device: str | None) -> None:
    state = queue.machines.get(host)
    if state is None:
        raise Refusal("unknown", f"host '{host}' is unknown")
    if device is not None and device not in state.devices and device not in state.drained:
        known = ", ".join(state.devices)
        raise Refusal("unknown", f"host {host} has no device '{device}'; it has {known}")


def remove_machine(queue: Queue, host: str, caller: Caller, now_ns: int) -> list[AnyEvent]:
    """Return the events that take a lost host away; its jobs end with it, or are tried again.

    Raises
    ------
    Refusal
        If the caller is no admin, the host is unknown, or its agent answers.
    """
    admin_only(caller, "remove a host")
    _known_device(queue, host, None)
    if queue.machines[host].connected:
        raise Refusal("conflict", f"host {host} is connected; stop its agent first")
    lost = lost_attempts(queue, host, f"host {host} was removed", now_ns)
    return [*attempt_ends(queue, lost), MachineRemoved(time_ns=now_ns, by=caller.user, host=host)]


def set_user(queue: Queue, user: User, caller: Caller, now_ns: int) -> list[AnyEvent]:
    """Return the event that adds or changes a user.

    Raises
    ------
    Refusal
        If the caller is no admin, or the name or weight is wrong.
    """
    admin_only(caller, "set users")
    if not _USER.fullmatch(user.name):
        raise Refusal("wrong", f"user: {user.name!r} may hold letters, digits and . @ + - _ alone")
    for group in user.groups:
        if not _USER.fullmatch(group):
            raise Refusal("wrong", f"group: {group!r} may hold letters, digits and . @ + - _ alone")
    if not 0 < user.weight < math.inf:
        raise Refusal("wrong", f"weight: {user.weight:g} is not above 0")
    return [UserSet(time_ns=now_ns, by=caller.user, user=user)]


def set_notify(queue: Queue, name: str, url: str, caller: Caller, now_ns: int) -> list[AnyEvent]:
    """Return the event that sends notices of a user's jobs to a URL from now on; empty: nowhere.

    Raises
    ------
    Refusal
        If the caller is neither the user nor an admin, or the URL is wrong.
    """
    if caller.user != name:
        admin_only(caller, "set where notices of others go")
    for problem in url_problems(url):
        raise Refusal("wrong", problem)
    changed = msgspec.structs.replace(queue.user(name), notify=url)
    return [UserSet(time_ns=now_ns, by=caller.user, user=changed)]


def remove_user(queue: Queue, name: str, caller: Caller, now_ns: int) -> list[AnyEvent]:
    """Return the event that takes a user's token, groups and weight away.

    Raises
    ------
    Refusal
        If the caller is no admin, or the user is unknown.
    """
    admin_only(caller, "remove users")
    if name not in queue.users:
        raise Refusal("unknown", f"user '{name}' is unknown")
    return [UserRemoved(time_ns=now_ns, by=caller.user, name=name)]


def set_quota(queue: Queue, quota: Quota, caller: Caller, now_ns: int) -> list[AnyEvent]:
    """Return the event that sets a quota; a number of devices below 0 takes it away.

    Raises
    ------
    Refusal
        If the caller is no admin, or the subject or type is wrong.
    """
    admin_only(caller, "set quotas")
    kind, _, name = quota.subject.partition(":")
    if quota.subject != "each" and (kind not in ("user", "group") or not _USER.fullmatch(name)):
        raise Refusal("wrong", f"subject: {quota.subject!r} is not each, user:NAME or group:NAME")
    known = device_types(queue)
    if quota.type not in ("any", "gpu", "cpu", *known) and known and quota.devices >= 0:
        raise Refusal("wrong", f"type: '{quota.type}' is unknown; known: any, {', '.join(known)}")
    return [QuotaSet(time_ns=now_ns, by=caller.user, quota=quota)]
