"""The hosts of a job's parameter servers where no policy of shape has said: shape ``static``."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from warren.model.cluster import Host


def static_server_hosts(hosts: Sequence[Host], job: int, servers: int) -> tuple[int, ...]:
    """Return the host of each server of a job, as an index of ``hosts``.

    Hosts stand in order of their memory, most first, one that states none before all others and
    equal ones as in the cluster. Server p of job j is on number j + p of them, round and round, so
    that neighbours in the workload have their first servers on different hosts.
    """
    memory_H = [inf if one.memory_bytes is None else float(one.memory_bytes) for one in hosts]
    # The sort is stable, so that hosts of one memory stay in the cluster's order.
    order = sorted(range(len(hosts)), key=lambda host: -memory_H[host])
    return tuple(order[(job + server) % len(order)] for server in range(servers))
