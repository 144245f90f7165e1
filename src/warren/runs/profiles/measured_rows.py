"""Costs of jobs without a profile row: a few tasks on this machine, remembered between runs."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from time import time
from typing import Final

from warren.live.extras import need
from warren.model.cluster import PROCESSOR, Cluster
from warren.model.costs import ProfileRow
from warren.model.errors import Problem, SpecError
from warren.model.history_rows import Profile
from warren.model.job import Job
from warren.model.run import Run
from warren.profile.averages import as_measured, blank, with_measured
from warren.profile.cost_table import measured_key, missing
from warren.profile.measured import MeasuredCost, TaskKind, measured_row, task_kind
from warren.runs.check_apps import with_apps
from warren.runs.machine import known_numerics, measured_device
from warren.runs.notices import say, say_once
from warren.store.history_database import Database, check_writable, default_file, known_profiles

TASKS: Final = 3
"""Number of tasks measured before a run for a job without a profile row."""
_NOTHING_S: Final = 1e-9
"""The T^c of a placeholder, in seconds: a nanosecond, since no task takes no time."""
_UNKNOWN_S: Final = 1.0
"""The T^c, in seconds, of a task of which nothing at all is known."""
_ADVICE: Final = "`warren check` tries it alone"


def measured_rows(
    run: Run, *, history: bool = True, live: bool = False
) -> Mapping[str, ProfileRow]:
    """Return a row for each job that needs one, measured now or found in the history database.

    One measurement, on the first device that the job may use, holds for all device types; with
    emulation its real seconds become cluster seconds. A database that cannot be used is reported,
    and costs nothing but time. ``history`` False: it is left alone. ``live``: a job that fails
    while it is measured is planned with the median of the others, for it will fail in the run,
    alone and with its traceback in its log.

    Raises
    ------
    SpecError
        If an app's file cannot be read; if a job fails while it is measured, unless ``live``.
    """
    jobs = [run.workload.jobs[index] for index in missing(run)]
    path = _usable_file() if history else None
    found, failed = profiles_of(run, jobs, path, TASKS)
    for here, mine in by_first_device(run, jobs):
        _tell_others(here.cluster, mine)
    if failed and not live:
        raise SpecError(failed)
    for problem in failed:
        say(f"{problem}; the run goes on, and plans it like the others")
    # Every job needs a row: jobs that failed while they were measured get a substitute.
    good = [job for job in jobs if job.index in found]
    rows = {measured_key(job): row_of_run(run, job, found[job.index]) for job in good}
    return rows | _stand_ins(run, [job for job in jobs if job not in good], rows.values())


def by_first_device(run: Run, jobs: Sequence[Job]) -> list[tuple[Run, list[Job]]]:
    """Return jobs by the first device that they may use, each with the run as if it were first.

    Emulated devices are all this machine's processor.
    """
    cluster, groups = run.cluster, dict[int, list[Job]]()
    for job in jobs:
        usable = (at for at, one in enumerate(cluster.devices) if job.may_use(one.type))
        # A job that may use none is refused when it is priced.
        groups.setdefault(0 if cluster.emulate else next(usable, 0), []).append(job)
    return [(replace(run, cluster=_led_by(cluster, at)), mine) for at, mine in groups.items()]


def _led_by(cluster: Cluster, at: int) -> Cluster:
    """Return a cluster with another device first."""
    devices = cluster.devices[at : at + 1] + cluster.devices[:at] + cluster.devices[at + 1 :]
    renumbered = tuple(replace(one, index=index) for index, one in enumerate(devices))
    return replace(cluster, devices=renumbered) if at else cluster


def _tell_others(cluster: Cluster, jobs: Sequence[Job]) -> None:
    """Name the types on which jobs are assumed to need as long as on the measured one."""
    gpu, _, others = measured_device(cluster)
    used = [name for name in others if any(job.may_use(name) for job in jobs)]
    if used:
        where = "this machine's" if cluster.ray is None else f"host {cluster.devices[0].host}'s"
        say_once(
            f"{_names(jobs)}: measured on {where} {gpu or 'processor'}, and taken to be as "
            f"long on {', '.join(used)}; a `model`, or rows of profiles, give times of their own"
        )


def profiles_of(
    run: Run, jobs: Sequence[Job], path: Path | None, tasks: int, *, asked: bool = False
) -> tuple[dict[int, Profile], list[Problem]]:
    """Return by job index its profile, known from the database at ``path``, or measured now.

    The device is the first that the job may use. Measurements are kept in the database. Beside the
    profiles are the reasons why jobs have none: a kind of tasks failed while it was measured. Jobs
    of one kind are measured once. ``path`` None: nothing is known, and nothing is kept. ``asked``:
    the user asked for a measurement, so neither averages of live runs nor fewer ``tasks`` will do.

    Raises
    ------
    SpecError
        If an app's file cannot be read, or PyTorch is not installed; or the database cannot be
        read, or was ``asked`` to keep something and cannot be written. Then nothing was measured.
    """
    run = with_apps(run, jobs)
    need("live")
    found: dict[int, Profile] = {}
    failed: list[Problem] = []
    for here, mine in by_first_device(run, jobs):
        profiles, problems = _on_first(here, mine, path, tasks, asked=asked)
        found |= profiles
        failed += problems
    return found, failed


def _on_first(
    run: Run, jobs: Sequence[Job], path: Path | None, tasks: int, *, asked: bool
) -> tuple[dict[int, Profile], list[Problem]]:
    """Return ``profiles_of`` jobs on the run's first device."""
    kinds = _kinds(run, jobs, path)
    rows = [] if path is None else known_profiles(path)
    there = _known(rows, tasks if asked else 0)
    if old := [job for job in jobs if kinds[job.index].key in there]:
        tasks_of = [there[kinds[job.index].key].samples for job in old]
        known = f"known from {_from_to(tasks_of)} tasks" if asked else "known"
        say_once(
            f"costs of {_names(old)} are {known}, measured before; `warren profile list` shows them"
        )
    # The first job of each kind is measured for all whose tasks are alike.
    new: dict[str, Job] = {}
    for job in jobs:
        if kinds[job.index].key not in there:
            new.setdefault(kinds[job.index].key, job)
    if not new:
        return {job.index: there[kinds[job.index].key] for job in jobs}, []
    # Before minutes of measuring, whose results could not be kept.
    if asked and path is not None:
        check_writable(path)
    costs, reasons = measure_jobs(
        run, list(new.values()), tasks, "" if asked else " (no profile row)"
    )
    measured = [job for job in new.values() if job.index in costs]
    there |= _kept(path, [(kinds[job.index], job, costs[job.index]) for job in measured], tasks)
    alike = Counter(kinds[job.index].key for job in jobs)
    problems = [
        failed_while_measured(run, job, reasons[job.index], alike[key] - 1)
        for key, job in new.items()
        if job.index in reasons
    ]
    found = {job.index: kinds[job.index].key for job in jobs}
    return {index: there[key] for index, key in found.items() if key in there}, problems


