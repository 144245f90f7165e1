"""The numbers of a run: one row a job, and ``summary.json``.

Among them are the tasks that ran and did not count, also in one sentence for people.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final, NotRequired, TypedDict

import numpy as np

from warren.model.costs import FloatArray, IntArray
from warren.model.run import Run
from warren.model.units import NEVER_NS, NS_PER_S, ns_to_seconds
from warren.report.devices.host_hours import host_values
from warren.report.devices.switches import switch_values
from warren.report.fairness.slowdown import fairness_values, finished_jobs
from warren.report.fairness.users import user_shares
from warren.report.number_text import count
from warren.report.phases import phase_values
from warren.report.record import Bound, Record

Summary = Mapping[str, Any]
"""The content of ``summary.json`` by key. The values are those of JSON: a file may lack keys."""


class JobRow(TypedDict):
    """A row of ``jobs.csv``; None: not known. Only live runs have the last four columns."""

    job: str
    arrival_s: float
    start_s: float | None
    finish_s: float | None
    jct_s: float | None
    weight: float
    rounds: int | None
    scale: int
    status: str
    model: str | None
    batch: int
    sync: str
    user: str
    group: str
    seed: int
    params_sha256: NotRequired[str | None]
    final_loss: NotRequired[float | None]
    numerics: NotRequired[str | None]
    app_sha256: NotRequired[str | None]


def loss_values(record: Record) -> dict[str, object]:
    """Return the keys of ``summary.json`` about losses; none for a simulation that had none.

    ``redone_tasks`` counts tasks that ran and did not count, since they were lost with a process or
    the checkpoint was older; ``rollbacks`` counts returns of jobs to a checkpoint, listed in
    ``rolled_back``; ``resumed`` counts how often the run went on after it was cut off.
    """
    if not record.live and not record.history.rollbacks:
        return {}
    jobs, history = record.run.workload.jobs, record.history
    # Two ways to be lost: by a roll-back of the job to its checkpoint, and with a process alone,
    # while the rounds of the job stayed; the journal lists the latter shard by shard.
    redone = sum(one.redone_tasks(jobs[one.event.job].scale) for one in history.rollbacks)
    return {
        "redone_tasks": redone + sum(len(one.shards) for one in history.lost),
        "rollbacks": len(history.rollbacks),
        "resumed": history.resumed,
        "rolled_back": [
            {
                "job": jobs[one.event.job].name,
                "time_s": ns_to_seconds(one.event.time_ns),
                "passed": one.passed,
                "round": one.event.round,
                "checkpoint": _every(record, one.event.job),
                "reason": one.event.reason,
            }
            for one in history.rollbacks
        ],
    }


def copy_values(record: Record) -> dict[str, float]:
    """Return the keys of ``summary.json`` about copies of late tasks; none where none are made.

    ``copies_won`` of ``copies`` were done before the run they were made of; ``copies_wasted_s`` is
    the COMP time, in cluster seconds, of the runs that were not first, as far as they have ended.
    """
    history = record.history
    if record.run.scheduler.copies_after is None and not history.copies:
        return {}
    return {
        "copies": history.copies,
        "copies_won": history.copies_won,
        "copies_wasted_s": ns_to_seconds(sum(one.busy_ns for one in history.dropped)),
    }


def move_values(record: Record) -> dict[str, object]:
    """Return the key of ``summary.json`` about servers that moved while jobs trained, if any did.

    ``servers_moved``: of each time the job, the round that began at the new ones, their hosts, the
    bytes that came from other hosts, and how long after the barrier the last of them came.
    ``servers_stayed``: of each time they could not, the job and why.
    """
    jobs, hosts = record.run.workload.jobs, record.run.cluster.hosts
    moved = [
        {
            "job": jobs[event.job].name,
            "time_s": ns_to_seconds(event.time_ns),
            "round": event.round,
            "servers": [hosts[host].name for host in event.servers],
            "far_bytes": event.far_bytes,
            "took_s": ns_to_seconds(event.took_ns),
        }
        for event in record.history.moves
    ]
    stayed = [
        {
            "job": jobs[event.job].name,
            "time_s": ns_to_seconds(event.time_ns),
            "reason": event.reason,
        }
        for event in record.history.void_moves
    ]
    found = {"servers_moved": moved, "servers_stayed": stayed}
    return {name: rows for name, rows in found.items() if rows}


def user_values(record: Record) -> dict[str, object]:
    """Return the key of ``summary.json`` about users, a row each; none if no job has a user."""
    rows = [asdict(one) for one in user_shares(record)]
    return {"users": rows} if rows else {}


def _every(record: Record, job: int) -> int | None:
    """Return the rounds between a job's checkpoints; None if it states none."""
    checkpoint = record.run.workload.jobs[job].checkpoint
    return None if checkpoint is None else checkpoint.every


