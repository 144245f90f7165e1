"""Rings that share links as fluids do: only those that send at a time share, and all is exact.

*What.* A round is computation, the latency of its hosts, and then the ring's bytes at its max-min
fair rate among all rings that send at that time (``warren.cost.max_min``). Whenever one starts or
ends sending, rates change at once, and the remaining bytes of the others go on at the new ones. So
rings that compute while others send do not disturb them, and ``contention``'s average (xi1) is not
a parameter but comes out: it may fall to nothing where rounds interlock, or be 1 where they do not.

*How.* A ring alone on its links takes its equal rounds in one step, as under ``contention``. If
several share, a round is two steps, and each looks at all rings of the pool (``flows``).

This is for runs in which nothing but rings is on links, and all bytes are of one class. Others
have the same model in ``linked_rings``, where rates are rounded, which may move an end by 1 ns.
"""

from __future__ import annotations

from warren.cost.run_rings import fluid_network, ring_exchanges
from warren.model.costs import CostTable
from warren.model.run import Run
from warren.sim.lanes import Lanes
from warren.sim.network.flows import RingFlow, TiedRings, flow_of, tied
from warren.sim.network.ring_gangs import RingGang
from warren.sim.parts import IDLE_NS


class FluidRounds:
    """``warren.sim.network.ring_gangs.RoundEnds`` under ``network: fluid``."""

    __slots__ = ("_flows", "_lanes", "_network", "_next", "_pools", "_sent_bytes_J", "_tied")

    def __init__(self, run: Run, costs: CostTable, lanes: Lanes) -> None:
        self._lanes = lanes
        self._network = fluid_network(run.cluster)
        self._sent_bytes_J = ring_exchanges(run.workload.jobs, costs).sent_bytes_J.tolist()
        self._flows: dict[int, RingFlow] = {}
        self._pools: list[TiedRings] = []
        # The pool that takes a step first.
        self._next: TiedRings | None = None
        self._tied = True

    def settle(self, gangs: dict[int, RingGang], changed: bool) -> None:
        """Tie the flows again if rings have come or gone, and time rounds that begin now."""
        if changed:
            for pool in self._pools:
                for flow in pool.flows:
                    self._retime(flow, pool)
                pool.share(self._lanes.now_ns)
        if not self._tied or len(self._flows) < len(gangs):
            self._tie(gangs)

    def next_ns(self, gangs: dict[int, RingGang]) -> int:
        """Return when a pool takes a step first."""
        self._next = min(self._pools, key=lambda one: one.next_ns, default=None)
        return IDLE_NS if self._next is None else self._next.next_ns

    def step(self, gangs: dict[int, RingGang]) -> list[RingGang]:
        """Pass a pool's next instant: rounds end and begin, sending begins, rates change."""
        pool, ended = self._next, list[RingGang]()
        assert pool is not None, "asked for the next instant before"
        now = pool.next_ns
        # All flows at this instant before rates are set once: a set of senders that holds for no
        # time changes nothing.
        for flow in [one for one in pool.flows if one.until_ns == now]:
            if not (flow.sends or flow.rounds):
                flow.start_sending()
                continue
            flow.end_round()
            if flow.gang.left:
                self._start_round(flow, pool)
                continue
            pool.flows.remove(flow)
            # Without this ring the others may fall apart into pools; ``settle`` finds out.
            del self._flows[flow.job], gangs[flow.job]
            self._tied = False
            ended.append(flow.gang)
        pool.share(now)
        if not pool.flows:
            self._pools.remove(pool)
        return ended

    def _tie(self, gangs: dict[int, RingGang]) -> None:
        """Find which rings are on which links now. Pools that do not change go on undisturbed."""
        started = [job for job in gangs if job not in self._flows]
        for job in started:
            sent_bytes = self._sent_bytes_J[job]
            self._flows[job] = flow_of(job, gangs[job], sent_bytes, self._network)
        before = {pool.flows[0].job: pool for pool in self._pools}
        self._pools = []
        for flows in tied(list(self._flows.values())):
            # The same rings as before: their steps and remembered rates still hold.
            pool = before.get(flows[0].job)
            if pool is None or pool.flows != flows:
                pool = TiedRings(flows, self._network.capacity_L)
                self._settle(pool, started)
            self._pools.append(pool)
        self._tied = True

    def _settle(self, pool: TiedRings, started: list[int]) -> None:
        """Begin flows that have started in a new pool, and end equal rounds of the others."""
        for flow in pool.flows:
            if flow.job in started:
                self._start_round(flow, pool)
            elif len(pool.flows) > 1:
                flow.part(self._lanes.now_ns)
        pool.share(self._lanes.now_ns)

    def _retime(self, flow: RingFlow, pool: TiedRings) -> None:
        """Time a flow again whose tasks take another time; a round under way is not changed."""
        now = self._lanes.now_ns
        flow.part(now)
        if not flow.sends and flow.gang.begin_ns >= now:
            self._start_round(flow, pool)

    def _start_round(self, flow: RingFlow, pool: TiedRings) -> None:
        """Begin a flow's next round, or all equal ones at once where it is alone in its pool."""
        flow.gang.compute(self._lanes)
        if len(pool.flows) == 1:
            flow.start_alone(flow.gang.alike(self._lanes.durations.noisy))
        else:
            flow.start_round()
