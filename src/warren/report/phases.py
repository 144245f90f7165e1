"""Where the time of a live run went: tasks a second, shares of phases, and what a user can change.

The shares are of the time in which a job's tasks had their devices, and of what these waited for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from warren.model.measured import PhaseTimes, added
from warren.model.units import NS_PER_S, seconds_to_ns
from warren.report.number_text import number, percent
from warren.report.record import Record

PHASES: Final = {
    "computing": "computing",
    "data": "waiting for data",
    "copying": "copying",
    "adding": "adding updates",
    "stepping": "stepping",
    "controller": "waiting for the controller",
}
"""Names of phases for people, in the order in which they are listed."""
_MUCH: Final = 0.2
"""Share of the time from which on a wait is worth an advice."""
_LONGER: Final = 10
"""Factor by which the grain is raised where devices wait for the controller."""
_LONGEST_S: Final = 1e9
"""Seconds above which a value read from a file is no time of a run."""


def advice(
    times: PhaseTimes, *, workers: int | None = None, processors: int = 1, grain: int | None = None
) -> str | None:
    """Return one line on the longest wait that a user can change; None if there is none.

    Parameters
    ----------
    times
        The times of a job, or of all jobs of a device.
    workers
        Number of processes that build batches for each trainer; 0: the trainer builds them itself.
        None: there can be none.
    processors
        Number of processors that each trainer may use for that.
    grain
        Number of rounds that a decision assigns; None: as many as take some time.
    """
    shares = times.shares()
    data, controller = shares.get("data", 0.0), shares.get("controller", 0.0)
    if max(data, controller) < _MUCH:
        return None
    if controller > data:
        waits = f"{100 * controller:.0f} % of the time waits for the controller"
        return waits if grain is None else f"{waits}: grain: {_LONGER * grain}"
    waits = f"{100 * data:.0f} % of the time waits for data"
    if workers is None:
        return f"{waits}: let dataset() return tensors, whose batches are built ahead"
    if workers >= processors:
        return f"{waits}, and all processors build it: store it decoded, or smaller"
    return f"{waits}: workers: {min(_workers(data, workers), processors)}"


def _workers(data: float, workers: int) -> int:
    """Return the workers with which no task would wait for data, if each is as fast as now.

    ``data`` is the share of the time that waits. A batch takes one worker the time in which
    ``workers`` tasks end; without workers, it takes the time that is waited.
    """
    rest = max(1.0 - data, 1e-3)
    return max(workers + 1, math.ceil((workers if workers else data) / rest))


def tasks_per_s(record: Record, job: int | None = None) -> float | None:
    """Return the tasks a second of a job, or of all, from first start to last end; None: no task.

    In cluster seconds.
    """
    line = record.history.timeline
    rows = np.ones(len(line.job_R), dtype=bool) if job is None else line.job_R == job
    if not rows.any():
        return None
    took_ns = int(line.end_ns_R[rows].max() - line.start_ns_R[rows].min())
    return int(line.tasks_R[rows].sum()) * NS_PER_S / took_ns if took_ns else None


def phase_values(record: Record) -> dict[str, Any]:
    """Return the keys of ``summary.json`` about speed and phases; none for a simulation.

    ``phases`` has, for each job with measured times, seconds by phase, its tasks a second, and the
    ``advice``, which is None where there is none.
    """
    if not record.live:
        return {}
    jobs = record.run.workload.jobs
    rows = [
        {
            "job": jobs[job].name,
            "tasks_per_s": tasks_per_s(record, job),
            **{f"{phase}_s": getattr(times, f"{phase}_ns") / NS_PER_S for phase in PHASES},
            "advice": advice(times, grain=record.run.grain.rounds),
        }
        for job, times in sorted(record.phases.items())
    ]
    found: dict[str, Any] = {"tasks_per_s": tasks_per_s(record)}
    return found | ({"phases": rows} if rows else {})


def phase_lines(found: Mapping[str, Any]) -> list[str]:
    """Return a summary's speed and phases as a line, and a line for each job with an advice."""
    if found.get("tasks_per_s") is None:
        return []
    line = f"{number(found['tasks_per_s'])} tasks a second"
    rows = found.get("phases", [])
    if shares := added(map(times_of, rows)).shares() if rows else {}:
        parts = [f"{name} {percent(shares[key])}" for key, name in PHASES.items() if shares[key]]
        line = f"{line}; {', '.join(parts)}"
    return [line, *(f"{row['job']}: {row['advice']}" for row in rows if row["advice"])]


def times_of(row: Mapping[str, Any]) -> PhaseTimes:
    """Return the times of a row of ``phases``; values that are no times count as 0."""
    found = {phase: row.get(f"{phase}_s") for phase in PHASES}
    return PhaseTimes(
        **{
            f"{phase}_ns": seconds_to_ns(value)
            for phase, value in found.items()
            if isinstance(value, int | float) and 0 <= value < _LONGEST_S
        }
    )
