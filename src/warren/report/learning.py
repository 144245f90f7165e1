"""How soon jobs learn: when they reach a share of their final value, and the gain of their bytes.

*Source.* JPAS (JNCA'20), 5.1 (times to 90, 95 and 99 % of the converged accuracy) and Figs. 18 to
20 (total improvement over time; bandwidth by rank of improvement).

*Differs.* A job converges to its last value. For a metric that falls, a share of it is that share
of the way down; the paper's metric is an accuracy alone. A value has the noise that the job showed:
the time is that of the first value that is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from warren.model.costs import FloatArray, IntArray
from warren.report.metrics import first_start_ns
from warren.report.record import Record

SHARES: Final = (0.9, 0.95, 0.99)
RANKS: Final = (0.3, 0.6, 1.0)
"""Ends of the groups of Fig. 20: the top 30 %, the next 30 %, the bottom 40 %."""


@dataclass(frozen=True, slots=True)
class LearnedCurve:
    """Values of a job's stop metric over time: ``time_s_P`` after its arrival, P points.

    ``rises``: whether more is better. ``waited_s``: from its arrival to its first task.
    """

    job: int
    arrival_s: float
    time_s_P: FloatArray
    value_P: FloatArray
    rises: bool
    waited_s: float = 0.0

    def reached_s(self, share: float) -> float:
        """Return the time from the job's arrival until it had this share of its final value."""
        first, last = self.value_P[0], self.value_P[-1]
        goal = share * last if self.rises else first - share * (first - last)
        there_P = self.value_P >= goal if self.rises else self.value_P <= goal
        # The last value is there, unless it is an accuracy below 0.
        return float(self.time_s_P[int(there_P.argmax()) if there_P.any() else -1])

    def gained(self, since_s: float, until_s: float) -> float:
        """Return its gain between two times of the run, in units of the metric.

        Before its first value and after its last it gains nothing.
        """
        at = np.array([since_s, until_s]) - self.arrival_s
        before, after = np.interp(at, self.time_s_P, self.value_P)
        return float(after - before) * (1 if self.rises else -1)


def learned_curves(record: Record) -> list[LearnedCurve]:
    """Return the curves of finished jobs that showed values of the metric of their stop rule."""
    points: dict[int, list[tuple[float, float]]] = {}
    stops = [job.stop for job in record.run.workload.jobs]
    for event in record.history.rounds:
        stop = stops[event.job]
        value = dict(event.metrics).get(stop.metric) if stop else None
        if value is not None and np.isfinite(value):
            points.setdefault(event.job, []).append((event.barrier_ns / 1e9, value))
    start_ns_J = first_start_ns(record)
    found = []
    for job, listed in sorted(points.items()):
        if record.history.finish_ns_J[job] < 0:
            continue
        time_s, value = np.array(sorted(listed)).T
        arrival_s = record.run.workload.jobs[job].arrival_ns / 1e9
        stop = stops[job]
        rises = stop is not None and stop.falls_to is None
        waited_s = start_ns_J[job].item() / 1e9 - arrival_s
        found.append(LearnedCurve(job, arrival_s, time_s - arrival_s, value, rises, waited_s))
    return found


def mean_times_s(curves: Sequence[LearnedCurve]) -> dict[str, float]:
    """Return the mean times to ``SHARES``; raises ValueError without curves.

    ``to_90_s`` and so on count from a job's arrival, ``trained_90_s`` and so on from its first
    task: the paper's "training time".
    """
    if not curves:
        raise ValueError("no job that finished showed values of a metric")
    found = {}
    for share in SHARES:
        reached_s = [one.reached_s(share) for one in curves]
        trained_s = [at - one.waited_s for at, one in zip(reached_s, curves, strict=True)]
        found[f"to_{share * 100:.0f}_s"] = float(np.mean(reached_s))
        found[f"trained_{share * 100:.0f}_s"] = float(np.mean(trained_s))
    return found


def mean_gained(curves: Sequence[LearnedCurve], until_s: float, steps: int = 200) -> float:
    """Return the total gain of all jobs since their first values, its mean over time (Fig. 18)."""
    at_s = np.linspace(0.0, until_s, steps + 1)[1:]
    return float(np.mean([sum(one.gained(0.0, at) for one in curves) for at in at_s]))


def bytes_by_rank(
    curves: Sequence[LearnedCurve], bytes_JB: FloatArray, edges_s: FloatArray
) -> FloatArray:
    """Return the share of all bytes that the jobs of each group of ``RANKS`` sent (Fig. 20).

    ``bytes_JB``: the bytes of each job in each window, ``edges_s`` (B + 1,): where the windows
    begin and end. In each window the jobs that sent are ranked by their gain in it. A group has the
    bytes within its share of the ranks; a job that lies across two groups counts in parts.
    """
    sums = np.zeros(len(RANKS))
    known = {one.job: one for one in curves}
    for window in range(bytes_JB.shape[1]):
        sent = [job for job in known if bytes_JB[job, window] > 0]
        since_s, until_s = edges_s[window], edges_s[window + 1]
        sent.sort(key=lambda job: (-known[job].gained(since_s, until_s), job))
        # The bytes of the first n jobs, for n = 0, 1, ...; part of a job counts by linear
        # interpolation.
        ranked = np.concatenate([[0.0], np.cumsum(bytes_JB[sent, window])])
        ends = np.interp(np.array(RANKS) * len(sent), np.arange(len(ranked)), ranked)
        sums += np.diff(ends, prepend=0.0)
    return sums / sums.sum() if sums.sum() else sums


def bytes_in_windows(record: Record, edges_s: FloatArray) -> FloatArray:
    """Return the bytes of each job on links in each window (J, B), by where bins begin.

    Raises ValueError if the bytes on links were not counted.
    """
    use = record.history.link_use
    if use is None:
        raise ValueError("the bytes on the links of this run were not counted")
    window_R: IntArray = np.searchsorted(edges_s, use.bin_R * use.bin_ns / 1e9, side="right") - 1
    found = np.zeros((len(record.run.workload.jobs), len(edges_s) - 1))
    inside = (window_R >= 0) & (window_R < found.shape[1])
    np.add.at(found, (use.job_R[inside], window_R[inside]), use.bytes_R[inside])
    return found
