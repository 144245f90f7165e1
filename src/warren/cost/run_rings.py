"""Rings of a run: the network that its cluster file states, and the least time of an exchange."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from math import inf, isfinite

import numpy as np

from warren.cost.max_min import FluidNetwork
from warren.cost.ring import RingJobs, RingNetwork, round_at_s_J
from warren.model.cluster import REFERENCE_NIC_BPS, Cluster
from warren.model.costs import CostTable, FloatArray, IntArray
from warren.model.job import Job
from warren.model.run import Run
from warren.model.units import NS_PER_S, seconds_to_ns


def ring_network(cluster: Cluster) -> RingNetwork:
    """Return the network that (6)-(8) count with: b^e of the slowest NIC, b^i of the slowest host.

    A host without ``nic`` has the usual 25 Gbps; a host without ``intra`` exchanges in no time.
    Measured rates of the network, if there are any, replace both.
    """
    # Cluster files count in bits a second, (8) in bytes.
    network = cluster.network
    nic_bps = min(host.nic_bps or REFERENCE_NIC_BPS for host in cluster.hosts)
    intra_bps = min(host.intra_bps or inf for host in cluster.hosts)
    return RingNetwork(
        inner_bytes_per_s=(network.inner_bps or intra_bps) / 8,
        outer_bytes_per_s=(network.outer_bps or nic_bps) / 8,
        xi1=network.xi1,
        xi2_s=network.xi2_s,
        alpha=network.alpha,
        reading=network.reading,
    )


def ring_exchanges(jobs: Sequence[Job], costs: CostTable) -> RingJobs:
    """Return these jobs as the rings of (8), a row each, without compute time."""
    sizes = costs.model_bytes_J
    rows = [job.index for job in jobs]
    bytes_J = np.zeros(len(rows)) if sizes is None else sizes[rows].astype(np.float64)
    return RingJobs(
        model_bytes_J=bytes_J,
        workers_J=np.array([job.scale for job in jobs], dtype=np.int64),
        comp_s_J=np.zeros(len(rows)),
    )


def fluid_network(cluster: Cluster) -> FluidNetwork:
    """Return the links that ``network: fluid`` shares, each host's own.

    Rates that a host does not state are as in ``ring_network``.
    """
    hosts, network = cluster.hosts, cluster.network
    inner_bps_S = [network.inner_bps or one.intra_bps or inf for one in hosts]
    return FluidNetwork(
        nic_bytes_per_s_S=np.array(cluster.link_bytes_per_s),
        inner_bytes_per_s_S=np.array(inner_bps_S) / 8,
        xi2_s=network.xi2_s,
    )


def with_rings(run: Run, costs: CostTable) -> CostTable:
    """Return the costs with the T^s of each ring where rings share links: alone, at its best.

    No placement exchanges faster, whatever else runs, so bounds that count T^s hold. A ring larger
    than the cluster keeps its T^s: it will be refused when it is to be placed.
    """
    rings = [job for job in run.workload.jobs if job.sync == "ring"]
    if not rings or not run.cluster.network.slows_rings:
        return costs
    fluid = run.cluster.network.model == "fluid"
    least = least_fluid_exchange_s_J if fluid else least_exchange_s_J
    least_s_J = least(run.cluster, ring_exchanges(rings, costs))
    sync_ns_JT = costs.sync_ns_JT.copy()
    for job, least_s in zip(rings, least_s_J.tolist(), strict=True):
        fits_T = costs.fits_JT[job.index]
        if isfinite(least_s):
            sync_ns_JT[job.index, fits_T] = seconds_to_ns(least_s)
    return replace(costs, sync_ns_JT=sync_ns_JT)


def least_exchange_s_J(cluster: Cluster, rings: RingJobs) -> FloatArray:
    """Return the least exchange of each ring alone, in seconds: (8) without compute time.

    On one host if one is large enough for it, or on as few as will do where that is faster;
    infinite for a ring that is larger than the cluster.
    """
    network, held = ring_network(cluster), devices_S(cluster)
    on_one_s_J = round_at_s_J(
        network, rings, np.zeros_like(rings.workers_J), np.ones_like(rings.workers_J)
    )
    # The fewest hosts that hold a ring: the largest first, until there is room; on more than one
    # host it is alone on its links, p = 1.
    room = np.cumsum(np.sort(held)[::-1])
    hosts_J = np.maximum(2, np.searchsorted(room, rings.workers_J) + 1)
    on_more_s_J = round_at_s_J(network, rings, np.ones_like(rings.workers_J), hosts_J)
    most = int(held.max(initial=0))
    spread_s_J = np.where(
        (rings.workers_J > 1) & (rings.workers_J <= int(held.sum())) & (len(held) > 1),
        on_more_s_J,
        inf,
    )
    return np.where(rings.workers_J <= most, np.minimum(on_one_s_J, spread_s_J), spread_s_J)


def least_fluid_exchange_s_J(cluster: Cluster, rings: RingJobs) -> FloatArray:
    """Return the least exchange of each ring alone over the links of ``fluid``, in seconds.

    For each rate of a card, on the fewest hosts of that rate. 2 ns less, since the simulator rounds
    the parts of an exchange, not the whole.
    """
    network, held = fluid_network(cluster), devices_S(cluster)
    sent_J, workers_J = rings.sent_bytes_J, rings.workers_J
    # Within one host: the fastest host that is large enough, and xi2 for one host.
    large_JS = (workers_J[:, None] <= held) & (held > 0)
    inner_J = np.where(large_JS, network.inner_bytes_per_s_S, 0).max(axis=1, initial=0)
    least_s_J = np.full(len(workers_J), inf)
    np.divide(sent_J, inner_J, out=least_s_J, where=inner_J > 0)
    least_s_J += network.xi2_s
    # On several hosts the slowest card sets the rate, so only hosts of at least that rate count.
    for rate in np.unique(network.nic_bytes_per_s_S):
        room = np.cumsum(np.sort(held[(network.nic_bytes_per_s_S >= rate) & (held > 0)])[::-1])
        fits_J = (workers_J > 1) & (workers_J <= room.max(initial=0)) & (len(room) > 1)
        hosts_J = np.maximum(2, np.searchsorted(room, workers_J) + 1)
        spread_s_J = network.xi2_s * hosts_J + sent_J / rate
        least_s_J = np.where(fits_J, np.minimum(least_s_J, spread_s_J), least_s_J)
    return np.maximum(0.0, least_s_J - 2 / NS_PER_S)


def devices_S(cluster: Cluster) -> IntArray:
    """Return O_s: the devices of each host, in the order of the hosts."""
    held = Counter(device.host for device in cluster.devices)
    return np.array([held[host.name] for host in cluster.hosts], dtype=np.int64)


def host_of_D(cluster: Cluster) -> IntArray:
    """Return the position of each device's host among the hosts."""
    place = {host.name: position for position, host in enumerate(cluster.hosts)}
    return np.array([place[device.host] for device in cluster.devices], dtype=np.int64)
