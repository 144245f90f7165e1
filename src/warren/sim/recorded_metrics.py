"""Metrics of jobs in an earlier run, shown again: the same rounds have the same values.

A job's parameters, and so its metrics, depend on its rounds and on no schedule. So a simulation of
jobs that were trained once, live or by the plain loop, can show its policies the values of a live
run, though it trains nothing. Only when a round ends differs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Protocol

from warren.model.job import Job
from warren.model.run import Run
from warren.sim.hidden_curves import HiddenCurves, Metrics


class ShownMetrics(Protocol):
    """Metrics that a job's rounds show at their last barrier."""

    def metrics(self, job: int, first: int, rounds: int) -> Metrics:
        """Return the metrics that ``rounds`` rounds from ``first`` on show; empty: none."""
        ...


def shown_metrics(run: Run) -> ShownMetrics | None:
    """Return the metrics that the jobs of a simulation show; None if no job shows any."""
    truth, jobs = run.truth, run.workload.jobs
    drawn = HiddenCurves(jobs, truth.losses, truth.seed) if truth.losses else None
    return drawn if truth.metrics is None else RecordedMetrics(jobs, truth.metrics, drawn)


class RecordedMetrics:
    """The values of an earlier run by job, and ``others`` for jobs that have none there."""

    __slots__ = ("_others", "_rounds_J", "_stops", "_values_J")

    def __init__(
        self,
        jobs: Sequence[Job],
        recorded: Mapping[str, Sequence[tuple[int, float]]],
        others: ShownMetrics | None,
    ) -> None:
        found = [recorded.get(job.name) if job.stop else None for job in jobs]
        self._stops = [job.stop for job in jobs]
        self._others = others
        self._rounds_J = [None if one is None else [done for done, _ in one] for one in found]
        self._values_J = [[] if one is None else [value for _, value in one] for one in found]

    def metrics(self, job: int, first: int, rounds: int) -> Metrics:
        """Return the last value recorded after one of ``rounds`` rounds from ``first`` on."""
        done, stop = self._rounds_J[job], self._stops[job]
        if done is None or stop is None:
            return () if self._others is None else self._others.metrics(job, first, rounds)
        # A stretch has an event at its last barrier alone, so a value in it shows there.
        last = bisect_right(done, first + rounds) - 1
        if last < 0 or done[last] <= first:
            return ()
        return ((stop.metric, self._values_J[job][last]),)
