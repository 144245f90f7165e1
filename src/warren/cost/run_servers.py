"""Parameter servers of a run on its links: their bytes, and the least time of a push."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

import numpy as np

from warren.cost.max_min import FluidNetwork
from warren.cost.run_rings import fluid_network, host_of_D
from warren.model.cluster import static_server_hosts
from warren.model.costs import CostTable
from warren.model.decision import Shape
from warren.model.run import Run
from warren.model.units import NS_PER_S

ServerParts = tuple[tuple[int, float], ...]
"""The host of each server of a job, and how many bytes of the model it holds."""


def linked_J(run: Run, costs: CostTable) -> list[bool]:
    """Return for each job whether it has servers whose bytes are on links.

    They are under ``network: fluid``, except for jobs whose bytes are unknown.
    """
    sizes = costs.model_bytes_J
    if run.cluster.network.model != "fluid" or sizes is None:
        return [False for _ in run.workload.jobs]
    return [job.sync != "ring" and sizes.item(job.index) > 0 for job in run.workload.jobs]


def server_parts(run: Run, costs: CostTable, job: int, shape: Shape | None = None) -> ServerParts:
    """Return the servers of a job whose bytes are known, by its shape, else those of ``static``."""
    hosts = shape.servers if shape is not None else ()
    if not hosts:
        hosts = static_server_hosts(run.cluster.hosts, job, run.scheduler.servers)
    if shape is not None and shape.servers and any(shape.model_bytes or ()):
        assert shape.model_bytes is not None
        return tuple(zip(hosts, map(float, shape.model_bytes), strict=True))
    assert costs.model_bytes_J is not None, "asked of a job whose bytes are known"
    part = costs.model_bytes_J.item(job) / len(hosts)
    return tuple((host, part) for host in hosts)


def moved_parts(
    before: ServerParts, after: ServerParts, model_bytes: float
) -> list[tuple[int, int, float]]:
    """Return the bytes that each old server sends each new one when a job's servers change.

    Rows are (host it leaves, host it comes to, bytes), in order of the model's bytes. Servers hold
    runs of neighbors, so each pair shares one range of the model at most; bytes that stay on a
    host move from its process to the process that follows it.
    """
    moved = []
    old, new = _bounds(before), _bounds(after)
    for (source, _), begin, end in zip(before, old, old[1:], strict=False):
        for (target, _), first, last in zip(after, new, new[1:], strict=False):
            share = min(end, last) - max(begin, first)
            # Bounds are not whole numbers: less than a byte counts as none.
            if share * model_bytes >= 1:
                moved.append((source, target, share * model_bytes))
    return moved


def _bounds(parts: ServerParts) -> list[float]:
    """Return where each server's part of the model begins, and where the last one ends: 0 to 1."""
    total = sum(size for _, size in parts)
    ends = accumulate(size for _, size in parts)
    return [0.0, *(end / total for end in ends)]


def with_servers(run: Run, costs: CostTable) -> CostTable:
    """Return the costs with the T^s of each job whose servers are on links: a push at its best.

    No task is done sooner after its COMP, whatever else is on the links, so bounds that count T^s
    hold. If a policy may place servers, T^s is 0: they might be where the task is.
    """
    linked = [job for job, is_linked in enumerate(linked_J(run, costs)) if is_linked]
    if not linked:
        return costs
    sync_ns_JT = costs.sync_ns_JT.copy()
    network, latency_s = fluid_network(run.cluster), run.cluster.network.latency_s
    hosts_T = _hosts_T(run)
    stays = run.scheduler.shape == "static" and run.scheduler.joint is None
    for job in linked:
        parts = server_parts(run, costs, job)
        for kind in np.flatnonzero(costs.fits_JT[job]).tolist():
            least_s = 0.0
            if stays:
                each = (push_s(network, host, parts, latency_s) for host in hosts_T[kind])
                least_s = min(each, default=0.0)
            # The simulator rounds each transfer's end.
            sync_ns_JT[job, kind] = max(0, int(least_s * NS_PER_S) - 1 - len(parts))
    return replace(costs, sync_ns_JT=sync_ns_JT)


def push_s(
    network: FluidNetwork, host: int, parts: Sequence[tuple[int, float]], latency_s: float = 0.0
) -> float:
    """Return the least time of a push from a host that is alone on all links, in seconds.

    The latency, then the bytes of the busiest link over its rate::

        max(sum_p m_p / b_host, max_s sum_{p on s} m_p / b_s)

    over servers p on other hosts s; and m_p over ``intra`` for one on the host itself.
    """
    rate_S = network.nic_bytes_per_s_S
    into_S: dict[int, float] = {}
    least_s = 0.0
    for target, part in parts:
        if target == host:
            least_s = max(least_s, part / network.inner_bytes_per_s_S.item(host))
        elif part > 0:
            into_S[target] = into_S.get(target, 0.0) + part
    if into_S:
        received_s = max(part / rate_S.item(target) for target, part in into_S.items())
        sent_s = max(received_s, sum(into_S.values()) / rate_S.item(host))
        least_s = max(least_s, latency_s + sent_s)
    return least_s


def _hosts_T(run: Run) -> list[list[int]]:
    """Return the hosts that have devices of each type."""
    host_D = host_of_D(run.cluster).tolist()
    type_D = run.cluster.type_of_device
    return [
        sorted({host_D[device] for device, one in enumerate(type_D) if one == kind})
        for kind in range(len(run.cluster.types))
    ]
