"""Costs of jobs without a profile row: a few tasks on this machine, remembered between runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from time import time
from typing import Final

from warren.cli.commands.inputs import say, say_once
from warren.cli.database import Database, check_writable, default_file, known_profiles
from warren.cli.remembering import source_hash
from warren.model.costs import ProfileRow
from warren.model.errors import Problem, SpecError
from warren.model.job import Job
from warren.model.run import Run
from warren.profile.averages import as_measured, blank, with_measured
from warren.profile.costs import measured_key, missing
from warren.profile.measured import PROCESSOR, Measured, TaskKind, measured_row, task_kind
from warren.profile.rows import Profile

TASKS: Final = 3
_NOTHING_S: Final = 1e-9
_ADVICE: Final = "`warren check JOB.yaml` tries it alone"


def measured_rows(run: Run, *, history: bool = True) -> Mapping[str, ProfileRow]:
    """A row for each job that needs one, measured now or found in the history database.

    Every device of this engine runs on this machine's processor, so one measurement holds for
    all device types; with emulation its real seconds become cluster seconds. A database that
    cannot be used is told, and costs nothing but time. ``history`` False: it is left alone.

    Raises
    ------
    SpecError
        If an app's file cannot be read, or a job fails while it is measured.
    """
    jobs = [run.workload.jobs[index] for index in missing(run)]
    found = profiles_of(run, jobs, _usable_file() if history else None, TASKS)
    return {measured_key(job): row_of_run(run, job, found[job.index]) for job in jobs}


def profiles_of(
    run: Run, jobs: Sequence[Job], path: Path | None, tasks: int, *, asked: bool = False
) -> dict[int, Profile]:
    """By job index its profile: from the database at ``path``, or measured now and kept there.

    Jobs of one kind are measured once. ``path`` None: nothing is known, and nothing is kept.
    ``asked``: measuring is what was asked for, so averages of live runs will not do.

    Raises
    ------
    SpecError
        As ``measured_rows``; or the database cannot be read, or was ``asked`` to keep something
        and cannot be written, and nothing was measured.
    """
    kinds = _kinds(run, jobs)
    there = {} if path is None else _known(known_profiles(path), alone=asked)
    old = [job for job in jobs if kinds[job.index].key in there]
    if old:
        say_once(
            f"costs of {_names(old)} are known, measured before; `warren profile list` shows them"
        )
    new: dict[str, Job] = {}
    for job in jobs:
        if kinds[job.index].key not in there:
            new.setdefault(kinds[job.index].key, job)
    if new and asked and path is not None:
        check_writable(path)
    if new:
        costs = measure_jobs(run, list(new.values()), tasks, "" if asked else " (no profile row)")
        there |= _kept(
            path, [(kinds[job.index], job, costs[job.index]) for job in new.values()], tasks
        )
    return {job.index: there[kinds[job.index].key] for job in jobs}


def row_of_run(run: Run, job: Job, profile: Profile) -> ProfileRow:
    """A profile as a row for all device types of the run, in its cluster seconds."""
    scale = run.cluster.emulate.time_scale if run.cluster.emulate else 1.0
    cost = as_measured(profile)
    assert cost is not None
    sync_s = None if cost.sync_s is None else cost.sync_s / scale
    cost = replace(cost, comp_s=cost.comp_s / scale, sync_s=sync_s)
    return measured_row(job, dict.fromkeys(run.cluster.type_names, cost))


def placeholder_rows(run: Run) -> Mapping[str, ProfileRow]:
    """A row without meaning for each such job: ``engine: plain`` decides nothing from costs."""
    cost = Measured(comp_s=_NOTHING_S, model_bytes=0, sync_s=0.0)
    by_type = dict.fromkeys(run.cluster.type_names, cost)
    jobs = [run.workload.jobs[index] for index in missing(run)]
    source = {f"comp.{kind}": "placeholder, not measured" for kind in by_type}
    return {measured_key(job): replace(measured_row(job, by_type), source=source) for job in jobs}


def measure_jobs(run: Run, jobs: Sequence[Job], tasks: int, why: str) -> dict[int, Measured]:
    """By job index, what tasks of these jobs take on this machine.

    Raises
    ------
    SpecError
        If a job fails meanwhile.
    """
    from warren.live.measure import measure

    count = "three" if tasks == TASKS else str(tasks)
    say(f"measuring {count} tasks of {_names(jobs)}{why}")
    found, reasons = measure(run, [job.index for job in jobs], tasks)
    if reasons:
        raise SpecError(
            failed_while_measured(run, job, reasons[job.index])
            for job in jobs
            if job.index in reasons
        )
    return {
        index: Measured(
            comp_s=one.comp_s,
            model_bytes=one.model_bytes,
            memory_bytes=one.memory_bytes,
            sync_s=one.sync_s,
        )
        for index, one in found.items()
    }


def failed_while_measured(run: Run, job: Job, reason: str) -> Problem:
    """A job's app failed before anything was scheduled."""
    return _problem(run, job, f"failed while its cost was measured: {reason}; {_ADVICE}")


def _kinds(run: Run, jobs: Sequence[Job]) -> dict[int, TaskKind]:
    from warren.live.calibrate import processor
    from warren.live.training.numerics import numerics_class

    numerics, machine = numerics_class(threads=1), processor()  # as in the processes that train
    found = {}
    for job in jobs:
        assert job.app is not None
        try:
            source = source_hash(job.app, run.base)
        except OSError as error:
            message = f"{job.app}: cannot be read: {error}"
            raise SpecError(_problem(run, job, message, "app")) from None
        found[job.index] = task_kind(job, source, numerics, machine)
    return found


def _problem(run: Run, job: Job, message: str, field: str = "") -> Problem:
    name = ": ".join(part for part in (f"job {job.name}", field) if part)
    return Problem(file=job.source or run.name, field=name, message=message)


def _names(jobs: Sequence[Job]) -> str:
    return ", ".join(job.name for job in jobs)


def _usable_file() -> Path | None:
    """The database, if it can be read; else that is told."""
    try:
        path = default_file()
        known_profiles(path)
    except (OSError, SpecError) as error:
        say(f"measured costs are not kept: {error}")
        return None
    return path


def _known(rows: Sequence[Profile], *, alone: bool) -> dict[str, Profile]:
    """By key, what this machine's processor takes; ``alone``: measured alone."""
    return {
        row.key: row
        for row in rows
        if row.device_type == PROCESSOR
        and (row.comp_s is not None if alone else as_measured(row) is not None)
    }


def _kept(
    path: Path | None, found: Sequence[tuple[TaskKind, Job, Measured]], tasks: int
) -> dict[str, Profile]:
    """By key, the rows with what was found; written too, which costs only time if it cannot be."""
    try:
        if path is not None:
            with Database(path) as database, database.transaction():
                rows = _with(database.profiles(), found, tasks)
                database.put(rows.values())
                return rows
    except SpecError as error:
        say(f"measured costs were not kept: {error}")
    return _with((), found, tasks)


def _with(
    rows: Sequence[Profile], found: Sequence[tuple[TaskKind, Job, Measured]], tasks: int
) -> dict[str, Profile]:
    now = time()
    old = {row.key: row for row in rows if row.device_type == PROCESSOR}
    return {
        kind.key: replace(
            with_measured(old.get(kind.key) or blank(kind, PROCESSOR, now), cost, tasks, now),
            job=job.name,
            model=job.model,
        )
        for kind, job, cost in found
    }