def loss_sentence(found: Summary) -> str:
    """Return a summary's losses and copies as a sentence; empty if there were none."""
    redone, rollbacks = int(found.get("redone_tasks") or 0), int(found.get("rollbacks") or 0)
    resumed, copies = int(found.get("resumed") or 0), int(found.get("copies") or 0)
    parts = []
    if rollbacks:
        parts.append(f"jobs went back to a checkpoint {count(rollbacks, 'time')}")
    if redone:
        parts.append(f"{count(redone, 'task')} ran again after a loss")
    if resumed:
        parts.append(f"the run was cut off and went on {count(resumed, 'time')}")
    if copies:
        won = int(found.get("copies_won") or 0)
        parts.append(f"{count(copies, 'late task')} also started elsewhere, {won} done first there")
    return ", ".join(parts)


STATUSES: Final = ("finished", "failed", "cancelled", "unfinished")
_MEASURED: Final = ("decide_s", "wall_s", "overruns")
"""Keys of ``Record.extra`` that have a place of their own in ``summary.json``."""


def summary(record: Record) -> dict[str, Any]:
    """Return the content of ``summary.json``: the contract's keys in its order, then others."""
    counts = status_counts(record)
    values = schedule_values(record)
    unfinished = len(record.run.workload.jobs) - counts["finished"]
    bound = bound_values(record.bound, values, unfinished=unfinished)
    run = record.run
    header = record.history.header
    extra = record.extra
    chosen = run.scheduler
    # The order is that of the file. ``bound`` and ``extra`` give some keys in the contract's order,
    # and their remaining keys after it.
    return {
        "run": run.name,
        "scheduler": {
            "place": record.place,
            "flow": chosen.flow,
            "group": chosen.group,
            "shape": chosen.shape,
            **({"joint": chosen.joint} if chosen.joint else {}),
        },
        "grain": run.grain.text,
        "jobs": len(run.workload.jobs),
        "finished": counts["finished"],
        "failed": counts["failed"],
        "tasks": int(record.history.timeline.tasks_R.sum()),
        **values,
        "lower_bound": bound.pop("lower_bound"),
        "gap": bound.pop("gap"),
        "decide_s": extra.get("decide_s"),
        "wall_s": extra.get("wall_s"),
        **bound,
        "cancelled": counts["cancelled"],
        "unfinished": counts["unfinished"],
        "overruns": extra.get("overruns"),
        "world": header.world,
        "network": run.cluster.network.model,
        "time_scale": _time_scale(run),
        "noise": _noise(run, live=record.live),
        "numerics": sorted({saved.numerics for saved in record.history.saved.values()}),
        "seed": run.seed,
        "devices": len(run.cluster.devices),
        "utilization_by_type": _utilization_by_type(record, values["makespan_s"]),
        **fairness_values(finished_jobs(record)),
        **user_values(record),
        **loss_values(record),
        **copy_values(record),
        **move_values(record),
        **host_values(record),
        **switch_values(record),
        **phase_values(record),
        **{name: extra[name] for name in sorted(extra) if name not in _MEASURED},
    }


def _time_scale(run: Run) -> float | None:
    """Return the real seconds of an emulated second; None where nothing is padded.

    The plain engine pads nothing.
    """
    emulate = run.cluster.emulate
    return emulate.time_scale if emulate is not None and run.cluster.is_scheduled else None


def _noise(run: Run, *, live: bool) -> dict[str, float]:
    """Return the causes of differences from the profile's times, in the run's own world.

    ``jitter`` (live) and ``overheads`` (in a simulation) are 1 or 0.
    """
    emulate = run.cluster.emulate
    jitter = live and emulate is not None and bool(emulate.jitter)
    # Overheads raise the times of tasks, or delay the start of rings; both are hidden from the
    # policy. A live run has them in its real times, so the key is 0 there.
    rings = any(job.sync == "ring" for job in run.workload.jobs)
    overheads = run.cluster.raises_times or (rings and run.cluster.delays_gangs)
    return {
        "task_cv": run.truth.task_cv,
        "job_cv": run.truth.job_cv,
        "jitter": int(jitter),
        "overheads": int(not live and overheads),
    }


