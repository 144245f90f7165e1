"""The jobs of a history database as the past of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from warren.workload.traces.rows import Trace


def recorded(path: str, types: Sequence[str]) -> Trace:
    """Read the finished jobs of a database that ran on one of these device types, the latest last.

    An empty path names the user's own database, which live runs fill. If it does not exist, or
    holds none of these jobs yet, a line says so and there is no past. A file that the user names
    must hold some.

    Raises
    ------
    SpecError
        If it cannot be read, or the user named it and it holds none of these jobs.
    """
    from warren.model.errors import Problem, SpecError
    from warren.profile.history import snapshot
    from warren.runs.notices import say_once
    from warren.store.files import refused
    from warren.store.history_database import default_file, known_jobs
    from warren.workload.traces.rows import Trace

    try:
        file = Path(path) if path else default_file()
        if path and not file.exists():
            raise refused(file, "no such file")
        found = snapshot(known_jobs(file))
    except (OSError, ValueError) as error:
        raise SpecError(Problem(file=path or "history database", message=str(error))) from None
    count = _jobs(len(found.jobs))
    # The digest tells which jobs a run was planned with; the database grows.
    note = f"{count} of a history database, {found.digest[:16]}"
    every = Trace(jobs=found.jobs, profiles=found.rows, notes=(note,))
    fitting = _that_fit(every, types)
    if fitting.jobs:
        return fitting
    timed = f"none of its {count} was timed on {' or '.join(types)}"
    reason = timed if found.jobs else "holds no job that has finished"
    if path:
        raise refused(file, reason)
    say_once(f"history: nothing yet: {file}: {reason if file.exists() else 'is not there'}")
    return Trace(jobs=(), profiles=())


def recorded_elsewhere(path: str, types: Sequence[str]) -> Trace:
    """Do as ``recorded`` does, but leave the user's own database alone, as if it held nothing."""
    from warren.runs.notices import say_once
    from warren.workload.traces.rows import Trace

    if path:
        return recorded(path, types)
    say_once("history: nothing: your own database is left alone")
    return Trace(jobs=(), profiles=())


def _that_fit(found: Trace, types: Sequence[str]) -> Trace:
    """Return the jobs that ran on one of these types; a note counts the others."""
    # A row of profiles is named as the ``cost`` of the jobs it prices.
    rows = [row for row in found.profiles if not row.comp_s.keys().isdisjoint(types)]
    names = {row.model for row in rows}
    jobs = tuple(job for job in found.jobs if job.cost in names)
    notes, others = found.notes, len(found.jobs) - len(jobs)
    if others:
        text = f"{_jobs(others)} of the history not used: timed on other device types alone"
        notes += (text,)
    return replace(found, jobs=jobs, profiles=tuple(rows), notes=notes)


def _jobs(number: int) -> str:
    return f"{number} {'job' if number == 1 else 'jobs'}"
