"""Measuring a few tasks of each job of a file, for profiles that are kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from warren.model.costs import ProfileRow
from warren.model.errors import Problem, SpecError
from warren.model.history_rows import Profile
from warren.model.job import Job, Workload
from warren.model.run import Run
from warren.runs.check_apps import check_apps
from warren.runs.inputs import named_after, some_of, with_absolute_base
from warren.runs.machine import check_device_types, hosts_here
from warren.runs.profiles.known_profiles import database_file
from warren.store.files import read


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurableJobs:
    """The jobs of a file that have an app, as a run on a cluster that this machine has, or plays.

    ``skipped`` names those without an app; empty if there are none.
    """

    run: Run
    skipped: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredJobs:
    """Measured or known times: profiles by job index, and rows for a run by job name.

    ``jobs``: those that have a profile. ``failed``: the reasons why others have none.
    """

    jobs: tuple[Job, ...]
    profiles: Mapping[int, Profile]
    rows: Mapping[str, ProfileRow]
    failed: Sequence[Problem]


def measurable_jobs(jobs: Sequence[Job], job_file: str, cluster: str) -> MeasurableJobs:
    """Return the jobs of a file that can be measured, on the cluster of another file.

    Raises SpecError if the cluster file is wrong, no job has an app, or this machine lacks a device
    type of the cluster and does not emulate it.
    """
    from warren.workload.run_file import load_cluster

    # Switching is charged by simulations alone; a cluster that charges it can be measured for.
    found = replace(load_cluster(cluster, read, hosts_here), switching=None)
    check_device_types(found, cluster, "hosts")
    without = some_of([job.name for job in jobs if job.app is None])
    training = [job for job in jobs if job.app is not None]
    if not training:
        raise SpecError(
            Problem(file=job_file, field="app", message=f"no app to measure in {without}")
        )
    # A run's jobs are numbered from 0 without gaps.
    numbered = tuple(replace(job, index=index) for index, job in enumerate(training))
    # Apps are named relative to the file that names them.
    base = str(Path(job_file).parent)
    run = Run(name=job_file, cluster=found, workload=Workload(jobs=numbered), base=base)
    return MeasurableJobs(run=with_absolute_base(run), skipped=without)


def measure_kept(run: Run, job_file: str, db: str | None, tasks: int) -> MeasuredJobs:
    """Measure the jobs of a run unless the history database knows them, and keep the results.

    ``run`` is as ``measurable_jobs`` gives it; problems name ``job_file``. Profiles in ``db`` over
    fewer tasks are measured again; None: the user's own database. Raises SpecError if an app or the
    database cannot be used; then nothing was measured.
    """
    # Imported here: a query of known profiles needs no measuring code.
    from warren.runs.profiles.measured_rows import profiles_of, row_of_run

    with named_after(job_file, run):
        run = check_apps(run)
        found, failed = profiles_of(run, run.workload.jobs, database_file(db), tasks, asked=True)
    jobs = tuple(job for job in run.workload.jobs if job.index in found)
    rows = {job.name: row_of_run(run, job, found[job.index]) for job in jobs}
    return MeasuredJobs(jobs=jobs, profiles=found, rows=rows, failed=failed)