def summary_text(summary: Summary | Sequence[Summary]) -> str:
    """Return a summary, or a list of them, as JSON text with a newline at its end."""
    # ``allow_nan=False``: NaN and Infinity are no JSON, and no reader of the file expects them.
    return json.dumps(summary, indent=2, allow_nan=False, ensure_ascii=False) + "\n"


def status_counts(record: Record) -> dict[str, int]:
    """Count the jobs that ended in each status."""
    statuses = [record.history.status(job.index) for job in record.run.workload.jobs]
    return {status: statuses.count(status) for status in STATUSES}


def schedule_values(record: Record) -> dict[str, float | None]:
    """Return JCT metrics, makespan (seconds) and utilization; all None when no job finished."""
    finish_ns_J = record.history.finish_ns_J
    done_J = finish_ns_J >= 0
    # Everything is over the jobs that finished: also the busy time, so that the work of a job that
    # failed makes no utilization.
    arrival_ns_J = arrival_ns(record)
    busy_ns = int(record.history.timeline.busy_ns_R[done_J[record.history.timeline.job_R]].sum())
    return values_of(
        jct_s=(finish_ns_J - arrival_ns_J)[done_J] / NS_PER_S,
        weight=np.array([job.weight for job in record.run.workload.jobs], dtype=float)[done_J],
        makespan_s=_makespan_s(finish_ns_J[done_J], arrival_ns_J[done_J]),
        busy_s=busy_ns / NS_PER_S,
        devices=len(record.run.cluster.devices),
    )


def values_of(
    *,
    jct_s: FloatArray,
    weight: FloatArray,
    makespan_s: float,
    busy_s: float,
    devices: int,
) -> dict[str, float | None]:
    """Return the metrics of ``summary.json`` from the finished jobs' JCT and weight.

    ``jct_s`` and ``weight`` have the same length. ``busy_s`` is the COMP time of these jobs over
    all ``devices``; seconds throughout.
    """
    if not len(jct_s):
        return dict.fromkeys(_VALUES)
    p50, p95, p99 = (float(value) for value in np.percentile(jct_s, (50, 95, 99)))
    # ``fsum`` rounds once, so the sums do not depend on the order of the jobs.
    room_s = devices * makespan_s
    return {
        "weighted_jct_s": math.fsum(weight * jct_s),
        "mean_jct_s": math.fsum(jct_s) / len(jct_s),
        "p50_jct_s": p50,
        "p95_jct_s": p95,
        "p99_jct_s": p99,
        "makespan_s": makespan_s,
        "utilization": busy_s / room_s if room_s > 0 else 0.0,
    }


_VALUES: Final = (
    "weighted_jct_s",
    "mean_jct_s",
    "p50_jct_s",
    "p95_jct_s",
    "p99_jct_s",
    "makespan_s",
    "utilization",
)


def bound_values(
    bound: Bound | None, values: Mapping[str, float | None], *, unfinished: int
) -> dict[str, object]:
    """Return ``lower_bound`` and ``gap`` and, for each that is null, the reason."""
    # The first three keys are null together; the other two then both carry the reason.
    if bound is None or (bound.weighted_jct_s is None and bound.makespan_s is None):
        reason = bound.reason if bound and bound.reason else "no bound is known for this run"
        return dict.fromkeys(_BOUND[:3]) | dict.fromkeys(_BOUND[3:], reason)
    # The bound is one of all jobs: where some did not finish, the value lacks their share, and
    # value / bound - 1 would look better than the schedule is.
    gap = {
        "weighted_jct": _gap(values["weighted_jct_s"], bound.weighted_jct_s),
        "makespan": _gap(values["makespan_s"], bound.makespan_s),
    }
    return {
        "lower_bound": {"weighted_jct_s": bound.weighted_jct_s, "makespan_s": bound.makespan_s},
        "gap": None if unfinished else gap,
        "lower_bound_by": {"weighted_jct": bound.weighted_jct_by, "makespan": bound.makespan_by},
        "lower_bound_reason": bound.reason or None,
        "gap_reason": f"{count(unfinished, 'job')} did not finish" if unfinished else None,
    }


_BOUND: Final = ("lower_bound", "gap", "lower_bound_by", "lower_bound_reason", "gap_reason")


def _gap(value: float | None, bound: float | None) -> float | None:
    """Return value / bound - 1; None where either is not known or the bound is 0."""
    return None if value is None or not bound else value / bound - 1.0


