"""Rounds of rings that slow each other: the time of an exchange, given all rings at work.

Whenever a ring starts or ends, the others are priced again. Rounds that have begun keep their pace,
so a change counts from the next round on; equal rounds between two changes are taken in one step.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from warren.cost.ring import RingJobs, round_s_J
from warren.cost.run_rings import ring_exchanges, ring_network
from warren.model.costs import CostTable, IntArray
from warren.model.run import Run
from warren.model.units import seconds_to_ns
from warren.sim.lanes import Lanes
from warren.sim.network.ring_gangs import RingGang
from warren.sim.parts import IDLE_NS


class ContentionLinks:
    """The exchange times under ``network: contention``; else they are T^s, not asked here."""

    __slots__ = ("_jobs", "_network", "from_profile")

    def __init__(self, run: Run, costs: CostTable) -> None:
        self.from_profile = run.cluster.network.model != "contention"
        self._network = ring_network(run.cluster)
        self._jobs = ring_exchanges(run.workload.jobs, costs)

    def exchange_ns_J(self, jobs: Sequence[int], workers_JS: IntArray) -> list[int]:
        """Return (8) of SJF-BCO without compute time, for these jobs while only they are at work.

        The axis S of ``workers_JS``, the ranks of each job on each host, is that of hosts.
        """
        if self.from_profile:
            return [0] * len(jobs)
        rows = list(jobs)
        rings = RingJobs(
            model_bytes_J=self._jobs.model_bytes_J[rows],
            workers_J=self._jobs.workers_J[rows],
            comp_s_J=self._jobs.comp_s_J[rows],
        )
        return [seconds_to_ns(one) for one in round_s_J(self._network, rings, workers_JS).tolist()]


class PricedRounds:
    """``warren.sim.network.ring_gangs.RoundEnds``: compute time, then T^s or (8)."""

    __slots__ = ("_lanes", "_links", "_next")

    def __init__(self, run: Run, costs: CostTable, lanes: Lanes) -> None:
        self._lanes = lanes
        self._links = ContentionLinks(run, costs)
        # The job whose equal rounds end first.
        self._next = -1

    def settle(self, gangs: dict[int, RingGang], changed: bool) -> None:
        """Price all rings again by the rings at work now, from their next round on."""
        if not gangs:
            return
        # (6)-(8) ask for all rings at once: how many share a link is in the price of each.
        each = list(gangs.items())
        workers_JS = np.stack([gang.workers_S for _, gang in each])
        exchange_ns_J = self._links.exchange_ns_J([job for job, _ in each], workers_JS)
        for (_, gang), exchange_ns in zip(each, exchange_ns_J, strict=True):
            # A gang whose price has not changed keeps its equal rounds, taken in one step.
            if changed or exchange_ns != gang.exchange_ns:
                gang.exchange_ns = exchange_ns
                gang.stop(self._lanes.now_ns)
                if gang.left:
                    self._pace(gang)

    def next_ns(self, gangs: dict[int, RingGang]) -> int:
        """Return when equal rounds of a gang end first; of equals, those of the first job."""
        next_ns = IDLE_NS
        for job, gang in gangs.items():
            end_ns = gang.end_ns
            if end_ns < next_ns or (end_ns == next_ns and job < self._next):
                next_ns, self._next = end_ns, job
        return next_ns

    def step(self, gangs: dict[int, RingGang]) -> list[RingGang]:
        """Pass the equal rounds that end first, and return their gang if they were its last."""
        gang = gangs[self._next]
        gang.pass_on()
        if gang.left:
            self._pace(gang)
            return []
        del gangs[self._next]
        return [gang]

    def _pace(self, gang: RingGang) -> None:
        """Set how long the next rounds take, and how many of them are alike."""
        ends = gang.compute(self._lanes)
        exchange_ns = gang.exchange_ns
        # T^s may differ by device type: the exchange is over when it is on the slowest.
        if self._links.from_profile:
            exchange_ns = max(end - comp_end for comp_end, end in ends)
        # At least 1 ns, or time would stand still.
        gang.round_ns = max(1, max(gang.comp) + exchange_ns)
        gang.count = gang.alike(self._lanes.durations.noisy)
