"""Runs side by side, and how well a simulation predicted the live run of the same workload."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypedDict

import numpy as np

from warren.report.metrics import Summary, summary
from warren.report.number_text import aligned, count, percent, time_unit
from warren.report.overruns import too_slow
from warren.report.record import Record
from warren.report.seeds import Row, mean_rows

COLUMNS: Final = (
    ("run", "run"),
    ("place", "place"),
    ("world", "world"),
    ("finished", "finished"),
    ("mean_jct_s", "mean JCT"),
    ("p95_jct_s", "p95 JCT"),
    ("mean_slowdown", "slow-down"),
    ("makespan_s", "makespan"),
    ("weighted_jct_s", "sum of weighted JCTs"),
    ("vs_best", "vs best"),
    ("utilization", "use"),
    ("gap", "gap"),
    ("decide_s", "decide"),
)
"""Key of a comparison row and its heading in a table, without the unit."""
_NAMES: Final = 5
"""A line names at most this many jobs."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a comparison: its key, its heading with the unit, and the unit in seconds."""

    key: str
    heading: str
    unit_s: float | None = None
    """None: its values are no times."""

    def text(self, row: Row) -> str:
        """Return the value of a row; a mean is followed by half its 95 % interval."""
        half = row.get("half", {}).get(self.key)
        text = self._cell(row.get(self.key))
        # The sign of per cent stands once, behind both.
        return text if half is None else f"{text.removesuffix(' %')} ± {self._cell(half)}"

    def _cell(self, value: object) -> str:
        """Return one value as text, shares as per cent; '-' for None."""
        if value is None:
            return "-"
        if isinstance(value, int):
            return f"{value:,}"
        if not isinstance(value, float):
            return str(value)
        # One unit and as many decimals in all rows, so that values compare at a glance.
        return percent(value) if self.unit_s is None else f"{value / self.unit_s:,.2f}"


def columns_of(rows: Sequence[Row]) -> list[Column]:
    """Return the columns of a comparison, each time in the unit that suits the largest of it."""
    found = []
    for key, heading in COLUMNS:
        # A factor is written as a time in its unit is, and it is not known of every run.
        if key == "mean_slowdown":
            found += [Column(key, heading, 1.0)] if any(row.get(key) for row in rows) else []
            continue
        if not key.endswith("_s"):
            found.append(Column(key, heading))
            continue
        unit_s, sign = time_unit(max((row.get(key) or 0.0 for row in rows), default=0.0))
        found.append(Column(key, f"{heading} {sign}", unit_s))
    return found


class JobError(TypedDict):
    """Live and simulated JCT of one job in seconds, and (simulated / live - 1) x 100."""

    job: str
    live_jct_s: float
    simulated_jct_s: float
    error_pct: float


class JctError(TypedDict):
    """Errors of one simulation's prediction of one live run; None if no job finished in both.

    ``slow_machine`` describes tasks of the live run that overran; empty: few did.
    """

    live: str
    simulated: str
    place: str
    jobs: int
    stopped_early: list[str]
    left_out: int
    mean_error_pct: float | None
    p95_error_pct: float | None
    max_error_pct: float | None
    bias_pct: float | None
    slow_machine: str
    per_job: list[JobError]


def compare(
    runs: Iterable[Record | Summary], problems: Sequence[Hashable] | None = None
) -> list[dict[str, Any]]:
    """Return one row a run, in the order given, with the values that ``COLUMNS`` names.

    ``vs_best`` is weighted JCT over the least, minus one. The least is that of the runs with as
    many jobs, the same seed and the same problem in which all jobs finished; a run in which not all
    finished has None. ``problems`` has one for each run; None: they have one problem. ``gap`` is
    that of the weighted JCT to its bound.
    """
    rows = [_row(run) for run in runs]
    # A sum over fewer jobs, or over other arrivals, is smaller for no merit of the policy: values
    # are compared only among runs of one key, and only where every job finished.
    keys = [
        (row["jobs"], row["seed"], problem)
        for row, problem in zip(rows, problems or [None] * len(rows), strict=True)
    ]
    best: dict[Hashable, float] = {}
    for key, row in zip(keys, rows, strict=True):
        if _whole(row):
            best[key] = min(row["weighted_jct_s"], best.get(key, np.inf))
    for key, row in zip(keys, rows, strict=True):
        least = best.get(key)
        row["vs_best"] = row["weighted_jct_s"] / least - 1.0 if least and _whole(row) else None
    return rows


def means(rows: Iterable[Row], against: str | None = None) -> list[dict[str, Any]]:
    """Return a row a policy of runs that differ in their seed alone, see ``report.seeds``."""
    return mean_rows(rows, [key for key, _ in COLUMNS], against)


def _whole(row: Row) -> bool:
    """Tell whether all jobs of the run finished, so that its weighted JCT can be compared."""
    return row["weighted_jct_s"] is not None and row["finished"] == row["jobs"]


def _row(run: Record | Summary) -> dict[str, Any]:
    """Return the comparison row of a run, without ``vs_best``, which needs the other runs."""
    found = summary(run) if isinstance(run, Record) else run
    kept = (
        "run",
        "world",
        "grain",
        "seed",
        "jobs",
        "finished",
        "failed",
        "weighted_jct_s",
        "mean_jct_s",
        "p50_jct_s",
        "p95_jct_s",
        "p99_jct_s",
        "mean_slowdown",
        "max_finish_time_fairness",
        "makespan_s",
        "utilization",
        "decide_s",
        "wall_s",
    )
    # ``get``: a summary that was read from a file may lack keys.
    return {
        **{key: found.get(key) for key in kept},
        "place": found["scheduler"]["place"],
        "gap": (found.get("gap") or {}).get("weighted_jct"),
    }