def job_rows(record: Record) -> list[JobRow]:
    """Return one row a job, in workload order, with the columns of ``jobs.csv``.

    ``rounds`` is the number of rounds run for a finished job (a stop rule may end it early) and
    the number asked for otherwise. Unknown values are None. Live runs have four more columns.
    """
    start_ns_J = first_start_ns(record)
    ran_J = record.history.rounds_run()
    losses = _final_losses(record)
    rows = []
    for job in record.run.workload.jobs:
        finish_ns, start_ns = int(record.history.finish_ns_J[job.index]), int(start_ns_J[job.index])
        done = finish_ns >= 0
        row: JobRow = {
            "job": job.name,
            "arrival_s": job.arrival_ns / NS_PER_S,
            "start_s": start_ns / NS_PER_S if start_ns < NEVER_NS else None,
            "finish_s": finish_ns / NS_PER_S if done else None,
            "jct_s": (finish_ns - job.arrival_ns) / NS_PER_S if done else None,
            "weight": job.weight,
            "rounds": int(ran_J[job.index]) if done else job.rounds,
            "scale": job.scale,
            "status": record.history.status(job.index),
            "model": job.model,
            "batch": job.batch,
            "sync": job.sync,
            "user": job.user,
            "group": job.group,
            "seed": job.seed,
        }
        if record.live:
            _add_live_columns(row, record, job.index, losses)
        rows.append(row)
    return rows


def _add_live_columns(row: JobRow, record: Record, job: int, losses: Mapping[int, float]) -> None:
    """Add the columns of a job that only a live run has: parameters, loss, numerics, app."""
    saved = record.history.saved.get(job)
    row["params_sha256"] = saved.sha256 if saved else None
    row["final_loss"] = losses.get(job)
    row["numerics"] = saved.numerics if saved else None
    # Several, one after the other, where the app's text changed before the job had ended.
    row["app_sha256"] = " ".join(record.history.apps_of(job)) or None


def arrival_ns(record: Record) -> IntArray:
    """Return for each job when it arrived."""
    return np.array([job.arrival_ns for job in record.run.workload.jobs], dtype=np.int64)


def first_start_ns(record: Record) -> IntArray:
    """Return for each job when its first task started; ``NEVER_NS`` where none did."""
    start_ns_J = np.full(len(record.run.workload.jobs), NEVER_NS, dtype=np.int64)
    np.minimum.at(start_ns_J, record.history.timeline.job_R, record.history.timeline.start_ns_R)
    return start_ns_J


def mean_wait_s(record: Record) -> float | None:
    """Return the mean time from arrival to first task of jobs that finished; None where none did.

    In seconds.
    """
    done_J = record.history.finish_ns_J >= 0
    # A live start may be stamped a rounding before its arrival.
    wait_ns_J = np.maximum(0, first_start_ns(record) - arrival_ns(record))[done_J]
    return float(wait_ns_J.mean()) / NS_PER_S if len(wait_ns_J) else None


def last_end_ns(record: Record) -> IntArray:
    """Return for each job its finish, or the last end of a task if it did not finish.

    A job that never ran ends as it arrives.
    """
    last_ns_J = arrival_ns(record)
    line = record.history.timeline
    np.maximum.at(last_ns_J, line.job_R, line.end_ns_R)
    return np.where(record.history.finish_ns_J >= 0, record.history.finish_ns_J, last_ns_J)


def _final_losses(record: Record) -> dict[int, float]:
    """Return for each job the loss of its last round with a loss."""
    # Rounds are in the order of the journal, so a later one replaces those before it.
    return {event.job: event.loss for event in record.history.rounds if event.loss is not None}


def _makespan_s(finish_ns: IntArray, arrival_ns: IntArray) -> float:
    """Return last finish minus first arrival in seconds; 0 where no job finished."""
    return int(finish_ns.max() - arrival_ns.min()) / NS_PER_S if len(finish_ns) else 0.0


def _utilization_by_type(record: Record, makespan_s: float | None) -> dict[str, float | None]:
    """Return COMP time of finished jobs on each device type / (its devices x makespan).

    None for a type without devices, and for all types where the makespan is 0 or not known.
    """
    timeline, cluster = record.history.timeline, record.run.cluster
    type_D = np.array(cluster.type_of_device, dtype=np.int64)
    counted_R = (record.history.finish_ns_J >= 0)[timeline.job_R]
    names = cluster.type_names
    busy_ns_T = np.zeros(len(names), dtype=np.int64)
    np.add.at(busy_ns_T, type_D[timeline.device_R[counted_R]], timeline.busy_ns_R[counted_R])
    count_T = np.bincount(type_D, minlength=len(names))
    return {
        name: float(busy_ns_T[index] / NS_PER_S / (count_T[index] * makespan_s))
        if makespan_s and count_T[index]
        else None
        for index, name in enumerate(names)
    }
