"""Orders to hosts that follow from the queue: attempts to start or to stop, to be sent again, too.

All may be repeated: a host starts an attempt at most once, and stops what it is stopping already.
"""

from __future__ import annotations

from typing import NamedTuple

from warren.serve.hosts.port import AgentJoined, CommandEnded, StartOrder
from warren.serve.queue.reports import split
from warren.serve.queue.state import Queue
from warren.serve.records.jobs import ServiceJob, attempt_id


class StopRequest(NamedTuple):
    """An attempt that its host is to end."""

    attempt: str
    grace_s: float


def start_order(job: ServiceJob) -> StartOrder:
    """Return the order that starts the last attempt of a job, as the agent's own account."""
    attempt = job.attempts[-1]
    spec = job.spec
    name = attempt_id(job.id, attempt.number)
    variables = {
        "WARREN_JOB_ID": job.id,
        "WARREN_ATTEMPT": str(attempt.number),
        "WARREN_ATTEMPT_ID": name,
    }
    if job.array is not None:
        variables["WARREN_ARRAY_ID"] = job.array
        variables["WARREN_ARRAY_INDEX"] = job.id.rpartition("_")[2]
    return StartOrder(
        attempt=name,
        command=spec.command,
        folder=spec.folder,
        environment={**spec.environment, **variables},
        devices=attempt.devices,
        time_limit_s=spec.time_limit_s,
        memory_bytes=spec.memory_bytes,
        grace_s=spec.grace_s,
    )


def starts(queue: Queue, host: str) -> list[StartOrder]:
    """Return the orders for attempts that a host has been given and has not reported as started.

    To be sent when its agent has connected, after ``events_of`` its report has been applied.
    """
    jobs = (queue.jobs[one] for one in queue.machines[host].attempts)
    return [
        start_order(job)
        for job in jobs
        if job.attempts[-1].started_ns is None and job.cancelled_by is None
    ]


def stops(queue: Queue, host: str, recorded: tuple[str, ...] = ()) -> list[StopRequest]:
    """Return the attempts that a host is to end.

    Parameters
    ----------
    queue
        The queue, to which the events of the host's report have been applied.
    host
        The host.
    recorded
        Attempts that the host has a record of. Those that the queue counts as ended, as the host
        was taken away, may still run there.
    """
    found = {}
    for one in queue.machines[host].attempts:
        job = queue.jobs[one]
        if job.cancelled_by is not None:
            found[attempt_id(job.id, job.attempts[-1].number)] = job.spec.grace_s
    for name in recorded:
        job_id, number = split(name)
        if _has_ended(queue.jobs.get(job_id), number):
            found[name] = queue.jobs[job_id].spec.grace_s
    return [StopRequest(*pair) for pair in found.items()]


def forgets(queue: Queue, report: CommandEnded | AgentJoined) -> list[str]:
    """Return the attempts of which a host may delete the record, once the report is on disk.

    Only a report of an end lets an attempt be forgotten: hosts repeat it until then. An attempt
    that the queue does not know is not named: its record is kept for a person to look at.
    """
    if isinstance(report, AgentJoined):
        return []
    job_id, number = split(report.attempt)
    return [report.attempt] if _has_ended(queue.jobs.get(job_id), number) else []


def _has_ended(job: ServiceJob | None, number: int) -> bool:
    if job is None or not 1 <= number <= len(job.attempts):
        return False
    return job.attempts[number - 1].ended_ns is not None