def jct_errors(records: Sequence[Record]) -> list[JctError]:
    """Return the JCT error of each pair of a live run and a simulated one of the same problem.

    ``error_pct`` of a job is (simulated / live - 1) x 100; mean, p95 (linear interpolation) and
    maximum are over its absolute value, ``bias_pct`` is the plain mean. Jobs that did not finish
    in both runs are left out and counted in ``left_out``. ``stopped_early`` names jobs that a
    ``stop`` rule ended live: a simulation runs all their rounds.
    """
    return [
        _jct_error(live, other)
        for live in records
        for other in records
        if live.live and not other.live and _same_problem(live, other)
    ]


def _same_problem(one: Record, other: Record) -> bool:
    """Tell whether two runs have the same policy and the same jobs."""
    return _identity(one) == _identity(other)


def _identity(record: Record) -> tuple[str, tuple[tuple[str, int, int], ...]]:
    """Return the common key of runs of one problem: policy, jobs, arrivals and scales."""
    jobs = tuple((job.name, job.arrival_ns, job.scale) for job in record.run.workload.jobs)
    return record.place, jobs


def _jct_error(live: Record, simulated: Record) -> JctError:
    """Set the JCTs of a simulated run against those of a live run of the same problem."""
    per_job: list[JobError] = []
    for job in live.run.workload.jobs:
        ends = [int(run.history.finish_ns_J[job.index]) for run in (live, simulated)]
        # A finish below 0 means that the job did not finish in that run.
        if min(ends) < 0:
            continue
        took, guess = ((end - job.arrival_ns) / 1e9 for end in ends)
        per_job.append(
            {
                "job": job.name,
                "live_jct_s": took,
                "simulated_jct_s": guess,
                "error_pct": 100.0 * (guess / took - 1.0) if took > 0 else 0.0,
            }
        )
    errors = np.array([row["error_pct"] for row in per_job])
    # Without absolute values, jobs that are predicted too long would hide those too short. The bias
    # keeps the sign, to show whether the simulation errs to one side.
    size = np.abs(errors)
    known = len(per_job) > 0
    return {
        "live": live.run.name,
        "simulated": simulated.run.name,
        "place": live.place,
        "jobs": len(per_job),
        "stopped_early": _stopped_early(live, [str(row["job"]) for row in per_job]),
        "left_out": len(live.run.workload.jobs) - len(per_job),
        "mean_error_pct": float(size.mean()) if known else None,
        "p95_error_pct": float(np.percentile(size, 95)) if known else None,
        "max_error_pct": float(size.max()) if known else None,
        "bias_pct": float(errors.mean()) if known else None,
        "slow_machine": too_slow(summary(live)),
        "per_job": per_job,
    }


def _stopped_early(live: Record, among: Sequence[str]) -> list[str]:
    """Return the names of the jobs of ``among`` that ran fewer rounds live than they asked for."""
    ran_J, known = live.history.rounds_run(), {*among}
    return [
        job.name
        for job in live.run.workload.jobs
        if job.name in known and job.rounds is not None and ran_J[job.index] < job.rounds
    ]


def comparison_table(
    rows: Iterable[Row], against: str | None = None
) -> tuple[list[str], list[list[str]]]:
    """Return headings and cells of a comparison as text; '-' where nothing is known.

    ``against`` adds a column for the difference to that policy, seed by seed.
    """
    rows = list(rows)
    columns = columns_of(rows)
    headings = [column.heading for column in columns]
    cells = [[column.text(row) for column in columns] for row in rows]
    if against is not None:
        headings.append(f"against {against}")
        for row, line in zip(rows, cells, strict=True):
            line.append(difference_text(row))
    return headings, cells


def difference_text(row: Row) -> str:
    """Return in per cent how much more or less a policy has than the one it is compared with."""
    if (found := row.get("difference")) is None:
        return "-"
    mean, half = found
    return f"{100 * mean:+.1f}{'' if half is None else f' ± {100 * half:.1f}'} %"


def comparison_lines(
    rows: Iterable[Row],
    errors: Iterable[JctError] = (),
    against: str | None = None,
) -> list[str]:
    """Return the comparison as aligned lines: runs, means by seed, then a line a prediction."""
    rows = list(rows)
    headings, cells = comparison_table([*rows, *means(rows, against)], against)
    return [*aligned([headings, *cells]), *(error_line(error) for error in errors)]


def error_line(error: JctError) -> str:
    """Return in one sentence how well a simulation predicted the live run."""
    head = f"{error['simulated']} (simulated) against {error['live']} (live), {error['place']}: "
    if not error["jobs"]:
        return head + "no job finished in both"
    early = error["stopped_early"]
    more = ", ..." if len(early) > _NAMES else ""
    stopped = f"; stopped early live: {', '.join(early[:_NAMES])}{more}" if early else ""
    slow = error["slow_machine"]
    cause = f"; {slow} in {error['live']}: its machine was too slow for them" if slow else ""
    return head + (
        f"JCT error of {count(error['jobs'], 'job')}: mean {error['mean_error_pct']:.2f} %, "
        f"p95 {error['p95_error_pct']:.2f} %, max {error['max_error_pct']:.2f} %{stopped}{cause}"
    )
