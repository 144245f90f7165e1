"""What the end of an attempt means for its job: an end, or another attempt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from warren.serve.queue.state import Queue
from warren.serve.records.events import AnyEvent, AttemptEnded, JobEnded
from warren.serve.records.jobs import JobState, ServiceJob

START_TRIES: Final = 3
"""Attempts in a row that never ran, after which a job fails."""


def attempt_ends(queue: Queue, attempts: Sequence[AttemptEnded]) -> list[AnyEvent]:
    """Return the ends of attempts, with the ends of jobs that follow from them.

    A job that failed while it ran is tried again up to ``retries`` times, but not after its time
    limit or once it was cancelled. An attempt that never ran counts for nothing: the job waits
    again, and fails after ``START_TRIES`` attempts of this kind in a row.
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
    reason = reason_of(job, ended)
    if not ended.ran:
        tries = 1
        for attempt in reversed(job.attempts[:-1]):
            if attempt.ran:
                break
            tries += 1
        return None if tries < START_TRIES else _end(ended, JobState.FAILED, reason)
    failures = 1 + sum(attempt.ran for attempt in job.attempts[:-1])
    if ended.cause != "time" and failures <= job.spec.retries:
        return None
    return _end(ended, JobState.FAILED, reason)


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
        case _:
            if ended.signal is not None:
                return f"signal {ended.signal}"
            return f"exit code {ended.exit_code}" if ended.exit_code is not None else ended.reason
