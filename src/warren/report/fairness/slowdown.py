"""Slow-down and finish-time fairness of jobs that finished.

*Slow-down* of a job is its JCT over its time alone: the rounds that it ran, each as short as the
whole cluster allows by the T^c and T^s of the profile (``warren.solve.common.round_time``; the
tasks of a ring on devices of their own). Without noise it is at least 1.

*Finish-time fairness* of a job is the rho of Themis (NSDI'20, section 3): its JCT over the time
that it would take in a cluster of its own with 1/N of the devices, N the number of jobs that share.
Above 1 the job would have been better off there. *Ours*, since the devices differ in speed and N
changes: N is the mean number of jobs in the cluster from the job's arrival to its finish, itself
included, and 1/N of the cluster takes N times as long as the whole one. Only jobs that finished
are counted.

Both need the costs of all jobs that finished; a mean over some of them would be one of other jobs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from warren.model.costs import BoolArray, FloatArray, IntArray
from warren.model.units import NEVER_NS
from warren.report.record import Record
from warren.solve.common.round_time import least_round_ns


# Without slots: ``cached_property`` keeps its values in ``__dict__``.
@dataclass(frozen=True, kw_only=True)
class FinishedJobs:
    """The jobs of a run that finished, as arrays; times in nanoseconds.

    Axes: J finished jobs, T device types. ``comp_ns_JT`` is ``NEVER_NS`` where a job does not fit
    or has no figure. ``devices_T``: devices of each type.
    """

    arrival_ns_J: IntArray
    finish_ns_J: IntArray
    rounds_J: IntArray
    scale_J: IntArray
    ring_J: BoolArray
    comp_ns_JT: IntArray
    sync_ns_JT: IntArray
    devices_T: IntArray

    @cached_property
    def slowdown_J(self) -> FloatArray:
        """Return the slow-down of each job; NaN where its time alone is 0 or not known."""
        return self._jct_ns_J() / self._alone_ns_J()

    @cached_property
    def finish_time_fairness_J(self) -> FloatArray:
        """Return the finish-time fairness of each job; NaN where its slow-down is."""
        return self.slowdown_J / self._sharing_J()

    def _jct_ns_J(self) -> IntArray:
        return self.finish_ns_J - self.arrival_ns_J

    def _alone_ns_J(self) -> FloatArray:
        """Return each job's time alone on its fastest devices; NaN where it is not known."""
        # A nanosecond stands for a cost that was not asked for: `engine: plain` needs none.
        usable_JT = (self.comp_ns_JT > 1) & (self.comp_ns_JT < NEVER_NS) & (self.devices_T > 0)
        room_J = (usable_JT * self.devices_T).sum(axis=1)
        scale_J = np.maximum(self.scale_J, 1)
        # A ring needs a device for each task; other jobs need one at all.
        known_J = room_J >= np.where(self.ring_J, scale_J, 1)
        most_J = np.where(self.ring_J, 1, scale_J)
        # Jobs of a trace have few costs: each kind of round is looked at once.
        columns = np.column_stack([scale_J, most_J, self.comp_ns_JT, self.sync_ns_JT])
        _, first, kind_J = np.unique(columns, axis=0, return_index=True, return_inverse=True)
        round_ns_K = least_round_ns(
            scale_J[first],
            self.comp_ns_JT[first],
            self.sync_ns_JT[first],
            usable_JT[first],
            self.devices_T,
            most_J[first],
        )
        round_ns_J = round_ns_K[kind_J.ravel()]
        # As floats: the product of wrong figures of a folder may have no room in 64 bits.
        alone_ns_J = round_ns_J.astype(float) * self.rounds_J
        return np.where(known_J & (alone_ns_J > 0), alone_ns_J, np.nan)

    def _sharing_J(self) -> FloatArray:
        """Return the mean number of jobs in the cluster while each job was in it."""
        times_ns = np.concatenate([self.arrival_ns_J, self.finish_ns_J])
        steps = np.repeat([1, -1], len(self.arrival_ns_J))
        order = np.argsort(times_ns, kind="stable")
        at_ns, present = times_ns[order], np.cumsum(steps[order])
        # Job-nanoseconds from the first arrival to each of these instants, as whole numbers of
        # Python: those of many jobs over months have no room in 64 bits.
        between = present[:-1].astype(object) * np.diff(at_ns)
        passed = np.concatenate([[0], np.cumsum(between)])
        until_finish = passed[np.searchsorted(at_ns, self.finish_ns_J)]
        until_arrival = passed[np.searchsorted(at_ns, self.arrival_ns_J)]
        shared = (until_finish - until_arrival).astype(float) / np.maximum(self._jct_ns_J(), 1)
        # A job that took no time was alone with itself.
        sharing_J: FloatArray = np.maximum(shared, 1.0)
        return sharing_J


def fairness_values(jobs: FinishedJobs) -> dict[str, float | None]:
    """Return ``mean_slowdown`` and ``max_finish_time_fairness``; None: no job, or not known."""
    slowdown_J, fairness_J = jobs.slowdown_J, jobs.finish_time_fairness_J
    known = bool(len(slowdown_J)) and not np.isnan(slowdown_J).any()
    return {
        "mean_slowdown": math.fsum(slowdown_J) / len(slowdown_J) if known else None,
        "max_finish_time_fairness": float(fairness_J.max()) if known else None,
    }


def finished_jobs(record: Record) -> FinishedJobs:
    """Return the jobs of a record that finished, in workload order."""
    run, history = record.run, record.history
    done_J = history.finish_ns_J >= 0
    jobs = [job for job in run.workload.jobs if done_J[job.index]]
    kinds = len(run.cluster.type_names)
    return FinishedJobs(
        arrival_ns_J=np.array([job.arrival_ns for job in jobs], dtype=np.int64),
        finish_ns_J=history.finish_ns_J[done_J],
        rounds_J=history.rounds_run()[done_J],
        scale_J=np.array([job.scale for job in jobs], dtype=np.int64),
        ring_J=np.array([job.sync == "ring" for job in jobs], dtype=np.bool_),
        comp_ns_JT=record.costs.comp_ns_JT[done_J],
        sync_ns_JT=record.costs.sync_ns_JT[done_J],
        devices_T=np.bincount(
            np.array(run.cluster.type_of_device, dtype=np.int64), minlength=kinds
        ),
    )
