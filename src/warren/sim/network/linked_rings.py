"""Rings whose bytes are on links beside those of servers, or in classes.

A round is computation, the latency of its hosts, and then the ring's bytes at the rate that its
flow has (``link_flows``). A ring that is alone on its links takes its equal rounds in one step;
when other bytes come, it goes back to the round at hand.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warren.cost.max_min import FluidNetwork, crosses_JL, latency_s_J, limit_J, ring_rates_J
from warren.cost.run_rings import fluid_network, ring_exchanges
from warren.model.costs import CostTable, IntArray
from warren.model.run import Run
from warren.model.units import seconds_to_ns
from warren.sim.lanes import Lanes
from warren.sim.network.link_flows import LinkFlow, LinkFlows
from warren.sim.network.ring_gangs import RingGang
from warren.sim.parts import IDLE_NS


class _Route(NamedTuple):
    """The way of a ring's bytes: its links, and its rate and latency alone there."""

    links: tuple[int, ...]
    limit_bytes_per_s: float
    latency_ns: int
    alone_bytes_per_s: float


def _route(network: FluidNetwork, workers_S: IntArray, sent_bytes: float) -> _Route:
    """Return the route of a ring with ``workers_S`` workers on the hosts."""
    workers_JS = workers_S[None]
    crossed = np.flatnonzero(crosses_JL(workers_JS)[0]).tolist() if sent_bytes > 0 else ()
    return _Route(
        links=tuple(crossed),
        limit_bytes_per_s=limit_J(network, workers_JS).item(),
        latency_ns=seconds_to_ns(latency_s_J(network, workers_JS).item()),
        alone_bytes_per_s=ring_rates_J(network, workers_JS).item(),
    )


