"""The jobs of a live run that have ended, as rows of the history."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from warren.model.job import Job
from warren.model.run import Run
from warren.model.units import ns_to_seconds
from warren.profile.history_rows import EndedJob, LiveRun
from warren.report.metrics import rounds_run
from warren.report.record import Record
from warren.report.task_times import TaskTimes

Times = Mapping[int, Sequence[TaskTimes]]
"""By job, what its tasks took; nothing where they were padded."""


def is_padded(run: Run) -> bool:
    """Whether tasks last as long as a profile says, not as long as they take."""
    return run.cluster.emulate is not None and run.cluster.engine != "plain"


def ended_jobs(
    record: Record, times: Times, folder: Path, run: LiveRun, now: float
) -> list[EndedJob]:
    """A row for each job that has finished, failed or was cancelled; ``now``: Unix time."""
    rounds_J = rounds_run(record)
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
    """Of the parameters that a finished job left; 0 where there are none."""
    from warren.live.measure.task_times import model_bytes

    try:
        return model_bytes(str(folder), job)
    except OSError:
        return 0


def _costs(record: Record, job: Job, timed: Sequence[TaskTimes]) -> str:
    """By device type, means of what was timed there, else what the run was scheduled with.

    The plain engine is scheduled with nothing that means anything.
    """
    costs, cluster = record.costs, record.run.cluster
    found: dict[str, dict[str, Any]] = {}
    for column, name in enumerate(cluster.type_names):
        here = [one for one in timed if one.type == column]
        scheduled = costs.fits_JT[job.index, column] and cluster.engine != "plain"
        if not here and not scheduled:
            continue
        comp_s = ns_to_seconds(int(costs.comp_ns_JT[job.index, column]))
        sync_s = ns_to_seconds(int(costs.sync_ns_JT[job.index, column])) if scheduled else 0.0
        tasks = sum(one.tasks for one in here)
        if here:
            comp_s = sum(one.comp_s * one.tasks for one in here) / tasks
            syncs = [one.sync_s for one in here if one.sync_s is not None]
            sync_s = fmean(syncs) if syncs else sync_s
        found[name] = {"comp_s": comp_s, "sync_s": sync_s, "tasks": tasks}
    return json.dumps(found, sort_keys=True, allow_nan=False)
