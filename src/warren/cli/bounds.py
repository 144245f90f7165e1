"""Which lower bound goes beside a schedule, and when none can be given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import lru_cache
from typing import Any

import numpy as np

from warren.core.journal_reader import History
from warren.model.costs import CostTable, IntArray
from warren.model.run import Run
from warren.report.record import LIVE, Bound

Columns = tuple[tuple[str, str, tuple[int, ...], bytes], ...]
"""What ``solve`` asks for, as a key: name, type, shape and content of each array."""
Solve = Callable[[Columns], Bound]


def lower_bound(run: Run, costs: CostTable, history: History, solve: Solve | None = None) -> Bound:
    """A bound valid for the durations that really held, or the reason why there is none.

    Simulated task times are the profile's, or drawn around it by ``truth``, where no bound from
    the profile holds. Emulated live tasks take at least their padded time, so the profile's bound
    holds for them, unless pads were drawn from measured jitter. A stop rule may end a job early:
    the rounds that ran are what counts.
    """
    reason = why_none(run, history.header.world)
    if reason:
        return _none(reason)
    if np.any(history.finish_ns_J < 0):
        return _none("not every job finished")
    return (solve or bound_of)(packed(columns_of(run, costs, _rounds_run(history))))


def why_none(run: Run, world: str) -> str:
    """Why no bound can hold, however the run goes in this world; empty if one can."""
    if run.truth.task_cv or run.truth.job_cv:
        return "task times are drawn around the profile, so its bound does not hold"
    if world == LIVE and run.cluster.emulate is None:
        return "live task times without emulation are not known in advance"
    if world == LIVE and run.cluster.emulate and run.cluster.emulate.jitter:
        return "pads drawn from measured jitter may be shorter than the profile's times"
    if world != LIVE and run.cluster.raises_times:
        return "measured overheads are added to the profile, so its bound does not hold"
    if run.cluster.engine == "plain" and world == LIVE:
        return "the plain engine runs jobs one after the other, at its own speed"
    return "" if run.workload.jobs else "there are no jobs"


def columns_of(run: Run, costs: CostTable, rounds_J: IntArray) -> dict[str, Any]:
    """What the bounds ask for, by name; ``rounds_J`` are those that count."""
    jobs = run.workload.jobs
    return {
        "arrival_ns_J": np.array([job.arrival_ns for job in jobs], dtype=np.int64),
        "weight_J": np.array([job.weight for job in jobs], dtype=np.float64),
        "scale_J": np.array([job.scale for job in jobs], dtype=np.int64),
        "rounds_J": rounds_J,
        "comp_ns_JT": costs.comp_ns_JT,
        "sync_ns_JT": costs.sync_ns_JT,
        "fits_JT": costs.fits_JT,
        "type_D": np.array(run.cluster.type_of_device, dtype=np.int64),
        "gang_J": np.array([job.sync == "ring" for job in jobs], dtype=np.bool_),
    }


def packed(columns: dict[str, Any]) -> Columns:
    """The columns as a key."""
    return tuple((name, a.dtype.str, a.shape, a.tobytes()) for name, a in columns.items())


@lru_cache(maxsize=32)
def bound_of(columns: Columns) -> Bound:
    """The bound of these columns; ``compare`` asks for the same ones once for each policy."""
    from warren.solve.bounds.lower_bounds import lower_bounds

    arrays: dict[str, Any] = {
        name: np.frombuffer(content, dtype=np.dtype(kind)).reshape(shape)
        for name, kind, shape, content in columns
    }
    return Bound(**asdict(lower_bounds(**arrays)))


def _rounds_run(history: History) -> IntArray:
    """Rounds that ran of each job: one past the last round in the timeline."""
    timeline = history.timeline
    ran_J = np.zeros(len(history.finish_ns_J), dtype=np.int64)
    np.maximum.at(ran_J, timeline.job_R, timeline.round_R + timeline.rounds_R)
    return ran_J


def _none(reason: str) -> Bound:
    return Bound(weighted_jct_s=None, makespan_s=None, reason=reason)
