"""Rings that share links: which of them send, at what rate, and until when.

A *pool* is a set of rings that are tied by links: each crosses a host that another one crosses.
Rates of one pool do not depend on another. Rates follow from the set of rings that send
(``warren.cost.max_min``), and few sets of senders come again and again, so a pool remembers their
rates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from warren.cost.max_min import (
    FluidNetwork,
    crosses_JL,
    latency_s_J,
    limit_J,
    max_min_rates_F,
    ring_rates_J,
)
from warren.cost.ring import crossing_JS
from warren.model.costs import BoolArray, FloatArray
from warren.model.units import NS_PER_S, seconds_to_ns
from warren.sim.network.ring_gangs import RingGang

_REMEMBERED: Final = 4096
"""Most sets of senders whose rates a pool remembers: with many rings there are always new sets."""


@dataclass(slots=True, eq=False)
class RingFlow:
    """The flow of a ring at work, which computes or sends until its next step at ``until_ns``.

    ``rounds``: equal rounds at its rate alone, taken in one step; 0: the round at hand only.
    ``wait_ns``: from the beginning of a round to its first byte.
    """

    job: int
    gang: RingGang
    sent_bytes: float
    hosts: tuple[int, ...]
    crosses_L: BoolArray
    limit_bytes_per_s: float
    latency_ns: int
    alone_bytes_per_s: float
    sends: bool = False
    rounds: int = 0
    wait_ns: int = 0
    left_bytes: float = 0.0
    bytes_per_s: float = 0.0
    since_ns: int = 0
    until_ns: int = 0

    def start_round(self) -> None:
        """Begin the gang's next round: it computes, and sends nothing."""
        self.sends, self.rounds = False, 0
        # The slowest rank's COMP, then the latency of the hosts, then the first byte.
        self.wait_ns = max(self.gang.comp) + self.latency_ns
        self.until_ns = self.gang.begin_ns + self.wait_ns

    def start_alone(self, rounds: int) -> None:
        """Begin ``rounds`` equal rounds, while no other ring is on its links."""
        self.start_round()
        gang, self.rounds = self.gang, rounds
        # At least 1 ns, or time would stand still.
        gang.round_ns = max(1, self.wait_ns + self._takes_ns(self.sent_bytes))
        gang.count = rounds
        self.until_ns = gang.end_ns

    def start_sending(self) -> None:
        """Begin to send: all has been computed. The rate is still to be set."""
        self.sends = True
        self.left_bytes = self.sent_bytes
        self.bytes_per_s = 0.0
        self.since_ns = self.until_ns

    def set_rate(self, bytes_per_s: float, now: int) -> None:
        """Send the remaining bytes at this rate from ``now`` on."""
        # The end of an unchanged rate is kept: computed again from the remaining bytes, it could
        # move by a rounding.
        if bytes_per_s == self.bytes_per_s:
            return
        sent = self.bytes_per_s * ((now - self.since_ns) / NS_PER_S)
        self.left_bytes = max(0.0, self.left_bytes - sent)
        self.since_ns, self.bytes_per_s = now, bytes_per_s
        end = now + seconds_to_ns(self.left_bytes / bytes_per_s)
        # A round lasts at least 1 ns, also if other rings share its links.
        self.until_ns = max(end, self.gang.begin_ns + 1)

    def end_round(self) -> None:
        """Move the gang to the end of the rounds passed: the round at hand, or all equal ones."""
        gang = self.gang
        if not self.rounds:
            gang.round_ns, gang.count = self.until_ns - gang.begin_ns, 1
        gang.pass_on()

    def part(self, now: int) -> None:
        """Go back from equal rounds to the one at hand, since other rings use the links now."""
        if not self.rounds:
            return
        gang = self.gang
        # Whole rounds that have passed, rounded down; the last one has not, or the gang had ended.
        gang.count = min(self.rounds - 1, max(0, now - gang.begin_ns) // gang.round_ns)
        gang.pass_on()
        self.start_round()
        # It sends already: since its first byte at the rate that it had alone, until its end alone.
        # ``TiedRings.share`` sets the rate that others leave it afterwards.
        if now >= self.until_ns:
            self.start_sending()
            self.bytes_per_s = self.alone_bytes_per_s
            self.until_ns = gang.begin_ns + gang.round_ns

    def _takes_ns(self, sent_bytes: float) -> int:
        """Return how long it sends ``sent_bytes`` bytes at its rate alone, ns."""
        return seconds_to_ns(sent_bytes / self.alone_bytes_per_s)


def flow_of(job: int, gang: RingGang, sent_bytes: float, network: FluidNetwork) -> RingFlow:
    """Return the flow of a ring that starts."""
    workers_JS = gang.workers_S[None]
    crosses_S = crossing_JS(workers_JS)[0]
    return RingFlow(
        job=job,
        gang=gang,
        sent_bytes=sent_bytes,
        hosts=tuple(np.flatnonzero(crosses_S).tolist()) if sent_bytes > 0 else (),
        crosses_L=crosses_JL(workers_JS)[0],
        limit_bytes_per_s=limit_J(network, workers_JS).item(),
        latency_ns=seconds_to_ns(latency_s_J(network, workers_JS).item()),
        alone_bytes_per_s=ring_rates_J(network, workers_JS).item(),
    )


@dataclass(slots=True, eq=False)
class TiedRings:
    """Rings tied by links, by job. ``next_ns``: when one of them takes its next step."""

    flows: list[RingFlow]
    capacity_L: FloatArray
    next_ns: int = 0
    rates: dict[tuple[int, ...], list[float]] = field(default_factory=dict)

    def share(self, now: int) -> None:
        """Set the rates of the flows that send now, and find when a flow takes its next step."""
        senders = [flow for flow in self.flows if flow.sends]
        if senders:
            # Rates depend on the set of senders alone, so a set seen before has the same rates.
            key = tuple(flow.job for flow in senders)
            rates = self.rates.get(key)
            if rates is None:
                if len(self.rates) >= _REMEMBERED:
                    self.rates.clear()
                crosses_FL = np.array([flow.crosses_L for flow in senders])
                limit_F = np.array([flow.limit_bytes_per_s for flow in senders])
                rates = max_min_rates_F(self.capacity_L, crosses_FL, limit_F).tolist()
                self.rates[key] = rates
            for flow, rate in zip(senders, rates, strict=True):
                flow.set_rate(rate, now)
        self.next_ns = min((flow.until_ns for flow in self.flows), default=-1)


def tied(flows: Sequence[RingFlow]) -> list[list[RingFlow]]:
    """Return the flows of each pool, by job; a flow over no link has a pool of its own."""
    # Each flow joins the pools of all hosts that it crosses into one, under its own number.
    number_of_host: dict[int, int] = {}
    pools: dict[int, list[RingFlow]] = {}
    for number, flow in enumerate(flows):
        met = {number_of_host[host] for host in flow.hosts if host in number_of_host}
        pool = pools[number] = [flow, *(one for k in sorted(met) for one in pools.pop(k))]
        for one in pool:
            number_of_host.update(dict.fromkeys(one.hosts, number))
    return [sorted(pool, key=lambda flow: flow.job) for pool in pools.values()]
