"""The rows that a live run adds to the history database, read off its folder at the end.

These are a row for the run, one for each job that has ended, and averages of task times.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from warren.core.journal import MAGIC, Step
from warren.core.journal_reader import frames
from warren.live.training.app.app_imports import sources_of
from warren.model.cluster import PROCESSOR
from warren.model.events import JobCancelled, JobFailed, TasksDone
from warren.model.history_rows import EndedJob, LiveRun, Profile
from warren.model.job import Job
from warren.model.run import Run
from warren.model.units import ns_to_seconds
from warren.profile.averages import TaskAverages, blank, with_taken
from warren.profile.measured import TaskKind, task_kind
from warren.report.record import Record
from warren.report.task_times import TaskTimes, task_times
from warren.runs.machine import measured_device
from warren.runs.notices import say
from warren.runs.results import load_costs, load_folders_run, load_history
from warren.store.files import read_dir
from warren.store.history_database import Database, default_file
from warren.store.run_folder import RunFolder
from warren.store.signals import held

Times = Mapping[int, Sequence[TaskTimes]]
"""Task times, by job; empty if they were padded."""


def is_padded(run: Run) -> bool:
    """Tell whether tasks last as long as a profile says, not as long as they take."""
    return run.cluster.live_emulate is not None


def ended_jobs(
    record: Record, times: Times, folder: Path, run: LiveRun, now: float
) -> list[EndedJob]:
    """Return a row for each job that has finished, failed or was cancelled; ``now``: Unix time."""
    # Cluster time becomes Unix time backwards from the run's last event, which is ``now``; with
    # emulation a second of the cluster is ``time_scale`` real seconds.
    rounds_J = record.history.rounds_run()
    end_ns = int(record.history.timeline.end_ns_R.max(initial=0))
    emulate = record.run.cluster.emulate
    second_s = 1.0 if emulate is None else emulate.time_scale
    rows = []
    for job in record.run.workload.jobs:
        status = record.history.status(job.index)
        if status == "unfinished":
            continue
        finish_ns = int(record.history.finish_ns_J[job.index])
        since_s = ns_to_seconds(max(0, end_ns - finish_ns)) if finish_ns >= 0 else 0.0
        rows.append(
            EndedJob(
                run=run.id,
                position=job.index,
                run_name=run.name,
                began_at=run.began_at,
                arrival_s=ns_to_seconds(job.arrival_ns),
                name=job.name,
                user=job.user,
                group=job.group,
                model=job.model,
                app=job.app,
                batch=job.batch,
                scale=job.scale,
                sync=job.sync,
                weight=job.weight,
                rounds=int(rounds_J[job.index]),
                status=status,
                model_bytes=trained_bytes(folder, job),
                costs=_costs(record, job, times.get(job.index, ())),
                ended_at=now - since_s * second_s,
            )
        )
    return rows


def trained_bytes(folder: Path, job: Job) -> int:
    """Return the bytes of the parameters that a finished job left; 0 where there are none."""
    from warren.live.measure.task_times import model_bytes

    try:
        return model_bytes(str(folder), job)
    except OSError:
        return 0


def _costs(record: Record, job: Job, timed: Sequence[TaskTimes]) -> str:
    """Return as JSON, by device type, means of timed tasks, or else the scheduled costs.

    Costs of a nanosecond are left out: they are placeholders, as of the plain engine.
    """
    costs, cluster = record.costs, record.run.cluster
    found: dict[str, dict[str, Any]] = {}
    for column, name in enumerate(cluster.type_names):
        here = [one for one in timed if one.type == column]
        planned_ns = int(costs.comp_ns_JT[job.index, column])
        scheduled = costs.fits_JT[job.index, column] and planned_ns > 1 and cluster.is_scheduled
        if not here and not scheduled:
            continue
        comp_s = ns_to_seconds(planned_ns)
        sync_s = ns_to_seconds(int(costs.sync_ns_JT[job.index, column])) if scheduled else 0.0
        tasks = sum(one.tasks for one in here)
        # Means weighted by the number of tasks that each timing represents.
        if here:
            comp_s = sum(one.comp_s * one.tasks for one in here) / tasks
            syncs = [one.sync_s for one in here if one.sync_s is not None]
            sync_s = fmean(syncs) if syncs else sync_s
        found[name] = {"comp_s": comp_s, "sync_s": sync_s, "tasks": tasks}
    return json.dumps(found, sort_keys=True, allow_nan=False)


_TELLING: Final = (TasksDone, JobFailed, JobCancelled)
"""Events after which a run has something to remember."""


@contextmanager
def remembered(run: Run, out: RunFolder, *, wanted: bool = True) -> Iterator[None]:
    """Remember the jobs that ended in the live run of the block, however the block ends.

    That is one transaction. Whatever the database answers, the run does not fail by it: one line
    says so. A run without a folder leaves nothing here either.
    """
    # Now, not at the end: the user may change an app's file while the run goes.
    began_at = time.time()
    texts = sources_of(run.workload.jobs, run.base) if run.sources is None else run.sources
    sources = {file: source.sha256 for file, source in texts.items()}
    try:
        yield
    finally:
        if wanted and out.kept:
            with held():
                try:
                    _remember(out.path, sources, began_at)
                except Exception as error:  # any error: the run itself has ended well
                    say(f"the history was not kept: {error}")


def _remember(folder: Path, sources: Mapping[str, str], began_at: float) -> None:
    """Write the ended jobs of the run in a folder; ``sources``: hashes of apps, by file."""
    name, files = str(folder), read_dir(str(folder))
    number = _number(files.get("journal", b""))
    if number is None:
        return  # nothing had happened yet
    run = load_folders_run(name, files)
    history, costs = load_history(name, files["journal"], run), load_costs(name, files, run)
    record = Record(run=run, history=history, costs=costs)
    times = {} if is_padded(run) else _by_job(task_times(record))
    with Database(default_file()) as database:
        now = time.time()
        before = {one.id: one for one in database.runs()}.get(number)
        last_ns = int(history.timeline.end_ns_R.max(initial=0))
        entry = LiveRun(id=number, name=run.name, began_at=began_at, until_ns=last_ns)
        # A run that went on is known already; it began when it first did.
        if before is not None:
            entry = replace(entry, began_at=before.began_at)
        rows: list[LiveRun | EndedJob] = [entry, *ended_jobs(record, times, folder, entry, now)]
        # Other writers wait for no more than this.
        with database.transaction():
            database.put(rows)
            if run.cluster.is_scheduled:
                # Only tasks that ended after ``until_ns``: earlier ones are in the averages.
                known = {(one.key, one.device_type): one for one in database.profiles()}
                fresh = _after(times, -1 if before is None else before.until_ns)
                database.put(_averages(record, fresh, known, sources, folder, now))


def _number(journal: bytes) -> str | None:
    """Return the identity of a live run: a hash of its journal up to the first task or failure.

    That part stays when the run goes on, and no two runs agree in its times to the nanosecond.
    None: there is nothing to remember yet.
    """
    if len(journal) <= len(MAGIC):
        return None
    for one, end in frames(journal):
        if isinstance(one, Step) and any(isinstance(event, _TELLING) for event in one.events):
            return hashlib.sha256(journal[:end]).hexdigest()
    return None


def _by_job(times: tuple[TaskTimes, ...]) -> Times:
    """Group task times by job."""
    found: dict[int, list[TaskTimes]] = {}
    for one in times:
        found.setdefault(one.job, []).append(one)
    return found


def _after(times: Times, after_ns: int) -> list[TaskTimes]:
    """Return the times that the averages have not seen, in the order in which tasks ended."""
    fresh = [one for of_job in times.values() for one in of_job if one.end_ns > after_ns]
    return sorted(fresh, key=lambda one: one.end_ns)


def _averages(
    record: Record,
    times: list[TaskTimes],
    known: Mapping[tuple[str, str], Profile],
    sources: Mapping[str, str],
    folder: Path,
    now: float,
) -> list[Profile]:
    """Return the profiles of the run's kinds of tasks, with these times in their averages."""
    # Jobs with equal tasks are one kind and share a row; it names the job that ended last.
    kinds = _kinds(record, sources)
    took: dict[str, list[TaskAverages]] = {}
    last: dict[str, int] = {}
    for one in times:
        if one.job in kinds:
            key = kinds[one.job].key
            took.setdefault(key, []).append(TaskAverages(one.tasks, one.comp_s, one.sync_s))
            last[key] = one.job
    rows = []
    for key, seen in took.items():
        row = known.get((key, PROCESSOR)) or blank(kinds[last[key]], PROCESSOR, now)
        job = record.run.workload.jobs[last[key]]
        size_bytes = row.model_bytes or trained_bytes(folder, job)
        row = with_taken(row, seen, now)
        rows.append(replace(row, job=job.name, model=job.model, model_bytes=size_bytes))
    return rows


def _kinds(record: Record, sources: Mapping[str, str]) -> dict[int, TaskKind]:
    """Return the kind of tasks of each job whose app's text is known, by index."""
    from warren.live.measure.machine import processor

    numerics = record.history.header.numerics
    # Times of devices of two kinds have no mean that would tell anything.
    if len(numerics.split(" | ")) > 1:
        return {}
    gpu, _, _ = measured_device(record.run.cluster)
    machine = gpu or processor()
    return {
        job.index: task_kind(job, sources[job.app_file], numerics, machine)
        for job in record.run.workload.jobs
        if job.app_file in sources
    }
