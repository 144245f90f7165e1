"""Costs of jobs as they are measured while the jobs run in groups: COMP by task, COMM by push.

COMP is what tasks took: a device computes one task at a time. An update shares links with those of
other jobs, so of the pushes of a round the quickest counts. Pushes of a job from one host that
overlap are a busy period, of which each push has an equal part. Where bytes pass links, the
quickest pushes of any job give the rate of the links, and COMM of each job follows from the size of
its model. Elsewhere the quickest push of a job is its T^s.

*Source.* Harmony (dissertation 2020), 4.3.2, "Profiling": average times of CPU and network
subtasks, updated by moving averages.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

import numpy as np
from immutables import Map

from warren.model.costs import BoolArray, CostTable, FloatArray, IntArray
from warren.model.events import RoundsDone, TasksDone
from warren.model.units import NEVER_NS, NS_PER_S
from warren.model.view import View
from warren.policy.common.link_loads import server_shares_H

K = TypeVar("K")
NEWEST: Final = 0.3
"""The weight of the newest value in a moving average."""

MEASURED_ROUNDS: Final = 2
"""Rounds of a job after which its costs count as known."""
_UNKNOWN_NS: Final = float(NS_PER_S)
"""The time of a task of which nothing at all is known, in nanoseconds."""

COSTS: Final = ("stated", "measured")
"""What a policy groups jobs by: the costs that are known ahead, or what their rounds take."""

Push = tuple[int, int, int]
"""The host that an update leaves, when its task had computed, and when the update had arrived."""


@dataclass(frozen=True, slots=True)
class JobProfiles:
    """Moving averages of what rounds have shown; each change returns a new object.

    ``comp_ns``: the computation of a task, by (job, device type). ``sync_ns``: a push, by job whose
    bytes pass no link. ``slower``: how many times as long as by the stated rates of links a push
    took, by job. ``rounds``: rounds that count, by job; ``pushes``: those of its present round.
    """

    comp_ns: Map[tuple[int, int], float] = field(default_factory=Map)
    sync_ns: Map[int, float] = field(default_factory=Map)
    slower: Map[int, float] = field(default_factory=Map)
    rounds: Map[int, int] = field(default_factory=Map)
    pushes: Map[int, tuple[Push, ...]] = field(default_factory=Map)

    def knows(self, job: int) -> bool:
        """Tell whether enough rounds of a job have passed for its costs to be known."""
        return self.rounds.get(job, 0) >= MEASURED_ROUNDS

    def computed(self, view: View, event: TasksDone) -> JobProfiles:
        """Return it with tasks that have ended."""
        count = event.rounds * len(event.shards)
        key = event.job, view.type_D.item(event.device)
        push = view.hosts.host_D.item(event.device), event.comp_end_ns, event.end_ns
        pushes = (*self.pushes.get(event.job, ()), push)
        return replace(
            self,
            comp_ns=moving_mean(self.comp_ns, key, event.busy_ns / count),
            pushes=self.pushes.set(event.job, pushes),
        )

    def passed(self, view: View, event: RoundsDone) -> JobProfiles:
        """Return it with a barrier that has passed, which began where the job's servers are."""
        job, pushes = event.job, self.pushes.get(event.job, ())
        seen = replace(
            self.without(job), rounds=self.rounds.set(job, self.rounds.get(job, 0) + event.rounds)
        )
        if not pushes:
            return seen
        if view.cluster.network.model != "fluid" or view.round_bytes_J[job] < 0:
            least_ns = min(arrived_ns - sent_ns for _, sent_ns, arrived_ns in pushes)
            return replace(seen, sync_ns=moving_mean(self.sync_ns, job, least_ns))
        stated_ns_H = _stated_push_ns_H(view, job)
        linked = [host for host in {one[0]: None for one in pushes} if stated_ns_H[host]]
        slower = [_push_ns(pushes, host) / stated_ns_H[host] for host in linked]
        if not slower:
            return seen  # all servers are on the one host of its tasks: no byte passes a link
        return replace(seen, slower=moving_mean(self.slower, job, min(slower)))

    def without(self, job: int) -> JobProfiles:
        """Return it without what was seen of a job's present round."""
        return replace(self, pushes=self.pushes.delete(job)) if job in self.pushes else self

    def costs(self, view: View) -> CostTable:
        """Return the costs of all jobs by what was measured, in place of those stated.

        On a type on which a job has not run its tasks take the mean of where it has; those of a job
        that has not run at all the mean of all others. Model bytes are those that take as long by
        the stated rates as the measured ones do.
        """
        fits_JT = view.costs.fits_JT
        comp_JT = np.full(fits_JT.shape, np.nan)
        for (job, kind), comp_ns in self.comp_ns.items():
            comp_JT[job, kind] = comp_ns
        known_J = ~np.isnan(comp_JT).all(axis=1)
        mean_J = np.full(len(fits_JT), np.nan)
        mean_J[known_J] = np.nanmean(comp_JT[known_J], axis=1)
        typical_ns = (
            float(np.exp(np.log(np.maximum(mean_J[known_J], 1)).mean()))
            if known_J.any()
            else _UNKNOWN_NS
        )
        mean_J[~known_J] = typical_ns
        comp_JT = np.where(np.isnan(comp_JT), mean_J[:, np.newaxis], comp_JT)
        sync_J = np.zeros(len(fits_JT))
        for job, sync_ns in self.sync_ns.items():
            sync_J[job] = sync_ns
        bytes_J = view.costs.model_bytes_J
        if bytes_J is not None:
            slower = min(self.slower.values(), default=1.0)
            bytes_J = np.round(bytes_J * slower).astype(np.int64)
        return CostTable(
            comp_ns_JT=_times(comp_JT, fits_JT),
            sync_ns_JT=_times(np.broadcast_to(sync_J[:, np.newaxis], fits_JT.shape), fits_JT),
            fits_JT=fits_JT,
            model_bytes_J=bytes_J,
        )


