"""Rules on ``jobs.csv`` and ``summary.json``: recomputed from the timeline and compared."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import numpy as np

from warren.model.costs import IntArray
from warren.model.units import NEVER_NS, NS_PER_S
from warren.report.checks.fault import Fault, listed
from warren.report.checks.run_folder import NO_TIME, SUMMARY, FolderTables
from warren.report.fairness.slowdown import FinishedJobs, fairness_values
from warren.report.metrics import STATUSES, JobRow, values_of

TOLERANCE: Final = 1e-9
"""Relative difference allowed between a number of ``summary.json`` and the recomputed one."""


def check_jobs(run: FolderTables) -> list[Fault]:
    """Return all faults of ``jobs.csv``."""
    # First start, last end and number of tasks of each job, from the timeline; a job that has no
    # row there keeps NEVER_NS, NO_TIME and 0.
    line = run.timeline
    first_ns_J = np.full(len(run.jobs), NEVER_NS, dtype=np.int64)
    last_ns_J = np.full(len(run.jobs), NO_TIME, dtype=np.int64)
    tasks_J = np.zeros(len(run.jobs), dtype=np.int64)
    np.minimum.at(first_ns_J, line.job_R, line.start_ns_R)
    np.maximum.at(last_ns_J, line.job_R, line.end_ns_R)
    np.add.at(tasks_J, line.job_R, line.tasks_R)
    return [
        *_statuses(run),
        *_starts(run, first_ns_J),
        *_finishes(run, last_ns_J),
        *_jcts(run),
        *_task_sums(run, tasks_J),
    ]


def _statuses(run: FolderTables) -> list[Fault]:
    """Return the jobs whose status is not known or contradicts their times."""

    def fault(place: int) -> Fault:
        """Return the fault of the job in one row."""
        row = run.jobs[place]
        return Fault(
            place=run.job(place),
            what=f"status {row['status']} with finish_s {row['finish_s']} and jct_s {row['jct_s']}",
            expected=f"one of {', '.join(STATUSES)}; both times for finished, none for others",
        )

    return listed([_status_wrong(row) for row in run.jobs], fault)


def _status_wrong(row: JobRow) -> bool:
    """Tell whether a status is not known, or not the one with a finish and a JCT."""
    done = row["status"] == "finished"
    times_fit = (row["finish_s"] is not None) == done and (row["jct_s"] is not None) == done
    return row["status"] not in STATUSES or not times_fit


def _starts(run: FolderTables, first_ns_J: IntArray) -> list[Fault]:
    """Return the jobs whose ``start_s`` is not the first start of a task of theirs."""
    want_ns_J = np.where(first_ns_J == NEVER_NS, NO_TIME, first_ns_J)
    wrong_J = np.abs(run.start_ns_J - want_ns_J) > run.rules.slack_ns
    # NO_TIME is -1: a start within the slack of 0 would pass for it.
    wrong_J |= (run.start_ns_J == NO_TIME) != (want_ns_J == NO_TIME)
    return listed(wrong_J, lambda j: _differs(run, j, "start_s", want_ns_J[j]))


def _finishes(run: FolderTables, last_ns_J: IntArray) -> list[Fault]:
    """Demand that a finish is the last end of a task; it may be later live, or with servers.

    There the last barrier may evaluate the job's metric, or wait for parts of other servers.
    """
    waits_J = np.full(len(run.finished_J), run.rules.live)
    if run.links is not None:
        waits_J |= [
            any(gathered for held in placings.values() for *_, gathered in held)
            for placings in run.links.servers_J
        ]
    known_J = run.finished_J & (run.finish_ns_J != NO_TIME)
    late_J = run.finish_ns_J > last_ns_J + run.rules.slack_ns
    early_J = run.finish_ns_J < last_ns_J - run.rules.slack_ns
    wrong_J = known_J & (early_J | (late_J & ~waits_J) | (last_ns_J == NO_TIME))
    return listed(wrong_J, lambda j: _differs(run, j, "finish_s", last_ns_J[j]))


def _jcts(run: FolderTables) -> list[Fault]:
    """Return the jobs whose JCT is not finish minus arrival."""
    want_ns_J = run.finish_ns_J - run.arrival_ns_J
    known_J = (run.finish_ns_J != NO_TIME) & (run.jct_ns_J != NO_TIME)
    # The JCT was computed as finish minus arrival, so no stamp's error counts here, live neither:
    # only the rounding to and from seconds as doubles.
    exact_ns = 2 + 4 * np.finfo(float).eps * np.abs(run.finish_ns_J)
    wrong_J = known_J & (np.abs(run.jct_ns_J - want_ns_J) > exact_ns)
    return listed(wrong_J, lambda j: _differs(run, j, "jct_s", want_ns_J[j]))


def _differs(run: FolderTables, job: int, column: str, want_ns: int) -> Fault:
    """Return the fault of a time of a job that should be another one, or empty."""
    want = "empty: nothing ran" if want_ns == NO_TIME else f"{want_ns / NS_PER_S}"
    row: Mapping[str, object] = run.jobs[job]
    return Fault(place=run.job(job), what=f"{column} is {row[column]}", expected=want)


def _task_sums(run: FolderTables, tasks_J: IntArray) -> list[Fault]:
    """Return the finished jobs that have more or fewer tasks than scale x rounds."""
    want_J = run.scale_J * run.rounds_J
    return listed(
        run.finished_J & (tasks_J != want_J),
        lambda j: Fault(
            place=run.job(j),
            what=f"finished with {tasks_J[j]} tasks in the timeline",
            expected=f"{want_J[j]} = scale x rounds",
        ),
    )


def check_summary(run: FolderTables) -> list[Fault]:
    """Return all faults of ``summary.json``, the bound and the gap included."""
    want: dict[str, object] = {
        "jobs": len(run.jobs),
        "devices": len(run.devices),
        "tasks": int(run.timeline.tasks_R.sum()),
        **{status: sum(row["status"] == status for row in run.jobs) for status in STATUSES},
        **_values(run),
        **_fairness(run),
    }
    faults = [
        Fault(place=f"{SUMMARY} {key}", what=f"is {run.summary.get(key)}", expected=f"{value}")
        for key, value in want.items()
        if not _same(run.summary.get(key), value)
    ]
    return faults + _rollbacks(run) + _bound(run)


def _rollbacks(run: FolderTables) -> list[Fault]:
    """Demand that a loss costs a job at most one interval between checkpoints, if it states one."""
    # ``round`` is where the job goes on, ``passed`` the barriers it had passed: the difference is
    # the rounds that were lost.
    returns = run.summary.get("rolled_back") or []
    faults = [
        Fault(
            place=f"{SUMMARY} rolled_back {place}",
            what=f"job {one['job']} lost rounds {one['round']} to {one['passed'] - 1}",
            expected=f"at most {one['checkpoint']} rounds, its checkpoint.every",
        )
        for place, one in enumerate(returns)
        if one["checkpoint"] is not None and one["passed"] - one["round"] > one["checkpoint"]
    ]
    if (run.summary.get("rollbacks") or 0) != len(returns):
        what = f"is {run.summary.get('rollbacks')}"
        faults.append(Fault(place=f"{SUMMARY} rollbacks", what=what, expected=f"{len(returns)}"))
    return faults


def _values(run: FolderTables) -> dict[str, float | None]:
    """Compute the metrics of ``summary.json`` from the tables, as ``report.metrics`` does."""
    line, done_J = run.timeline, run.finished_J & (run.finish_ns_J != NO_TIME)
    arrival_ns, finish_ns = run.arrival_ns_J[done_J], run.finish_ns_J[done_J]
    makespan_ns = int(finish_ns.max() - arrival_ns.min()) if done_J.any() else 0
    return values_of(
        jct_s=(finish_ns - arrival_ns) / NS_PER_S,
        weight=np.array([row["weight"] for row in run.jobs], dtype=float)[done_J],
        makespan_s=makespan_ns / NS_PER_S,
        busy_s=int(line.busy_ns_R[done_J[line.job_R]].sum()) / NS_PER_S,
        devices=len(run.devices),
    )


def _fairness(run: FolderTables) -> dict[str, float | None]:
    """Compute slow-down and fairness from the tables; a folder of before has neither."""
    done_J = run.finished_J & (run.finish_ns_J != NO_TIME)
    jobs = FinishedJobs(
        arrival_ns_J=run.arrival_ns_J[done_J],
        finish_ns_J=run.finish_ns_J[done_J],
        rounds_J=run.rounds_J[done_J],
        scale_J=run.scale_J[done_J],
        ring_J=np.array([row["sync"] == "ring" for row in run.jobs], dtype=np.bool_)[done_J],
        comp_ns_JT=run.comp_ns_JT[done_J],
        sync_ns_JT=run.sync_ns_JT[done_J],
        devices_T=np.bincount(run.type_D, minlength=len(run.types)),
    )
    return {key: value for key, value in fairness_values(jobs).items() if key in run.summary}


def _bound(run: FolderTables) -> list[Fault]:
    """Check bounds and gaps when every job finished, since bounds hold for whole schedules only."""
    bounds, gaps = run.summary.get("lower_bound"), run.summary.get("gap")
    if bounds is None or not run.finished_J.all():
        return [] if gaps is None else [_gap_fault(gaps, "null without a bound or a finish")]
    faults: list[Fault] = []
    for key, gap_key in (("weighted_jct_s", "weighted_jct"), ("makespan_s", "makespan")):
        bound, value = bounds.get(key), run.summary.get(key)
        if bound is None or value is None:
            continue
        # The tolerance is for rounding alone: a schedule that beats a bound disproves it.
        if bound > value * (1.0 + TOLERANCE):
            place = f"{SUMMARY} lower_bound.{key}"
            expected = f"at most the schedule's own {value}"
            faults.append(Fault(place=place, what=f"is {bound}", expected=expected))
        gap = (gaps or {}).get(gap_key)
        if bound and not _same(gap, value / bound - 1.0):
            faults.append(_gap_fault({gap_key: gap}, f"{value / bound - 1.0}"))
    return faults


def _gap_fault(found: object, expected: str) -> Fault:
    """Return the fault of a gap that should be another one."""
    return Fault(place=f"{SUMMARY} gap", what=f"is {found}", expected=expected)


def _same(found: object, want: object) -> bool:
    """Tell whether two values agree: doubles within ``TOLERANCE``, all else exactly."""
    if isinstance(want, float) and isinstance(found, int | float):
        return math.isclose(found, want, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    return found == want
