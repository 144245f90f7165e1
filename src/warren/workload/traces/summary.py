"""Summarize a trace: sizes, arrivals, and how heavy its tail is.

A job's *work* is its run time times its GPUs. Three figures describe the tail, since a policy that
serves the least served job first depends on it: the work of the largest jobs, the coefficient of
variation of work (1 for an exponential distribution), and Hill's estimate of the tail index over
the largest twentieth (Hill 1975): alpha = k / sum of ln(x_i / x_(k+1)), where work beyond x falls
as x ** -alpha. Below 2 the variance is infinite: a heavy tail.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from warren.model.costs import FloatArray
from warren.model.units import NS_PER_S
from warren.workload.traces.read_trace import TraceRows
from warren.workload.traces.rows import FIRST, TraceRow

QUANTILES: Final = (1, 10, 25, 50, 75, 90, 99)
_HILL_PART: Final = 0.05
_HILL_LEAST: Final = 10
_SHOWN: Final = 20


def summary_of(found: TraceRows) -> dict[str, Any]:
    """Return everything ``warren trace inspect --json`` prints, apart from the file's name.

    Times in seconds, work in GPU-seconds; null where the trace does not tell.
    """
    rows = found.rows
    return {
        "format": found.format,
        "jobs": len(rows),
        "unused_rows": found.unused.total,
        "unused": [
            {"reason": reason, "rows": len(at), "first": [line for line, _ in at[:FIRST]]}
            for reason, at in found.unused.rows.items()
        ],
        "notes": list(found.notes),
        **_arrivals(rows),
        "gpus": _gpus(rows),
        "run_s": _quantiles(_runs_s(rows)),
        "tail": _tail(rows),
        "models": _counts(row.model for row in rows),
        "users": len({row.user for row in rows if row.user}),
        "pools": _counts(row.pool for row in rows),
    }


def _arrivals(rows: Sequence[TraceRow]) -> dict[str, Any]:
    """Return the span of arrivals, the gaps between them, and rows that are equal."""
    submitted = np.array([row.submitted_ns for row in rows], dtype=np.int64)
    ordered = np.sort(submitted)
    # Between arrivals in order of time, whatever the order of rows.
    gaps_s = np.diff(ordered) / NS_PER_S
    # Equal rows may be jobs submitted in bursts, or a fault of the file.
    same = Counter(_told(row) for row in rows)
    span_s = float(ordered[-1] - ordered[0]) / NS_PER_S if len(rows) else 0.0
    return {
        "span_s": span_s,
        "in_order": bool(np.all(submitted[1:] >= submitted[:-1])),
        "equal_rows": sum(count - 1 for count in same.values()),
        "gap_s": _quantiles(gaps_s),
        # One gap has no variation.
        "gap_cv": _cv(gaps_s) if len(gaps_s) > 1 else None,
        "gaps_of_0": int(np.count_nonzero(gaps_s == 0)),
        "gpus_busy": _ratio(float(_work(rows).sum()), _busy_span_s(rows)),
    }


def _busy_span_s(rows: Sequence[TraceRow]) -> float:
    """Return the time from the first arrival to the last end, if no job had to wait.

    Only jobs with a known run time count, since others are no known work.
    """
    known = [(row.submitted_ns, row.run_ns) for row in rows if row.run_ns is not None]
    if not known:
        return 0.0
    first_ns = min(submitted_ns for submitted_ns, _ in known)
    return (max(submitted_ns + run_ns for submitted_ns, run_ns in known) - first_ns) / NS_PER_S


def _told(row: TraceRow) -> tuple[object, ...]:
    """Return the content of a trace's row, without its id."""
    when = (row.submitted_ns, row.gpus, row.run_ns, row.steps)
    return (*when, row.model, row.batch, row.weight, row.user, row.group, row.pool)


def _gpus(rows: Sequence[TraceRow]) -> list[dict[str, Any]]:
    """Return an entry for each number of GPUs: its jobs, their share, and that of the work."""
    total = float(_work(rows).sum())
    result = []
    for gpus in sorted({row.gpus for row in rows}):
        of = [row for row in rows if row.gpus == gpus]
        share = _ratio(float(_work(of).sum()), total)
        result.append(
            {"gpus": gpus, "jobs": len(of), "share": len(of) / len(rows), "work_share": share}
        )
    return result


def _tail(rows: Sequence[TraceRow]) -> dict[str, Any] | None:
    """Return three measures of the tail of the work; None where no run time is known."""
    # Largest first: x_1 >= x_2 >= ...
    work = np.sort(_work(rows))[::-1]
    if not len(work):
        return None
    total = float(work.sum())
    top = {f"top_{part}_pct_work": _top(work, part / 100, total) for part in (1, 10)}
    largest = _ratio(float(work[0]), total)
    return {**top, "top_job_work": largest, "work_cv": _cv(work), **_hill(work)}


def _top(work: FloatArray, part: float, total: float) -> float | None:
    """Return the share of the work that the largest jobs have, this part of all jobs.

    None where that part is less than one job.
    """
    jobs = part * len(work)
    return _ratio(float(work[: round(jobs)].sum()), total) if jobs >= 1 else None


def _hill(work: FloatArray) -> dict[str, Any]:
    """Return Hill's estimate; null where fewer than ``_HILL_LEAST`` jobs are in it or all equal."""
    largest = int(len(work) * _HILL_PART)
    # alpha = k / sum over i <= k of ln(x_i / x_(k+1)); counted from 0, x_(k+1) is work[k].
    logs = np.log(work[:largest] / work[largest]) if largest >= _HILL_LEAST else np.zeros(1)
    total = float(logs.sum())
    alpha = largest / total if total > 0 else None
    return {"hill": alpha, "hill_jobs": largest, "heavy": None if alpha is None else alpha < 2}


def _work(rows: Iterable[TraceRow]) -> FloatArray:
    """Return the GPU-seconds of the jobs with a known run time."""
    known = [row.run_ns * row.gpus for row in rows if row.run_ns is not None]
    return np.array(known, dtype=np.float64) / NS_PER_S


def _runs_s(rows: Iterable[TraceRow]) -> FloatArray:
    """Return the run times that are known, in seconds."""
    known = [row.run_ns for row in rows if row.run_ns is not None]
    return np.array(known, dtype=np.float64) / NS_PER_S


def _quantiles(values: FloatArray) -> dict[str, float] | None:
    if not len(values):
        return None
    found = np.percentile(values, QUANTILES)
    middle = {f"p{part}": float(value) for part, value in zip(QUANTILES, found, strict=True)}
    ends = {"mean": float(values.mean()), "least": float(values.min()), "most": float(values.max())}
    return {**middle, **ends}


def _cv(values: FloatArray) -> float | None:
    """Return the coefficient of variation: standard deviation over mean."""
    return _ratio(float(values.std()), float(values.mean())) if len(values) else None


def _ratio(value: float, of: float) -> float | None:
    return value / of if of > 0 else None


def _counts(names: Iterable[str]) -> Mapping[str, int]:
    """Count jobs by name, the most first; at most ``_SHOWN`` names, the others together."""
    counts = Counter(name for name in names if name)
    common = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    rest = sum(count for _, count in common[_SHOWN:])
    return {**dict(common[:_SHOWN]), **({"(others)": rest} if rest else {})}