def row_of_run(run: Run, job: Job, profile: Profile) -> ProfileRow:
    """Return a profile as a row for all device types of the run, in its cluster seconds."""
    # Emulated, a second of the cluster is ``time_scale`` real seconds.
    scale = run.cluster.emulate.time_scale if run.cluster.emulate else 1.0
    cost = as_measured(profile)
    assert cost is not None
    sync_s = None if cost.sync_s is None else cost.sync_s / scale
    cost = replace(cost, comp_s=cost.comp_s / scale, sync_s=sync_s)
    return measured_row(job, dict.fromkeys(run.cluster.type_names, cost))


def placeholder_rows(run: Run) -> Mapping[str, ProfileRow]:
    """Return a row without meaning for each job that has none.

    ``engine: plain`` decides nothing from costs.
    """
    cost = MeasuredCost(comp_s=_NOTHING_S, model_bytes=0, sync_s=0.0)
    by_type = dict.fromkeys(run.cluster.type_names, cost)
    jobs = [run.workload.jobs[index] for index in missing(run)]
    source = {f"comp.{kind}": "placeholder, not measured" for kind in by_type}
    return {measured_key(job): replace(measured_row(job, by_type), source=source) for job in jobs}


def _stand_ins(
    run: Run, jobs: Sequence[Job], known: Collection[ProfileRow]
) -> dict[str, ProfileRow]:
    """Return rows of jobs whose tasks failed: the median of the others, or else a second."""
    times_s = [time_s for row in known for time_s in row.comp_s.values()]
    cost = MeasuredCost(
        comp_s=median(times_s) if times_s else _UNKNOWN_S, model_bytes=0, sync_s=0.0
    )
    by_type = dict.fromkeys(run.cluster.type_names, cost)
    source = {f"comp.{kind}": "of the others: it failed while measured" for kind in by_type}
    return {measured_key(job): replace(measured_row(job, by_type), source=source) for job in jobs}


