"""How long jobs run on, and the forecasts that follow from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from warren.model.units import NS_PER_S
from warren.serve.records.jobs import ServiceJob, resume_of

STARTS_MOST: Final = 2_000
"""Most jobs whose start is looked for; of jobs behind them nothing is known."""
OVERDUE_S: Final = 1.0
"""Time that a job is expected to run on when its limit has passed, in seconds."""

Remaining: TypeAlias = Callable[[ServiceJob, float], float | None]
"""Returns the seconds that a job is expected to run on, of the job and the seconds that it has run;
None: it never ends."""


class JobForecast(NamedTuple):
    """When a job is expected to start and to end, in ns since 1970; None: never, or not known."""

    begin_ns: int | None
    end_ns: int | None


NOTHING_KNOWN: Final = JobForecast(None, None)
"""The forecast of a job that is not expected to start, as far as that was looked at."""


def by_limits(job: ServiceJob, ran_s: float) -> float | None:
    """Return how long a job may run on by its stated limit, in seconds; None without a limit."""
    limit_s = job.spec.time_limit_s
    return None if limit_s is None else max(OVERDUE_S, limit_s - ran_s)


def expected_end_ns(job: ServiceJob, now_ns: int, remaining_s: Remaining) -> int | None:
    """Return when a running job leaves its devices; if it was asked to, within its grace."""
    attempt = job.attempts[-1]
    ran_ns = 0 if attempt.started_ns is None else max(0, now_ns - attempt.started_ns)
    left_s = remaining_s(job, ran_ns / NS_PER_S)
    grace_s = None
    if job.cancelled_by is not None:
        grace_s = job.spec.grace_s
    elif attempt.preempt_ns is not None and (resume := resume_of(job.spec)) is not None:
        asked_s = (now_ns - attempt.preempt_ns) / NS_PER_S
        grace_s = max(OVERDUE_S, resume.grace_s - asked_s)
    if grace_s is not None:
        left_s = grace_s if left_s is None else min(grace_s, left_s)
    return after(now_ns, left_s)


def after(time_ns: int, length_s: float | None) -> int | None:
    """Return the end of a length of time; None where it has none."""
    return None if length_s is None else time_ns + max(1, round(length_s * NS_PER_S))
