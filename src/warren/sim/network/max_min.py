"""Rings that share links as fluids do: only those that send at a time share, and all is exact.

*What.* A round is computation, the latency of its hosts, and then the ring's bytes at its max-min
fair rate among all rings that send at that time (``warren.cost.max_min``). Whenever one starts or
ends sending, rates change at once, and what the others have left goes on at the new ones. So rings
that compute while others send do not disturb them, and ``contention``'s average (xi1) is not a
parameter but comes out: it may fall to nothing where rounds interlock, or be 1 where they do not.

*How.* A ring alone on its links takes its equal rounds in one step, as under ``contention``. Where
several share, a round is two steps, and each looks at all rings of the pool (``flows``).

Jobs with parameter servers are timed as under ``constant``: their T^s is that of the profile, and
their bytes are on no link here.
"""

from __future__ import annotations

from warren.cost.run_rings import fluid_network, ring_exchanges
from warren.model.costs import CostTable
from warren.model.run import Run
from warren.sim.network.flows import RingFlow, TiedRings, flow_of, tied
from warren.sim.network.ring_gangs import RingPort


class FluidPort(RingPort):
    """A ``RingPort`` under ``network: fluid``."""

    __slots__ = ("_flows", "_network", "_pools", "_sent_bytes_J", "_tied")

    def __init__(self, run: Run, costs: CostTable) -> None:
        super().__init__(run, costs)
        self._network = fluid_network(run.cluster)
        self._sent_bytes_J = ring_exchanges(run.workload.jobs, costs).sent_bytes_J.tolist()
        self._flows: dict[int, RingFlow] = {}
        self._pools: list[TiedRings] = []
        self._tied = True

    def _go_on(self) -> None:
        if not self._tied or len(self._flows) < len(self._gangs):
            self._tie()
        while self._pools:
            pool = min(self._pools, key=lambda one: one.next_ns)
            if self._events and self._events.first_ns < pool.next_ns:
                break
            self._step(pool)

    def _tie(self) -> None:
        """Rings have come or gone: who is on whose links now. Pools that stay go on as they are."""
        started = [job for job in self._gangs if job not in self._flows]
        for job in started:
            sent_bytes = self._sent_bytes_J[job]
            self._flows[job] = flow_of(job, self._gangs[job], sent_bytes, self._network)
        before = {pool.flows[0].job: pool for pool in self._pools}
        self._pools = []
        for flows in tied(list(self._flows.values())):
            pool = before.get(flows[0].job)
            if pool is None or pool.flows != flows:
                pool = TiedRings(flows, self._network.capacity_L)
                self._settle(pool, started)
            self._pools.append(pool)
        self._tied = True

    def _settle(self, pool: TiedRings, started: list[int]) -> None:
        for flow in pool.flows:
            if flow.job in started:
                self._start_round(flow, pool)
            elif len(pool.flows) > 1:
                flow.part(self._now)
        pool.share(self._now)

    def _step(self, pool: TiedRings) -> None:
        """The pool's next instant: rounds end and begin, sending begins, rates change."""
        now = pool.next_ns
        for flow in [one for one in pool.flows if one.until_ns == now]:
            if not (flow.sends or flow.rounds):
                flow.start_sending()
                continue
            flow.end_round()
            if flow.gang.left:
                self._start_round(flow, pool)
                continue
            pool.flows.remove(flow)
            del self._flows[flow.job], self._gangs[flow.job]
            self._tied = False
            self._end(flow.gang)
        pool.share(now)
        if not pool.flows:
            self._pools.remove(pool)

    def _start_round(self, flow: RingFlow, pool: TiedRings) -> None:
        self._compute(flow.job, flow.gang)
        if len(pool.flows) == 1:
            flow.start_alone(self._alike(flow.gang))
        else:
            flow.start_round()