class _Ring:
    """A ring at work: it computes, it ``sends``, or it does ``alone`` many equal rounds.

    ``wait_ns``: from the beginning of a round to its first byte. ``over``: all of the round has
    passed, and it ends when it has lasted a nanosecond.
    """

    __slots__ = (
        "_rounds",
        "alone",
        "alone_bytes_per_s",
        "gang",
        "job",
        "latency_ns",
        "limit_bytes_per_s",
        "links",
        "over",
        "sends",
        "sent_bytes",
        "timer",
        "wait_ns",
    )

    def __init__(
        self, rounds: LinkedRings, job: int, gang: RingGang, sent_bytes: float, route: _Route
    ) -> None:
        self._rounds = rounds
        self.job = job
        self.gang = gang
        self.sent_bytes = sent_bytes
        self.links = route.links
        self.limit_bytes_per_s = route.limit_bytes_per_s
        self.latency_ns = route.latency_ns
        self.alone_bytes_per_s = route.alone_bytes_per_s
        self.alone = 0
        self.over = False
        self.wait_ns = 0
        self.sends = False
        self.timer = 0

    @property
    def takes_ns(self) -> int:
        """Return how long it sends at its rate alone."""
        return seconds_to_ns(self.sent_bytes / self.alone_bytes_per_s)

    def due(self, now: int) -> None:
        """Send the computed update, or end the passed round."""
        if self.alone or self.over:
            self._rounds.end_round(self, now)
        elif self.takes_ns:
            self._rounds.send(self)
        else:
            self.arrived(now)

    def arrived(self, now: int) -> None:
        """End the round, which has lasted 1 ns at least: else time would stand still."""
        if now > self.gang.begin_ns:
            self._rounds.end_round(self, now)
        else:
            self.over = True
            self._rounds.wait(self, self.gang.begin_ns + 1)

    def part(self, now: int) -> None:
        """Go back from equal rounds to the one at hand, since other bytes use the links now."""
        gang = self.gang
        # Whole rounds that have passed, rounded down; the last one has not, or the gang had ended.
        gang.count = min(self.alone - 1, max(0, now - gang.begin_ns) // gang.round_ns)
        self._rounds.leave_alone(self)
        self._rounds.go_on(self, now)


class LinkedRings:
    """``warren.sim.network.ring_gangs.RoundEnds`` on the links of ``flows``."""

    __slots__ = ("_ended", "_flows", "_lanes", "_network", "_rings", "_routes", "_sent_bytes_J")

    def __init__(self, run: Run, costs: CostTable, lanes: Lanes, flows: LinkFlows) -> None:
        self._lanes = lanes
        self._flows = flows
        self._network = fluid_network(run.cluster)
        self._sent_bytes_J = ring_exchanges(run.workload.jobs, costs).sent_bytes_J.tolist()
        self._rings: dict[int, _Ring] = {}
        # By job, the hosts of its last gang and the route of that.
        self._routes: dict[int, tuple[bytes, _Route]] = {}
        self._ended: list[_Ring] = []

    def settle(self, gangs: dict[int, RingGang], changed: bool) -> None:
        """Begin started rings, and time rounds that begin now again if tasks take another time."""
        now = self._lanes.now_ns
        for ring in list(self._rings.values()) if changed else ():
            if ring.alone:
                ring.part(now)
            if not (ring.sends or ring.over) and ring.gang.begin_ns >= now:
                self._start_round(ring)
        if len(self._rings) < len(gangs):
            for job, gang in gangs.items():
                if job not in self._rings:
                    sent_bytes, route = self._sent_bytes_J[job], self._route_of(job, gang)
                    ring = self._rings[job] = _Ring(self, job, gang, sent_bytes, route)
                    self._start_round(ring)

    def next_ns(self, gangs: dict[int, RingGang]) -> int:
        """Return the present, if a gang has ended; all else is due among the links' timers."""
        return self._lanes.now_ns if self._ended else IDLE_NS

    def step(self, gangs: dict[int, RingGang]) -> list[RingGang]:
        """Return the gangs whose last round has ended."""
        ended, self._ended = self._ended, []
        for ring in ended:
            del gangs[ring.job]
        return [ring.gang for ring in ended]

    def wait(self, ring: _Ring, time_ns: int) -> None:
        """Make a ring wait."""
        self._flows.timers.set(ring, time_ns)

    def send(self, ring: _Ring) -> None:
        """Send the bytes of a ring's round."""
        ring.sends = True
        self._flows.add(self._flow(ring))

    def end_round(self, ring: _Ring, now: int) -> None:
        """Move a ring to the end of the rounds passed: the round at hand, or all equal ones."""
        gang = ring.gang
        if ring.alone:
            self.leave_alone(ring)
        else:
            gang.round_ns, gang.count = now - gang.begin_ns, 1
            gang.pass_on()
        ring.over, ring.sends = False, False
        if gang.left:
            # With the last round of the stretch the port knows whether the next one is delayed.
            gang.begin_ns += self._flows.delays.take(ring.job)
            self._start_round(ring)
        else:
            del self._rings[ring.job]
            self._ended.append(ring)

    def leave_alone(self, ring: _Ring) -> None:
        """Pass the equal rounds that are counted, and let the ring be alone no more."""
        gang = ring.gang
        self._flows.leave_alone(ring)
        for begin_ns in range(gang.begin_ns, gang.end_ns, gang.round_ns):
            self._flows.note_bytes(
                ring.job,
                ring.links,
                begin_ns + ring.wait_ns,
                begin_ns + gang.round_ns,
                ring.sent_bytes,
            )
        gang.pass_on()
        ring.alone = 0

    def go_on(self, ring: _Ring, now: int) -> None:
        """Set the ring to the round at hand: it computes, or sends since its first byte."""
        gang = ring.gang
        gang.compute(self._lanes)
        first_ns = gang.begin_ns + ring.wait_ns
        # The links do not know the flows that begin to send now.
        if now <= first_ns or not ring.takes_ns:
            self.wait(ring, first_ns)
            return
        self._flows.timers.cancel(ring)
        end_ns = gang.begin_ns + gang.round_ns
        self._flows.add(self._flow(ring, (ring.alone_bytes_per_s, first_ns, end_ns)))
        ring.sends = True

    def _route_of(self, job: int, gang: RingGang) -> _Route:
        """Return the route of a ring, which may start on the same hosts again and again."""
        hosts = gang.workers_S.tobytes()
        known = self._routes.get(job)
        if known is None or known[0] != hosts:
            route = _route(self._network, gang.workers_S, self._sent_bytes_J[job])
            self._routes[job] = known = hosts, route
        return known[1]

    def _flow(self, ring: _Ring, sent: tuple[float, int, int] | None = None) -> LinkFlow:
        """Return a flow of a ring's bytes of a round."""
        cap = ring.limit_bytes_per_s
        return LinkFlow(ring.job, ring.links, ring.sent_bytes, (ring,), cap=cap, sent=sent)

    def _start_round(self, ring: _Ring) -> None:
        """Begin a ring's next round, or all equal ones at once where it is alone."""
        gang = ring.gang
        gang.compute(self._lanes)
        # The slowest rank's COMP, then the latency of the hosts, then the first byte.
        ring.wait_ns = max(gang.comp) + ring.latency_ns
        if self._flows.is_free(ring.links):
            # A delay that waits for a barrier is to meet the next one.
            delayed = self._flows.delays.waits(ring.job)
            ring.alone = 1 if delayed else gang.alike(self._lanes.durations.noisy)
            gang.round_ns = max(1, ring.wait_ns + ring.takes_ns)
            gang.count = ring.alone
            self.wait(ring, gang.end_ns)
            self._flows.be_alone(ring)
        else:
            self.wait(ring, gang.begin_ns + ring.wait_ns)
