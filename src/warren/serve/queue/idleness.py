"""Jobs that hold devices and do nothing: a warning, more time on demand, then an end.

Hosts report jobs whose devices have done nothing for the whole window (``warren serve --idle``).
Such a job is warned: it ends ``GRACE_S`` later, unless it works again, or its user extends it. An
extended job is left alone until then; if it does nothing after that, it is warned again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from warren.model.units import NS_PER_S
from warren.serve.hosts.port import AttemptIdle
from warren.serve.page.text import duration
from warren.serve.queue.refusals import Refusal, named_jobs
from warren.serve.queue.state import Queue
from warren.serve.records.events import AnyEvent, IdleEndAsked, JobExtended, JobIdle
from warren.serve.records.jobs import JobState, ServiceJob, attempt_id
from warren.serve.records.users import Caller

GRACE_S: Final = 3600.0
"""Time between the warning of a job and its end, in seconds."""
EXTEND_S: Final = 2 * 3600.0
"""Time by which a job is extended where none is named, in seconds."""
EXTEND_MOST_S: Final = 7 * 86_400.0
"""Longest time by which a job is extended at once, in seconds."""


def idle_events(job: ServiceJob | None, report: AttemptIdle, now_ns: int) -> list[AnyEvent]:
    """Return what a report means: a warning, the end of one, or nothing new.

    Parameters
    ----------
    job
        The job whose attempt is under way on the host; None: there is none.
    report
        The report.
    now_ns
        The present, in nanoseconds since 1970.
    """
    if job is None or job.idle.end_reason or now_ns < job.idle.extended_ns:
        return []
    if (job.idle.since_ns is None) == (report.since_ns is None):
        return []
    number = job.attempts[-1].number
    if report.since_ns is None:
        return [JobIdle(time_ns=now_ns, job=job.id, attempt=number)]
    ends_ns = now_ns + int(GRACE_S * NS_PER_S)
    return [
        JobIdle(
            time_ns=now_ns, job=job.id, attempt=number, since_ns=report.since_ns, ends_ns=ends_ns
        )
    ]


def idle_ends(queue: Queue, idles: Callable[[str], bool], now_ns: int) -> list[AnyEvent]:
    """Return the ends of jobs that have done nothing since their warning.

    Parameters
    ----------
    queue
        The queue.
    idles
        Tells whether an attempt, by its name, does nothing at this very time.
    now_ns
        The present, in nanoseconds since 1970.
    """
    found: list[AnyEvent] = []
    for job in map(queue.jobs.__getitem__, queue.running):
        idle, number = job.idle, job.attempts[-1].number
        if (
            idle.since_ns is None
            or idle.ends_ns is None
            or now_ns < idle.ends_ns
            or idle.end_reason
            or job.cancelled_by is not None
            or job.attempts[-1].preempt_ns is not None
            or not idles(attempt_id(job.id, number))
        ):
            continue
        reason = f"idle: {_devices(queue, job)} did nothing for {duration(now_ns - idle.since_ns)}"
        found.append(IdleEndAsked(time_ns=now_ns, job=job.id, attempt=number, reason=reason))
    return found


def no_longer_watched(queue: Queue, now_ns: int) -> list[AnyEvent]:
    """Return the events that take all warnings back: the service ends idle jobs no more."""
    return [
        JobIdle(time_ns=now_ns, job=job.id, attempt=job.attempts[-1].number)
        for job in map(queue.jobs.__getitem__, queue.running)
        if job.idle.since_ns is not None
    ]


def extend(
    queue: Queue, ids: Sequence[str], time_s: float | None, caller: Caller, now_ns: int
) -> list[AnyEvent]:
    """Return the events that let running jobs do nothing for some time from now on.

    Parameters
    ----------
    queue
        The queue.
    ids
        Ids or names of jobs; those that do not run are passed over.
    time_s
        For how long, in seconds; None: ``EXTEND_S``.
    caller
        The user that asks.
    now_ns
        The present, in nanoseconds since 1970.

    Raises
    ------
    Refusal
        If the time is out of range, a job is unknown or another user's, or none of them runs.
    """
    wanted_s = EXTEND_S if time_s is None else time_s
    if not 0 < wanted_s <= EXTEND_MOST_S:
        raise Refusal("wrong", "time: must be above 0 and at most 7 d")
    jobs = named_jobs(queue, ids, caller)
    running = [job for job in jobs if job.state is JobState.RUNNING and not job.idle.end_reason]
    if not running:
        state = "being ended" if jobs[0].state is JobState.RUNNING else jobs[0].state
        what = f"job {jobs[0].id} is {state}" if len(jobs) == 1 else "none of these jobs runs"
        raise Refusal("conflict", f"{what}; only a running job can be extended")
    until_ns = now_ns + int(wanted_s * NS_PER_S)
    return [
        JobExtended(time_ns=now_ns, by=caller.user, job=job.id, until_ns=until_ns)
        for job in running
    ]


def idle_text(job: ServiceJob, now_ns: int) -> str:
    """Return what users read about a running job that does nothing; empty if it works."""
    idle = job.idle
    if idle.end_reason:
        return f"{idle.end_reason}; it is being ended"
    if idle.since_ns is None or idle.ends_ns is None:
        return ""
    return (
        f"idle: it has done nothing for {duration(now_ns - idle.since_ns)}; it is ended in "
        f"{duration(idle.ends_ns - now_ns)} unless it works again, or 'warren extend {job.id}'"
    )


def _devices(queue: Queue, job: ServiceJob) -> str:
    """Return what did nothing, in words."""
    is_gpu = any(held.kind == "gpu" for held in queue.running[job.id])
    several = len(job.attempts[-1].devices) > 1
    return f"its {'GPU' if is_gpu else 'processor'}{'s' if several else ''}"