def profiles_of(costs: str) -> JobProfiles | None:
    """Return the measured costs to begin with, by an option's text; None: stated ones count.

    Raises ValueError if it is no text of the option.
    """
    if costs not in COSTS:
        raise ValueError(f"costs is {costs!r}; allowed: {', '.join(COSTS)}")
    return JobProfiles() if costs == "measured" else None


def moving_mean(means: Map[K, float], key: K, value: float) -> Map[K, float]:
    """Return moving averages with one more value; the first one counts whole."""
    before = means.get(key, value)
    return means.set(key, before + NEWEST * (value - before))


def _push_ns(pushes: tuple[Push, ...], host: int) -> float:
    """Return the shortest time of a push from a host, of all its busy periods."""
    periods: list[tuple[int, int, int]] = []
    for _, sent_ns, arrived_ns in sorted(one for one in pushes if one[0] == host):
        begin_ns, end_ns, count = periods[-1] if periods else (0, -1, 0)
        if sent_ns > end_ns:
            periods.append((sent_ns, arrived_ns, 1))
        else:
            periods[-1] = begin_ns, max(end_ns, arrived_ns), count + 1
    return min((end_ns - begin_ns) / count for begin_ns, end_ns, count in periods)


def _stated_push_ns_H(view: View, job: int) -> FloatArray:
    """Return the time of a push from each host by the stated rates of links; 0: it passes none."""
    assert view.costs.model_bytes_J is not None, "the job's bytes are known"
    far_bytes_H = (1 - server_shares_H(view, job)) * view.costs.model_bytes_J[job]
    took_ns_H: FloatArray = far_bytes_H / np.array(view.cluster.link_bytes_per_s) * NS_PER_S
    return took_ns_H


def _times(time_ns_JT: FloatArray, fits_JT: BoolArray) -> IntArray:
    """Return whole times, at least 0, ``NEVER_NS`` where a job does not fit."""
    return np.where(fits_JT, np.round(time_ns_JT).astype(np.int64), NEVER_NS)
