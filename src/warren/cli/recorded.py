"""The jobs of a history database as the past of a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from warren.workload.traces.request import Trace


def recorded(path: str) -> Trace:
    """The finished jobs of a database, the latest last; an empty path: of the user's own.

    Raises
    ------
    SpecError
        If it cannot be read, or holds no such job.
    """
    from warren.cli.database import default_file, known_jobs
    from warren.model.errors import Problem, SpecError
    from warren.profile.history import snapshot
    from warren.workload.traces.request import Trace

    try:
        file = Path(path) if path else default_file()
        found = snapshot(known_jobs(file))
    except (OSError, ValueError) as error:
        raise SpecError(Problem(file=path or "history database", message=str(error))) from None
    if not found.jobs:
        raise SpecError(Problem(file=str(file), message="holds no job that has finished"))
    count = len(found.jobs)
    note = f"{count} {'job' if count == 1 else 'jobs'} of a history database, {found.digest[:16]}"
    return Trace(jobs=found.jobs, profiles=found.rows, notes=(note,))
