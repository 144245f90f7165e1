"""Rows of ``profiles`` as they change: by measuring, and by the times of live runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Final

from warren.model.history_rows import Profile
from warren.profile.measured import MeasuredCost, TaskKind

ALPHA: Final = 0.1
"""Weight of a single task in a moving average: the last 22 tasks make up 90 % of it."""


@dataclass(frozen=True, slots=True)
class TaskAverages:
    """Average times of ``tasks`` tasks, in real seconds; ``sync_s`` None: not seen."""

    tasks: int
    comp_s: float
    sync_s: float | None


def averaged(mean: float | None, samples: Iterable[tuple[float, int]]) -> float | None:
    """Update an exponential moving average by samples, each (mean of n tasks, n).

    m <- m + alpha (x - m) for each task, all tasks of a sample being at its mean x: n of them give
    m <- x + (1 - alpha)^n (m - x). The first sample begins the average.
    """
    # All tasks of a sample at once: the old mean keeps the share (1 - alpha)^n.
    for value, tasks in samples:
        if tasks > 0:
            mean = value if mean is None else value + (1.0 - ALPHA) ** tasks * (mean - value)
    return mean


def blank(kind: TaskKind, device_type: str, at: float) -> Profile:
    """Make an empty row; ``at`` is Unix time."""
    return Profile(
        **asdict(kind),
        key=kind.key,
        device_type=device_type,
        job="",
        model=None,
        model_bytes=0,
        memory_bytes=0,
        comp_s=None,
        sync_s=None,
        samples=0,
        comp_avg_s=None,
        sync_avg_s=None,
        avg_tasks=0,
        updated_at=at,
    )


def with_measured(row: Profile, found: MeasuredCost, samples: int, at: float) -> Profile:
    """Return the row after ``samples`` tasks were measured alone, in place of earlier measurements.

    ``at`` is Unix time.
    """
    return replace(
        row,
        comp_s=found.comp_s,
        sync_s=found.sync_s,
        samples=samples,
        model_bytes=found.model_bytes,
        memory_bytes=found.memory_bytes,
        updated_at=at,
        load=found.load,
    )


def with_taken(row: Profile, taken: Iterable[TaskAverages], at: float) -> Profile:
    """Return the row after a live run's tasks, given in the order in which they ended.

    ``at`` is Unix time.
    """
    # A synchronization time counts as one task's, however many tasks there were.
    seen = tuple(taken)
    return replace(
        row,
        comp_avg_s=averaged(row.comp_avg_s, ((one.comp_s, one.tasks) for one in seen)),
        sync_avg_s=averaged(
            row.sync_avg_s, ((one.sync_s, 1) for one in seen if one.sync_s is not None)
        ),
        avg_tasks=row.avg_tasks + sum(one.tasks for one in seen),
        updated_at=at,
    )


def as_measured(row: Profile) -> MeasuredCost | None:
    """Return the costs that a run plans with: times alone, else the averages; else None."""
    if row.comp_s is not None:
        comp_s, sync_s = row.comp_s, row.sync_s
    elif row.comp_avg_s is not None:
        comp_s, sync_s = row.comp_avg_s, row.sync_avg_s
    else:
        return None
    return MeasuredCost(
        comp_s=comp_s, sync_s=sync_s, model_bytes=row.model_bytes, memory_bytes=row.memory_bytes
    )
