"""Rings of a run: the network that its cluster file states, and what an exchange takes at least."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from math import inf

import numpy as np

from warren.cost.ring import FloatArray, RingJobs, RingNetwork, round_at_s_J
from warren.model.cluster import REFERENCE_NIC_BPS, Cluster
from warren.model.costs import CostTable, IntArray
from warren.model.job import Job
from warren.model.run import Run
from warren.model.units import seconds_to_ns


def ring_network(cluster: Cluster) -> RingNetwork:
    """What (6)-(8) count with: b^e of the slowest NIC, b^i of the slowest host, one of each.

    A host that states no ``nic`` has the usual 25 Gbps; one that states no ``intra`` exchanges in
    no time. Measured rates of the network, where there are such, take the place of both.
    """
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
    """The rings among these jobs as (8) has them, a row each, without compute time."""
    sizes = costs.model_bytes_J
    rows = [job.index for job in jobs]
    bytes_J = np.zeros(len(rows)) if sizes is None else sizes[rows].astype(np.float64)
    return RingJobs(
        model_bytes_J=bytes_J,
        workers_J=np.array([job.scale for job in jobs], dtype=np.int64),
        comp_s_J=np.zeros(len(rows)),
    )


def with_rings(run: Run, costs: CostTable) -> CostTable:
    """Costs with the T^s of each ring under ``network: contention``: alone, at its best place.

    No placement exchanges faster, whatever else runs, so bounds that count T^s hold.
    """
    rings = [job for job in run.workload.jobs if job.sync == "ring"]
    if not rings or run.cluster.network.model != "contention":
        return costs
    least_s_J = least_exchange_s_J(run.cluster, ring_exchanges(rings, costs))
    sync_ns_JT = costs.sync_ns_JT.copy()
    for job, least_s in zip(rings, least_s_J.tolist(), strict=True):
        fits_T = costs.fits_JT[job.index]
        sync_ns_JT[job.index, fits_T] = seconds_to_ns(least_s)
    return replace(costs, sync_ns_JT=sync_ns_JT)


def least_exchange_s_J(cluster: Cluster, rings: RingJobs) -> FloatArray:
    """(8) without compute time of each ring alone, on one host if one is large enough for it, else
    on as few as will do; infinite for a ring that is larger than the cluster."""
    network, held = ring_network(cluster), devices_S(cluster)
    on_one_s_J = round_at_s_J(
        network, rings, np.zeros_like(rings.workers_J), np.ones_like(rings.workers_J)
    )
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


def devices_S(cluster: Cluster) -> IntArray:
    """O_s: devices of each host, in the order of the hosts."""
    held = Counter(device.host for device in cluster.devices)
    return np.array([held[host.name] for host in cluster.hosts], dtype=np.int64)


def host_of_D(cluster: Cluster) -> IntArray:
    """The position of each device's host."""
    place = {host.name: position for position, host in enumerate(cluster.hosts)}
    return np.array([place[device.host] for device in cluster.devices], dtype=np.int64)
