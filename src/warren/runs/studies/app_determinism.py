"""Whether the apps of a file are deterministic: each job is checked in two processes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from warren.live.extras import need
from warren.model.errors import Problem, SpecError
from warren.model.job import Job
from warren.runs.inputs import chosen, jobs_of, run_of
from warren.runs.notices import say
from warren.store.files import read

if TYPE_CHECKING:
    from warren.live.oracle.determinism_check import CheckReport


def checked_apps(file: str, names: Sequence[str] = ()) -> list[CheckReport]:
    """Check the apps of a file's jobs, one after the other; a line announces each.

    The file is one of jobs or of a run. ``names``: only these jobs are checked; empty: all. Raises
    SpecError if the file is wrong, no job of it has an app, or PyTorch is not installed.
    """
    # Imported here: it imports code that starts processes, which a command's help does not need.
    from warren.live.oracle.determinism_check import check_job

    jobs, base = _jobs(file, names)
    need("live")
    reports = []
    for job in jobs:
        say(f"checking {job.name}")
        reports.append(check_job(job, base))
    return reports


def _jobs(file: str, names: Sequence[str]) -> tuple[list[Job], str]:
    """Return jobs of a file of jobs or of a run, and the folder to which their apps are relative.

    A run may have jobs without an app beside those with one: they are left out.
    """
    from warren.workload.run_file import describes_run

    if describes_run(file, read):
        # The user's own history must not change the results of an app.
        run = run_of(file, None, [], history=False)
        jobs, base = chosen(run.workload.jobs, names, file), run.base
        with_app = [job for job in jobs if job.app is not None]
    else:
        jobs, base = jobs_of(file, names), str(Path(file).parent)
        # A file of jobs alone is checked as a whole: a job without an app is reported.
        with_app = jobs if all(job.app is not None for job in jobs) else []
    if not with_app:
        without = ", ".join(job.name for job in jobs if job.app is None)
        raise SpecError(Problem(file=file, field="app", message=f"no app to check in {without}"))
    return with_app, base
