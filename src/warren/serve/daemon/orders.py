"""Orders to hosts, made of the queue: what a command gets to run with."""

from __future__ import annotations

from warren.serve.hosts.port import StartOrder
from warren.serve.records.jobs import Attempt, ServiceJob, attempt_id
from warren.serve.resume.variables import resume_variables


def start_order(
    job: ServiceJob, attempt: Attempt, account: str | None, log_limit_bytes: int | None = None
) -> StartOrder:
    """Return the order that starts an attempt.

    Parameters
    ----------
    job
        The job; its environment is that of its submission.
    attempt
        The attempt, with its devices.
    account
        The account of the machine that the command runs as; None: that of the agent.
    log_limit_bytes
        Most bytes of its log on disk; None: no limit.
    """
    spec = job.spec
    name = attempt_id(job.id, attempt.number)
    return StartOrder(
        attempt=name,
        command=spec.command,
        folder=spec.folder,
        environment={
            **resume_variables(job, attempt),
            "WARREN_JOB_ID": job.id,
            "WARREN_ATTEMPT": str(attempt.number),
            "WARREN_ATTEMPT_ID": name,
            **_array_variables(job),
        },
        devices=attempt.devices,
        account=account,
        time_limit_s=spec.time_limit_s,
        memory_bytes=spec.memory_bytes,
        grace_s=spec.grace_s,
        resume=spec.resume,
        log_limit_bytes=log_limit_bytes,
    )


def _array_variables(job: ServiceJob) -> dict[str, str]:
    """Return what a job of an array or sweep gets: the array's id, and its place in it."""
    if job.array is None:
        return {}
    return {"WARREN_ARRAY_ID": job.array, "WARREN_ARRAY_INDEX": job.id.rpartition("_")[2]}