def measure_jobs(
    run: Run, jobs: Sequence[Job], tasks: int, why: str
) -> tuple[dict[int, MeasuredCost], Mapping[int, str]]:
    """Measure tasks of these jobs on this machine.

    Return task times by job index, and the reason of each failed job.
    """
    from warren.live.measure.task_times import measure

    count = "three" if tasks == TASKS else str(tasks)
    say(f"measuring {count} tasks of {_names(jobs)}{why}")
    load = os.getloadavg()[0]
    found, reasons = measure(run, [job.index for job in jobs], tasks)
    taken = {
        index: MeasuredCost(
            comp_s=one.comp_s,
            model_bytes=one.model_bytes,
            memory_bytes=one.memory_bytes,
            sync_s=one.sync_s,
            load=load,
        )
        for index, one in found.items()
    }
    return taken, reasons


def failed_while_measured(run: Run, job: Job, reason: str, alike: int = 0) -> Problem:
    """Return the problem of a job whose app failed while it was measured.

    ``alike``: number of other jobs with tasks of the same kind.
    """
    others = f" and {alike} more of its kind" if alike else ""
    message = f"failed while its cost was measured: {reason}; {_ADVICE}"
    return Problem(file=job.source or run.name, field=f"job {job.name}{others}", message=message)


def _kinds(run: Run, jobs: Sequence[Job], path: Path | None) -> dict[int, TaskKind]:
    """Return by job index the kind of its tasks, by which profiles are looked up."""
    from warren.live.measure.machine import processor

    # The numerics class and the processor as the processes that train have them.
    numerics, machine = known_numerics(path), processor()
    gpu, libraries, _ = measured_device(run.cluster)
    if gpu:
        numerics, machine = f"{numerics}; {gpu}, {libraries}", gpu
    assert run.sources is not None
    texts = {file: source.sha256 for file, source in run.sources.items()}
    return {job.index: task_kind(job, texts[job.app_file], numerics, machine) for job in jobs}


def _names(jobs: Sequence[Job]) -> str:
    """Return the names of jobs, with commas between."""
    return ", ".join(job.name for job in jobs)


def _from_to(numbers: Sequence[int]) -> str:
    """Tell the range of numbers; a single number if all are equal."""
    least, most = min(numbers), max(numbers)
    return f"{least}" if least == most else f"{least} to {most}"


def _usable_file() -> Path | None:
    """Return the user's database, if it can be read; else tell why, and return None."""
    try:
        path = default_file()
        known_profiles(path)
    except (OSError, SpecError) as error:
        say(f"measured costs are not kept: {error}")
        return None
    return path


def _known(rows: Sequence[Profile], tasks: int) -> dict[str, Profile]:
    """Return by key the profiles of this machine's processor that have a task time.

    ``tasks``: only those measured over at least this number of tasks that ran alone; 0: all.
    """
    return {
        row.key: row
        for row in rows
        if row.device_type == PROCESSOR
        and as_measured(row) is not None
        and (not tasks or (row.comp_s is not None and row.samples >= tasks))
    }


def _kept(
    path: Path | None, found: Sequence[tuple[TaskKind, Job, MeasuredCost]], tasks: int
) -> dict[str, Profile]:
    """Return by key the rows with the new ones, and write them to the database.

    If they cannot be written the run goes on; the only cost is to measure again later.
    """
    try:
        if path is not None and found:
            with Database(path) as database, database.transaction():
                rows = _with(database.profiles(), found, tasks)
                database.put(rows.values())
                return rows
    except SpecError as error:
        say(f"measured costs were not kept: {error}")
    return _with((), found, tasks)


def _with(
    rows: Sequence[Profile], found: Sequence[tuple[TaskKind, Job, MeasuredCost]], tasks: int
) -> dict[str, Profile]:
    """Return these rows by key, together with the new ones."""
    now = time()
    old = {row.key: row for row in rows if row.device_type == PROCESSOR}
    after = {}
    for kind, job, cost in found:
        row = old.get(kind.key) or blank(kind, PROCESSOR, now)
        # Else another process has measured more tasks meanwhile, which is better.
        if row.comp_s is None or row.samples <= tasks:
            row = with_measured(row, cost, tasks, now)
        after[kind.key] = replace(row, job=job.name, model=job.model)
    return after
