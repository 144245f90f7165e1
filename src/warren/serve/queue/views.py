"""Rows and pages of jobs, as people and scripts read them."""

from __future__ import annotations

import msgspec

from warren.model.units import NS_PER_S
from warren.serve.queue.state import Queue
from warren.serve.records.jobs import Attempt, Dependency, JobState, Resume, ServiceJob
from warren.serve.records.users import Caller
from warren.serve.schedule.decide import Order
from warren.serve.schedule.reasons import expected_start_ns, preempted, why


class ServiceJobRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A job in the list of the queue. Times are seconds since 1970, or None.

    ``reason`` says why the job waits (a code, a colon and the evidence), or why it ended.
    ``expected_s`` is when a waiting job is expected to start, where that can be known;
    ``devices_wanted`` is a number, ``device_type`` the type or kind asked for.
    """

    id: str
    name: str
    user: str
    state: JobState
    reason: str
    submitted_s: float
    started_s: float | None
    ended_s: float | None
    expected_s: float | None
    priority: int
    array: str | None
    devices_wanted: int
    device_type: str | None
    host: str | None
    attempt: int


class AttemptShown(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt of a job. Times are seconds since 1970, or None.

    ``preempted_s`` is when it was asked to leave its devices, ``preempted_why`` the reason, and
    ``preempted_for`` the job that was to have them. ``saved`` says whether it saved then:
    ``save_s`` seconds later, or else ``lost_s`` seconds of its work are lost.
    """

    number: int
    host: str
    devices: tuple[str, ...]
    begun_s: float
    started_s: float | None
    ended_s: float | None
    exit_code: int | None
    signal: int | None
    cause: str
    reason: str
    saved: bool | None
    save_s: float | None
    lost_s: float | None
    preempted_s: float | None
    preempted_by: str
    preempted_why: str
    preempted_for: str | None


class JobShown(ServiceJobRow, frozen=True, kw_only=True, gc=True):
    """All of a job. For other users ``command``, ``folder`` and ``environment`` are None.

    ``devices`` are the ids that the last attempt was given; ``log`` is the place of its output,
    which the daemon fills in, as it does what is expected: a time, and the two times between which
    it lies with a probability of 80 %. ``starts_held`` says of how many of the last starts the
    interval held, and of how many it is known.
    ``notify`` is the scheme of the URL of its notices, a secret.
    """

    exit_code: int | None
    devices: tuple[str, ...]
    log: str
    command: tuple[str, ...] | None
    folder: str | None
    share: bool
    time_limit_s: float | None
    memory_bytes: int | None
    after: tuple[Dependency, ...]
    retries: int
    grace_s: float
    resume: Resume | None
    cancelled_by: str | None
    attempts: tuple[AttemptShown, ...]
    environment: dict[str, str] | None
    notify: str | None
    expected_start_s: float | None = None
    expected_start_80_s: tuple[float, float] | None = None
    expected_end_s: float | None = None
    expected_end_80_s: tuple[float, float] | None = None
    starts_held: tuple[int, int] | None = None


def row(
    queue: Queue,
    job: ServiceJob,
    now_ns: int,
    order: Order = "strict",
) -> ServiceJobRow:
    """Return the row of a job in the list of the queue."""
    spec, attempt, ended = job.spec, job.attempt, job.ended_ns
    expected_ns = expected_start_ns(queue, job, now_ns, order)
    return ServiceJobRow(
        id=job.id,
        name=spec.name,
        user=job.user,
        state=job.state,
        reason=job.reason if ended is not None else str(why(queue, job, now_ns, order)),
        submitted_s=job.submitted_ns / NS_PER_S,
        started_s=_seconds(attempt.started_ns) if attempt else None,
        ended_s=_seconds(ended),
        expected_s=_seconds(expected_ns),
        priority=job.priority,
        array=job.array,
        devices_wanted=spec.devices,
        device_type=spec.device_type,
        host=attempt.host if attempt else None,
        attempt=attempt.number if attempt else 0,
    )


def shown(
    queue: Queue,
    job: ServiceJob,
    caller: Caller,
    now_ns: int,
    order: Order = "strict",
) -> JobShown:
    """Return all of a job that a caller may see: what runs where is for its owner and admins."""
    spec, attempt = job.spec, job.attempt
    may_see = caller.user == job.user or caller.role == "admin"
    return JobShown(
        **msgspec.structs.asdict(row(queue, job, now_ns, order)),
        exit_code=attempt.exit_code if attempt else None,
        devices=attempt.devices if attempt else (),
        log="",
        command=spec.command if may_see else None,
        folder=spec.folder if may_see else None,
        share=spec.share,
        time_limit_s=spec.time_limit_s,
        memory_bytes=spec.memory_bytes,
        after=spec.after,
        retries=spec.retries,
        grace_s=spec.grace_s,
        resume=spec.resume,
        cancelled_by=job.cancelled_by,
        attempts=tuple(_attempt(one) for one in job.attempts),
        environment=spec.environment if may_see else None,
        notify=(spec.notify.partition("://")[0] or None) if may_see else None,
    )


def _attempt(attempt: Attempt) -> AttemptShown:
    return AttemptShown(
        number=attempt.number,
        host=attempt.host,
        devices=attempt.devices,
        begun_s=attempt.begun_ns / NS_PER_S,
        started_s=_seconds(attempt.started_ns),
        ended_s=_seconds(attempt.ended_ns),
        exit_code=attempt.exit_code,
        signal=attempt.signal,
        cause=attempt.cause,
        reason=attempt.reason or preempted_text(attempt),
        saved=attempt.saved,
        save_s=attempt.save_s,
        lost_s=attempt.lost_s,
        preempted_s=_seconds(attempt.preempt_ns),
        preempted_by=attempt.preempt_by,
        preempted_why=attempt.preempt_reason,
        preempted_for=attempt.preempt_for,
    )


def _seconds(time_ns: int | None) -> float | None:
    return None if time_ns is None else time_ns / NS_PER_S


def preempted_text(attempt: Attempt) -> str:
    """Say what became of an attempt that was preempted, or asked to be started again."""
    if attempt.cause == "requeue":
        return "asked to be started again"
    return preempted(attempt) if attempt.cause == "preempt" else ""
