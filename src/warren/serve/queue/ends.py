"""What the end of an attempt means for its job: an end, or another attempt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from warren.model.units import NS_PER_S
from warren.serve.queue.state import Queue
from warren.serve.records.events import AnyEvent, AttemptEnded, JobEnded
from warren.serve.records.jobs import NO_STRIKE, Attempt, JobState, ServiceJob
from warren.serve.records.xid import blames_hardware, xid

START_TRIES: Final = 3
"""Attempts in a row that never ran, after which a job fails."""
FAULT_TRIES: Final = 3
"""Attempts ended by faults of devices that do not count as failures of a job."""
REQUEUE_TRIES: Final = 10
"""Short attempts in a row that asked to be started again, after which a job fails."""
REQUEUE_SHORT_S: Final = 10.0
"""Running time below which an attempt that asked to be started again is short, in seconds."""


def attempt_ends(queue: Queue, attempts: Sequence[AttemptEnded]) -> list[AnyEvent]:
    """Return the ends of attempts, with the ends of jobs that follow from them.

    A job that failed while it ran is tried again up to ``retries`` times, but not after its time
    limit, once it was cancelled, or ended since it did nothing. An attempt that never ran counts
    for nothing: the job waits again, and fails after ``START_TRIES`` attempts of this kind in a
    row. A job that was preempted, or asked to be started again, waits again, and nothing is
    counted. Of a job with retries, the first ``FAULT_TRIES`` attempts that a fault of a GPU has
    ended do not count.
    """
    ends = (_job_end(queue.jobs[ended.job], ended) for ended in attempts)
    return [*attempts, *queue.dependencies.failures(end for end in ends if end is not None)]


def lost_attempts(queue: Queue, host: str, reason: str, now_ns: int) -> list[AttemptEnded]:
    """Return the ends of all attempts on a host, which are over for a reason of the host."""
    return [
        AttemptEnded(
            time_ns=now_ns,
            job=job,
            attempt=queue.jobs[job].attempts[-1].number,
            cause="host",
            reason=reason,
        )
        for job in queue.machines[host].attempts
    ]


def _job_end(job: ServiceJob, ended: AttemptEnded) -> JobEnded | None:
    """Return the end of a job after an attempt; None if it is tried again."""
    if ended.cause == "exit" and ended.exit_code == 0:
        return _end(ended, JobState.FINISHED, "")
    if job.cancelled_by is not None or ended.cause == "cancel":
        by = f" by {job.cancelled_by}" if job.cancelled_by else ""
        return _end(ended, JobState.CANCELLED, f"cancelled{by}")
    if ended.cause == "preempt":
        return None
    if ended.cause == "requeue":
        return _requeued_in_vain(job, ended)
    reason = reason_of(job, ended)
    if not ended.ran:
        tries = 1
        for attempt in reversed(job.attempts[:-1]):
            if attempt.ran:
                break
            tries += 1
        return None if tries < START_TRIES else _end(ended, JobState.FAILED, reason)
    failures = 1 + sum(one.ran and one.cause not in NO_STRIKE for one in job.attempts[:-1])
    ends = [
        *((one.cause, one.xid) for one in job.attempts[:-1]),
        (ended.cause, job.attempts[-1].xid),
    ]
    faults = sum(cause == "host" and blames_hardware(number) for cause, number in ends)
    if job.spec.retries:
        failures -= min(faults, FAULT_TRIES)
    if ended.cause not in ("time", "idle") and failures <= job.spec.retries:
        return None
    return _end(ended, JobState.FAILED, reason)


def _requeued_in_vain(job: ServiceJob, ended: AttemptEnded) -> JobEnded | None:
    """Return the end of a job that asks to be started again whenever it was; else None."""
    last, *before = reversed(job.attempts)
    short = _ran_s(last, ended.time_ns) < REQUEUE_SHORT_S
    tries = 1
    for one in before:
        if one.cause != "requeue" or _ran_s(one, one.ended_ns or 0) >= REQUEUE_SHORT_S:
            break
        tries += 1
    if not short or tries < REQUEUE_TRIES:
        return None
    reason = f"asked to be started again {tries} times, each within {REQUEUE_SHORT_S:g} s"
    return _end(ended, JobState.FAILED, reason)


def _ran_s(attempt: Attempt, end_ns: int) -> float:
    return (end_ns - (attempt.started_ns or attempt.begun_ns)) / NS_PER_S


def _end(ended: AttemptEnded, state: JobState, reason: str) -> JobEnded:
    return JobEnded(time_ns=ended.time_ns, job=ended.job, state=state, reason=reason)


def reason_of(job: ServiceJob, ended: AttemptEnded) -> str:
    """Say in a few words why an attempt failed."""
    match ended.cause:
        case "time":
            return f"time limit of {job.spec.time_limit_s or 0:g} s"
        case "memory":
            return f"memory limit of {job.spec.memory_bytes or 0:,} bytes"
        case "start":
            return f"could not be started: {ended.reason or 'no reason given'}"
        case "host":
            return ended.reason or "its host was lost"
        case "idle":
            return ended.reason
        case _:
            return _with_xid(job, _exit(ended))


def _exit(ended: AttemptEnded) -> str:
    if ended.signal is not None:
        return f"signal {ended.signal}"
    return f"exit code {ended.exit_code}" if ended.exit_code is not None else ended.reason


def _with_xid(job: ServiceJob, reason: str) -> str:
    """Return a reason after the error that the driver of the job's GPUs has reported, if any."""
    number = job.attempts[-1].xid
    return reason if number is None else f"{xid(number)}; {reason}"
