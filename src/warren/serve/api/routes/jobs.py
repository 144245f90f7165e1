"""Routes of jobs: submit, list, show, wait, and what changes them."""

from __future__ import annotations

import time
from typing import Annotated, Final

import msgspec

from warren.serve.api.endpoint import SUBMISSIONS_MAX_BYTES, Call, Route
from warren.serve.api.errors import Failure
from warren.serve.queue import requests
from warren.serve.queue.idleness import extend
from warren.serve.queue.views import JobShown, ServiceJobRow, row
from warren.serve.records.events import AnyEvent
from warren.serve.records.jobs import JobState, Submission

SUBMISSIONS_MAX: Final = 10_000
"""Most submissions in one request."""
WAIT_MAX_S: Final = 3600.0
"""Longest wait of one request in seconds."""


class JobsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which jobs are listed; ``limit`` keeps the newest ones."""

    user: str | None = None
    state: tuple[JobState, ...] = ()
    array: str | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] | None = None


class WaitQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How long a request waits at most."""

    timeout_s: Annotated[float, msgspec.Meta(ge=0, le=WAIT_MAX_S)] = WAIT_MAX_S


class PriorityBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A priority; higher ones start first."""

    priority: int


class ExtendBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """For how long a running job may do nothing from now on, in seconds; None: two hours."""

    time_s: float | None = None


class SubmittedIds(msgspec.Struct, frozen=True):
    """The id of a job or an array that was submitted, and the ids of all its jobs."""

    id: str
    ids: tuple[str, ...]


class JobsChanged(msgspec.Struct, frozen=True):
    """The jobs that a request has changed; those that were so before are not named."""

    ids: list[str]


async def submit_jobs(
    call: Call, body: Submission | list[Submission]
) -> SubmittedIds | list[SubmittedIds]:
    """Submit a job, an array, a sweep, or a list of these, all or none."""
    begun = time.perf_counter()
    many = body if isinstance(body, list) else [body]
    if not 1 <= len(many) <= SUBMISSIONS_MAX:
        raise Failure("wrong", f"a list has 1 to {SUBMISSIONS_MAX} submissions")
    for one in many:
        call.service.check_notify(one.spec.notify)
    done = call.service.ask(
        lambda queue, now: requests.submit(queue, many, call.caller, now), call.caller, "submit"
    )
    call.service.submit_latency.add(time.perf_counter() - begun)
    answers = [SubmittedIds(one.id, one.ids) for one in done.answers]
    return answers if isinstance(body, list) else answers[0]


async def list_jobs(call: Call, query: JobsQuery) -> list[ServiceJobRow]:
    """List jobs in the order in which they were submitted."""
    service, states = call.service, frozenset(query.state)
    found = [
        job
        for job in service.queue.jobs.values()
        if (not states or job.state in states)
        and (query.user is None or job.user == query.user)
        and (query.array is None or job.array == query.array)
    ]
    if query.limit is not None:
        found = found[-query.limit :]
    queue, now, order = service.queue, service.now_ns, service.daemon.order
    return [row(queue, job, now, order) for job in found]


async def show_job(call: Call, job: str) -> JobShown:
    """Show a job; to its user and to admins with its command, folder and environment."""
    return await call.service.shown(call.service.job(job, call.caller), call.caller)


async def wait_for_job(call: Call, job: str, query: WaitQuery) -> JobShown:
    """Show a job once it has ended, or as it is when the time is over."""
    service = call.service
    id_ = service.job(job, call.caller).id
    # The queue is read again each time: it may be another one after an error of the disk.
    await service.until(lambda: service.queue.jobs[id_].state.ended, query.timeout_s, call.request)
    return await show_job(call, id_)


async def cancel_job(call: Call, job: str) -> JobsChanged:
    """Cancel a job or an array; a running command gets SIGTERM, and SIGKILL after its grace."""
    return _changed(call, "cancel", job)


async def preempt_job(call: Call, job: str) -> JobsChanged:
    """Ask a running job to save and leave its devices; it waits for devices again."""
    return _changed(call, "preempt", job)


async def hold_job(call: Call, job: str) -> JobsChanged:
    """Hold a waiting job or the waiting jobs of an array."""
    return _changed(call, "hold", job)


async def release_job(call: Call, job: str) -> JobsChanged:
    """Release a held job or the held jobs of an array."""
    return _changed(call, "release", job)


async def set_job_priority(call: Call, job: str, body: PriorityBody) -> JobsChanged:
    """Change the priority of a job that has not started."""
    return _changed(call, "set_priority", job, body.priority)


async def extend_job(call: Call, job: str, body: ExtendBody) -> JobsChanged:
    """Let a running job do nothing for some time, without being ended for it."""
    events = call.service.ask(
        lambda queue, now: extend(queue, [job], body.time_s, call.caller, now),
        call.caller, f"extend job {job}",
    )  # fmt: skip
    return _ids_of(events)


def _changed(call: Call, name: str, job: str, *more: int) -> JobsChanged:
    change = getattr(requests, name)
    events: list[AnyEvent] = call.service.ask(
        lambda queue, now: change(queue, [job], *more, call.caller, now),
        call.caller, f"{name.replace('_', ' ')} of job {job}",
    )  # fmt: skip
    return _ids_of(events)


def _ids_of(events: list[AnyEvent]) -> JobsChanged:
    return JobsChanged(list(dict.fromkeys(event.job for event in events if hasattr(event, "job"))))


ROUTES: Final = (
    Route("POST", "/v1/jobs", submit_jobs, 201, body_max_bytes=SUBMISSIONS_MAX_BYTES),
    Route("GET", "/v1/jobs", list_jobs),
    Route("GET", "/v1/jobs/{job}", show_job),
    Route("GET", "/v1/jobs/{job}/wait", wait_for_job),
    Route("POST", "/v1/jobs/{job}/cancel", cancel_job),
    Route("POST", "/v1/jobs/{job}/preempt", preempt_job),
    Route("POST", "/v1/jobs/{job}/hold", hold_job),
    Route("POST", "/v1/jobs/{job}/release", release_job),
    Route("POST", "/v1/jobs/{job}/priority", set_job_priority),
    Route("POST", "/v1/jobs/{job}/extend", extend_job),
)
"""Routes of jobs."""
