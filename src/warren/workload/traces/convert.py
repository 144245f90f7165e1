"""Write a trace as ``jobs.csv``, with the cost rows that its jobs name."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from warren.model.job import Job
from warren.model.units import NS_PER_S

COLUMNS = ("job", "arrival_s", "model", "batch", "scale", "rounds", "weight", "user", "group")


def jobs_csv(jobs: Iterable[Job]) -> str:
    """Return the text of a jobs file with these jobs, in order of arrival.

    ``model`` is the row of costs where a job has one of its own: the table has no column for it.
    """
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    # Equal arrivals stay in the order of the trace.
    for job in sorted(jobs, key=lambda one: (one.arrival_ns, one.index)):
        writer.writerow(_cells(job))
    return text.getvalue()


def _cells(job: Job) -> Sequence[object]:
    """Return the cells of one job, in the order of ``COLUMNS``."""
    rounds = "" if job.rounds is None else job.rounds
    model = job.cost or job.model or ""
    # The short form where it reads back equal, else every digit.
    weight = f"{job.weight:g}" if float(f"{job.weight:g}") == job.weight else repr(job.weight)
    arrival = _seconds(job.arrival_ns)
    return (job.name, arrival, model, job.batch, job.scale, rounds, weight, job.user, job.group)


def _seconds(time_ns: int) -> str:
    """Return a time as exact decimal seconds, without zeros at the end."""
    whole, rest = divmod(time_ns, NS_PER_S)
    return f"{whole}.{rest:09}".rstrip("0").rstrip(".")
