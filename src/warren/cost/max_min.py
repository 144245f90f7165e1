"""Rings as flows: the rate at which each sends where links are shared max-min fair.

*What.* Every host has two links, up and down, of the rate of its network card. A ring is one
coupled flow: with its devices in the order of their hosts it goes once into each of its hosts and
once out again, and all its hops keep one pace. So its rate is that of its slowest link, and on its
other links it takes that rate and no more. Within a host it is limited by ``intra``, which it
shares with no other flow. Rates are max-min fair: none can be raised without lowering a rate
that is no higher.

*Source.* Max-min fairness by progressive filling: Bertsekas and Gallager, Data Networks, 6.5.2.
That a worker sends 2 m (w - 1) / w bytes a round, and what each host adds (xi2): SJF-BCO
(MobiHoc'22), section 3 and (8), see ``warren.cost.ring``.

*Differs* from (6)-(8). Each host has its own card, where (8) has one b^e for all. Sharing loses
nothing (alpha = 0), and the number of senders at a time is no parameter (xi1): ``fluid_round_s_J``
holds where all rings send at once, and ``warren.sim.network.fluid`` asks for the rates of those
that do. There is no C: adding gradients is part of the computation. A ring on several hosts is
limited by ``intra``, too, where it has neighbors within one.

*Classes.* A strict priority between flows needs no more than this: rates of the first class, then
those of the next on the remaining capacity.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from warren.cost.ring import RingJobs, crossing_JS, servers_J
from warren.model.costs import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class FluidNetwork:
    """The rates of the links of hosts S, each way, and within them.

    Infinite within a host: workers there exchange in no time. ``xi2_s``: time that each host adds
    to a round, in seconds.

    Raises
    ------
    ValueError
        If a rate is not above 0, a card's is infinite, or the overhead of a host is negative.
    """

    nic_bytes_per_s_S: FloatArray
    inner_bytes_per_s_S: FloatArray
    xi2_s: float = 0.0

    def __post_init__(self) -> None:
        if self.nic_bytes_per_s_S.shape != self.inner_bytes_per_s_S.shape:
            raise ValueError("the columns of a network's hosts are not of one length")
        if not (np.all(self.nic_bytes_per_s_S > 0) and np.all(np.isfinite(self.nic_bytes_per_s_S))):
            raise ValueError("a network card has no finite rate above 0")
        if not np.all(self.inner_bytes_per_s_S > 0):
            raise ValueError("a host has no rate above 0 within")
        if not 0 <= self.xi2_s < math.inf:
            raise ValueError(f"xi2_s of a network may not be {self.xi2_s!r}")

    @property
    def capacity_L(self) -> FloatArray:
        """Return the capacity of all links: up from each host, then down to each.

        A card is full-duplex, so both have its rate.
        """
        return np.concatenate((self.nic_bytes_per_s_S, self.nic_bytes_per_s_S))


def max_min_rates_F(
    capacity_L: FloatArray, crosses_FL: BoolArray, limit_F: FloatArray
) -> FloatArray:
    """Return the max-min fair rates of flows over links, by progressive filling.

    All flows rise together. At the level where a link is full, or a flow has reached its own limit,
    these flows stay; the others share the rest.

    Parameters
    ----------
    capacity_L
        Bytes a second, none negative.
    crosses_FL
        The links on which a flow takes its rate.
    limit_F
        The most a flow takes; may be infinite. The rate of a flow without link or limit is, too.

    Returns
    -------
    rate_F
        Bytes a second.
    """
    # Invariant: ``left_L`` is the capacity that flows which have stopped rising leave over.
    rate_F = np.zeros(len(limit_F))
    left_L = capacity_L.astype(np.float64)
    rises_F = np.ones(len(limit_F), dtype=np.bool_)
    while rises_F.any():
        # The level at which each link would be full, shared equally by the flows that rise.
        rising_L = crosses_FL[rises_F].sum(axis=0)
        share_L = np.full(len(left_L), np.inf)
        np.divide(left_L, rising_L, out=share_L, where=rising_L > 0)
        most_F = np.where(crosses_FL, share_L, np.inf).min(axis=1, initial=np.inf)
        most_F = np.minimum(most_F, limit_F)
        # The lowest of these levels holds for the flows that meet it; at least one does, so each
        # pass ends at least one flow's rise.
        level = most_F[rises_F].min()
        stays_F = rises_F & (most_F <= level)
        rate_F[stays_F] = level
        if np.isfinite(level):
            left_L -= level * crosses_FL[stays_F].sum(axis=0)
            # Rounding may leave a little less than nothing.
            np.maximum(left_L, 0.0, out=left_L)
        rises_F &= ~stays_F
    return rate_F


def crosses_JL(workers_JS: IntArray) -> BoolArray:
    """Return the links of each ring: up and down of all its hosts, or none within one host."""
    crosses_JS = crossing_JS(workers_JS)
    return np.concatenate((crosses_JS, crosses_JS), axis=1)


def limit_J(network: FluidNetwork, workers_JS: IntArray) -> FloatArray:
    """Return the slowest ``intra`` that a ring needs: of hosts with two or more of its workers."""
    inner_JS = np.where(workers_JS > 1, network.inner_bytes_per_s_S, np.inf)
    slowest_J: FloatArray = inner_JS.min(axis=1, initial=np.inf)
    return slowest_J


def ring_rates_J(network: FluidNetwork, workers_JS: IntArray) -> FloatArray:
    """Return the rates of rings that all send at once; infinite where nothing is sent at all.

    In bytes a second.
    """
    return max_min_rates_F(network.capacity_L, crosses_JL(workers_JS), limit_J(network, workers_JS))


def latency_s_J(network: FluidNetwork, workers_JS: IntArray) -> FloatArray:
    """Return the time (s) that each ring's hosts add to a round before its bytes flow (8)."""
    added_J: FloatArray = network.xi2_s * servers_J(workers_JS).astype(np.float64)
    return added_J


def fluid_round_s_J(network: FluidNetwork, jobs: RingJobs, workers_JS: IntArray) -> FloatArray:
    """Return the time of a round of each ring while all others send, too, in seconds::

    computation + xi2 hosts + 2 m (w - 1) / w / rate

    Infinite for a job that has no worker. A ring that computes sends nothing, so rounds in which
    others do so end earlier.

    Raises
    ------
    ValueError
        If a job runs with some of its workers only.
    """
    placed_J = workers_JS.sum(axis=1)
    runs_J = placed_J > 0
    if np.any(workers_JS < 0) or np.any(placed_J[runs_J] != jobs.workers_J[runs_J]):
        raise ValueError("a ring job runs with all its workers or with none")
    # A ring that sends nothing (one worker, or an empty model) takes no share of a link.
    sent_bytes_J = jobs.sent_bytes_J
    sending_JS = np.where(sent_bytes_J[:, None] > 0, workers_JS, 0)
    sent_s_J = sent_bytes_J / ring_rates_J(network, sending_JS)
    taken_s_J = jobs.comp_s_J + latency_s_J(network, workers_JS) + sent_s_J
    return np.where(runs_J, taken_s_J, np.inf)
