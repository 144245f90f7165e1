"""What notices say: ends of jobs and warnings for their users, faults of machines for admins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from warren.serve.page.text import duration
from warren.serve.queue.idleness import idle_text
from warren.serve.queue.quarantine import QUARANTINED
from warren.serve.queue.state import Queue
from warren.serve.records.events import AnyEvent, Drained, JobEnded, JobIdle
from warren.serve.records.jobs import JobState, ServiceJob
from warren.serve.records.users import NO_NOTICES


class Notice(NamedTuple):
    """A message to a URL, which is a secret."""

    url: str
    title: str
    body: str


def notices_of(queue: Queue, event: AnyEvent, admins: Sequence[str]) -> Iterator[Notice]:
    """Yield the notices that an event means.

    Parameters
    ----------
    queue
        The queue, which has the event already.
    event
        The event.
    admins
        URLs of the admins.
    """
    match event:
        case JobEnded(job=job_id, state=state) if url := _url_of(queue, queue.jobs[job_id]):
            job = queue.jobs[job_id]
            if state is not JobState.CANCELLED or job.cancelled_by != job.user:
                yield Notice(url, f"{_name(job)} {_ENDS[state]}", _end_text(job))
        case JobIdle(job=job_id, since_ns=int()) if url := _url_of(queue, queue.jobs[job_id]):
            job = queue.jobs[job_id]
            yield Notice(url, f"{_name(job)} does nothing", idle_text(job, event.time_ns))
        case Drained(host=host, device=str(device), by="", reason=reason):
            quarantine = queue.machines[host].quarantined.get(device)
            if reason.startswith(QUARANTINED) and quarantine and quarantine.faults == 1:
                known = queue.machines[host]
                number = known.position.get(device, device)
                back = f"`warren undrain {host} {number}` brings it back."
                if known.machine.tests:
                    back = f"It comes back when it passes a test. {back}"
                body = f"{device}: {reason.removeprefix(QUARANTINED)}. {back}"
                yield from to_admins(admins, f"device {number} of {host} is quarantined", body)
        case _:
            return


def to_admins(admins: Sequence[str], title: str, body: str) -> Iterator[Notice]:
    """Yield a notice for each admin."""
    for url in admins:
        yield Notice(url, title, body)


_ENDS: Final = {
    JobState.FINISHED: "finished",
    JobState.FAILED: "failed",
    JobState.CANCELLED: "was cancelled",
}


def _url_of(queue: Queue, job: ServiceJob) -> str:
    """Return where notices of a job go: where its submission says, else where its user says."""
    url = job.spec.notify or queue.user(job.user).notify
    return "" if url == NO_NOTICES else url


def _name(job: ServiceJob) -> str:
    return f"job {job.id} ({job.spec.name})" if job.spec.name else f"job {job.id}"


def _end_text(job: ServiceJob) -> str:
    attempt = job.attempt
    if attempt is None or attempt.started_ns is None or attempt.ended_ns is None:
        ran = "It never ran."
    else:
        ran_ns = attempt.ended_ns - attempt.started_ns
        where = f"on {attempt.host}. `warren logs {job.id}` shows its output."
        ran = f"It ran for {duration(ran_ns)} {where}"
    return f"{job.reason}. {ran}" if job.reason else ran
