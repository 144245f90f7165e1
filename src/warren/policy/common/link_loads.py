"""How long a round keeps each host's link busy, by where tasks ran and servers are.

Half the bytes of a round go from tasks to servers, half back; those of a ring are spread evenly
over its hosts. What stays within a host passes no link.
"""

from __future__ import annotations

import numpy as np

from warren.model.costs import FloatArray
from warren.model.view import View
from warren.policy.common.job_traffic import JobTraffic


def link_loads_s(view: View, traffic: JobTraffic, job: int) -> FloatArray:
    """Compute the seconds that a round keeps each link busy: all hosts out, then in (2 H,)."""
    rate_H = np.array(view.cluster.link_bytes_per_s, dtype=float)
    tasks_H, servers_H = np.zeros(len(rate_H)), np.zeros(len(rate_H))
    for device, tasks in traffic.tasks[job].items():
        tasks_H[view.hosts.host_D[device]] += tasks
    for host in view.servers_J[job]:
        servers_H[host] += 1
    total = max(0, int(view.round_bytes_J[job]))
    tasks_H /= tasks_H.sum()
    if not servers_H.any():
        even_H = total * (tasks_H > 0) / (tasks_H > 0).sum()
        return np.concatenate([even_H / rate_H, even_H / rate_H])
    servers_H /= servers_H.sum()
    # Bytes between a task and a server of one host pass no link.
    pairs_HH = total / 2 * np.outer(tasks_H, servers_H)
    np.fill_diagonal(pairs_HH, 0.0)
    each_H = (pairs_HH.sum(axis=1) + pairs_HH.sum(axis=0)) / rate_H
    return np.concatenate([each_H, each_H])
