"""Whether the apps of a file are deterministic, and what that costs them.

Each job is computed in processes of its own.
"""

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
    from warren.live.oracle.kernel_costs import CostReport
    from warren.model.cluster import Device


def checked_apps(file: str, names: Sequence[str] = ()) -> list[CheckReport]:
    """Check the apps of a file's jobs, one after the other; a line announces each.

    The file is one of jobs or of a run. ``names``: only these jobs are checked; empty: all. Raises
    SpecError if the file is wrong, no job of it has an app, or PyTorch is not installed.
    """
    # Imported here: it imports code that starts processes, which a command's help does not need.
    from warren.live.oracle.determinism_check import check_job

    jobs, base, _ = _jobs(file, names)
    need("live")
    reports = []
    for job in jobs:
        say(f"checking {job.name}")
        reports.append(check_job(job, base))
    return reports


def costs_of_apps(file: str, names: Sequence[str] = ()) -> list[CostReport]:
    """Time a task of each job of a file, free and with deterministic kernels.

    A run file's job is timed on the first GPU here that it may use; every other one on a processor.
    ``names`` and errors are those of ``checked_apps``.
    """
    from warren.live.gpu.discovery import gpus_of
    from warren.live.oracle.determinism_cost import cost_of_job
    from warren.live.oracle.probe_pool import probe_pool

    jobs, base, devices = _jobs(file, names)
    need("live")
    gpu_of = dict(zip(devices, gpus_of(devices), strict=True))
    found = []
    with probe_pool(jobs, base) as pool:
        for job in jobs:
            say(f"timing {job.name}")
            gpu = next((gpu for one, gpu in gpu_of.items() if gpu and job.may_use(one.type)), None)
            place = None if gpu is None else (gpu.index, gpu.name)
            found.append(cost_of_job(pool, job, base, place))
    return found


def _jobs(file: str, names: Sequence[str]) -> tuple[list[Job], str, tuple[Device, ...]]:
    """Return jobs of a file of jobs or of a run, the folder of their apps, and the run's devices.

    A run may have jobs without an app beside those with one: they are left out.
    """
    from warren.workload.run_file import describes_run

    if describes_run(file, read):
        # The user's own history must not change the results of an app.
        run = run_of(file, None, [], history=False)
        jobs, base, devices = chosen(run.workload.jobs, names, file), run.base, run.cluster.devices
        with_app = [job for job in jobs if job.app is not None]
    else:
        jobs, base, devices = jobs_of(file, names), str(Path(file).parent), ()
        # A file of jobs alone is checked as a whole: a job without an app is reported.
        with_app = jobs if all(job.app is not None for job in jobs) else []
    if not with_app:
        without = ", ".join(job.name for job in jobs if job.app is None)
        raise SpecError(Problem(file=file, field="app", message=f"no app to check in {without}"))
    return with_app, base, devices
