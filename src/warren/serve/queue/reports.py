"""Reports of hosts become events. A report that comes again means nothing new."""

from __future__ import annotations

from typing import Final

from warren.serve.hosts.port import (
    AgentJoined,
    AgentLost,
    AttemptIdle,
    CommandEnded,
    CommandStarted,
    DevicesSeen,
    DeviceTested,
    Report,
    XidSeen,
)
from warren.serve.queue.ends import attempt_ends
from warren.serve.queue.idleness import idle_events
from warren.serve.queue.quarantine import first_tests, tested_events, xid_events
from warren.serve.queue.state import Queue
from warren.serve.records.events import (
    AnyEvent,
    AttemptEnded,
    AttemptStarted,
    DevicesUsed,
    MachineJoined,
    MachineLost,
)
from warren.serve.records.jobs import EndCause, JobState, ServiceJob, attempt_id
from warren.serve.records.xid import blames_hardware, xid

REQUEUE_CODES: Final = (75, 85, 99)
"""Exit codes that ask for another start: EX_TEMPFAIL, and those of HTCondor and Grid Engine."""


def events_of(queue: Queue, report: Report, now_ns: int) -> list[AnyEvent]:
    """Return the events that a report means.

    Once they are on disk, a host may forget an attempt whose end it has reported, where the attempt
    has ended in the queue (``forgettable``). A host that has joined is to start the attempts of its
    ``MachineState.attempts`` that it has no record of. It is to stop the attempts that it has a
    record of and that have ended in the queue.
    """
    match report:
        case AgentJoined():
            return _joined(queue, report, now_ns)
        case AgentLost():
            state = queue.machines.get(report.host)
            if state is None or not state.connected:
                return []
            return [MachineLost(time_ns=now_ns, host=report.host, reason=report.reason)]
        case CommandStarted():
            return _started(queue, report)
        case CommandEnded():
            return _ended(queue, report)
        case DevicesSeen():
            return _seen(queue, report, now_ns)
        case AttemptIdle():
            return idle_events(_under_way(queue, report.host, report.attempt), report, now_ns)
        case XidSeen():
            return xid_events(queue, report, now_ns)
        case DeviceTested():
            return tested_events(queue, report, now_ns)


def forgettable(queue: Queue, attempt: str) -> bool:
    """Tell whether the end of an attempt is known, so that its host may forget it."""
    job_id, number = split(attempt)
    job = queue.jobs.get(job_id)
    if job is None or not 1 <= number <= len(job.attempts):
        return False
    return job.attempts[number - 1].ended_ns is not None


def _joined(queue: Queue, report: AgentJoined, now_ns: int) -> list[AnyEvent]:
    name = report.machine.name
    joined = MachineJoined(time_ns=now_ns, machine=report.machine)
    state = queue.machines.get(name)
    tests = first_tests(state, report.machine, now_ns)
    if state is None:
        return [joined, *tests]
    again = state.machine.boot_id != report.machine.boot_id
    recorded = frozenset(report.attempts)
    ended = [
        _unrecorded(job, again, now_ns)
        for job in map(queue.jobs.__getitem__, state.attempts)
        if attempt_id(job.id, job.attempts[-1].number) not in recorded
    ]
    return [joined, *tests, *attempt_ends(queue, [one for one in ended if one is not None])]


def _unrecorded(job: ServiceJob, again: bool, now_ns: int) -> AttemptEnded | None:
    """Return the end of an attempt of which its host has no record; None if it is to start yet.

    The order may never have reached a host that has been up since: it is sent again then.
    """
    attempt = job.attempts[-1]
    if again or attempt.started_ns is not None:
        what = "started again" if again else "has no record of it any more"
        return AttemptEnded(
            time_ns=now_ns,
            job=job.id,
            attempt=attempt.number,
            cause="host",
            reason=f"host {attempt.host} {what}",
        )
    if job.cancelled_by is not None:
        return AttemptEnded(
            time_ns=now_ns, job=job.id, attempt=attempt.number, cause="cancel", ran=False
        )
    return None


def _started(queue: Queue, report: CommandStarted) -> list[AnyEvent]:
    job = _under_way(queue, report.host, report.attempt)
    if job is None or job.attempts[-1].started_ns is not None:
        return []
    number = job.attempts[-1].number
    return [AttemptStarted(time_ns=report.time_ns, job=job.id, attempt=number)]


def _ended(queue: Queue, report: CommandEnded) -> list[AnyEvent]:
    job = _under_way(queue, report.host, report.attempt)
    if job is None:
        return []
    cause = _cause(job, report)
    ended = AttemptEnded(
        time_ns=report.time_ns,
        job=job.id,
        attempt=job.attempts[-1].number,
        cause=cause,
        exit_code=report.exit_code,
        signal=report.signal,
        reason=_reason(job, cause, report),
        ran=report.ran,
        saved=report.saved,
        save_s=report.save_s,
        lost_s=report.lost_s,
    )
    return attempt_ends(queue, [ended])


def _cause(job: ServiceJob, report: CommandEnded) -> EndCause:
    """Return why an attempt ended: what its host says means more than its host knows.

    An agent of an earlier version takes a preemption for a cancel.
    """
    if report.cause == "exit" and report.exit_code in REQUEUE_CODES:
        return "requeue"
    is_failure = report.cause == "exit" and report.exit_code != 0
    if is_failure and blames_hardware(job.attempts[-1].xid):
        return "host"
    if report.cause == "cancel" and job.cancelled_by is None and job.idle.end_reason:
        return "idle"
    asked = job.attempts[-1].preempt_ns is not None
    if report.cause == "cancel" and job.cancelled_by is None and asked:
        return "preempt"
    return report.cause


def _reason(job: ServiceJob, cause: EndCause, report: CommandEnded) -> str:
    """Return why an attempt ended, in a few words, where its host does not know it."""
    number = job.attempts[-1].xid
    if cause == "idle":
        return job.idle.end_reason
    if cause == "host" and report.cause == "exit" and number is not None:
        return str(xid(number))
    return report.reason


def _under_way(queue: Queue, host: str, attempt: str) -> ServiceJob | None:
    """Return the job of an attempt that the queue believes to be under way on a host."""
    job_id, number = split(attempt)
    job = queue.jobs.get(job_id)
    if job is None or job.state is not JobState.RUNNING:
        return None
    last = job.attempts[-1]
    return job if last.number == number and last.host == host else None


def _seen(queue: Queue, report: DevicesSeen, now_ns: int) -> list[AnyEvent]:
    state = queue.machines.get(report.host)
    if state is None:
        return []
    before = {name: use.foreign for name, use in state.uses.items() if use.foreign}
    now = {use.id: use.foreign for use in report.devices if use.foreign}
    if before == now:
        return []
    return [DevicesUsed(time_ns=now_ns, host=report.host, devices=report.devices)]


def split(attempt: str) -> tuple[str, int]:
    """Return the job and the number in the name of an attempt; 0 where it has no number."""
    job, _, number = attempt.rpartition(".")
    return job, int(number) if number.isdecimal() else 0
