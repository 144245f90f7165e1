"""How long a round keeps each host's link busy, by where tasks ran and servers are.

Half the bytes of a round go from tasks to servers, half back; those of a ring are spread evenly
over its hosts. What stays within a host passes no link.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warren.model.costs import FloatArray
from warren.model.view import View
from warren.policy.common.job_traffic import JobTraffic


class PhaseLoads(NamedTuple):
    """Seconds that a round keeps each link busy: all hosts out, then in (2 H,).

    ``pull_s_L``: by bytes pulled when the round begins; ``push_s_L``: by bytes pushed when it has
    computed. A ring's bytes count as pushed.
    """

    pull_s_L: FloatArray
    push_s_L: FloatArray


def link_loads_s(view: View, traffic: JobTraffic, job: int) -> FloatArray:
    """Compute the seconds that a round keeps each link busy: all hosts out, then in (2 H,)."""
    rate_H = _rates(view)
    pairs_HH = _pairs(view, traffic, job)
    if pairs_HH is None:
        even_H = _even(view, traffic, job)
        return np.concatenate([even_H / rate_H, even_H / rate_H])
    each_H = (pairs_HH.sum(axis=1) + pairs_HH.sum(axis=0)) / rate_H
    return np.concatenate([each_H, each_H])


def phase_loads_s(view: View, traffic: JobTraffic, job: int) -> PhaseLoads:
    """Compute the same by the time of sending: bytes pulled, and bytes pushed.

    A ring goes once into each of its hosts and once out, with the bytes that one rank sends; within
    a single host it passes no link.
    """
    rate_H = _rates(view)
    pairs_HH = _pairs(view, traffic, job)
    if pairs_HH is None:
        on_H = _tasks(view, traffic, job) > 0
        sent = max(0, int(view.round_bytes_J[job])) / int(view.scale_J[job])
        each_H = sent * (on_H & (on_H.sum() > 1)) / rate_H
        return PhaseLoads(np.zeros(2 * len(rate_H)), np.concatenate([each_H, each_H]))
    tasks_H, servers_H = pairs_HH.sum(axis=1) / rate_H, pairs_HH.sum(axis=0) / rate_H
    return PhaseLoads(np.concatenate([servers_H, tasks_H]), np.concatenate([tasks_H, servers_H]))


def _rates(view: View) -> FloatArray:
    """Return the rates of hosts' links, in bytes a second."""
    return np.array(view.cluster.link_bytes_per_s, dtype=float)


def _tasks(view: View, traffic: JobTraffic, job: int) -> FloatArray:
    """Return what part of a job's tasks ran on each host."""
    tasks_H = np.zeros(len(view.cluster.link_bytes_per_s))
    for device, tasks in traffic.tasks[job].items():
        tasks_H[view.hosts.host_D[device]] += tasks
    tasks_H /= tasks_H.sum()
    return tasks_H


def _even(view: View, traffic: JobTraffic, job: int) -> FloatArray:
    """Return the bytes that a ring's round sends from each host, and to it."""
    total = max(0, int(view.round_bytes_J[job]))
    tasks_H = _tasks(view, traffic, job)
    even_H: FloatArray = total * (tasks_H > 0) / (tasks_H > 0).sum()
    return even_H


def server_shares_H(view: View, job: int) -> FloatArray:
    """Return the share of a job's model on each host; 0 everywhere of a job without servers."""
    servers_H = np.zeros(len(view.hosts.devices_H))
    shape = view.shape_J[job]
    hosts = view.servers_J[job]
    stated = () if shape is None else shape.model_bytes or ()
    # Without stated sizes all servers hold about the same.
    for host, part in zip(hosts, stated if any(stated) else (1,) * len(hosts), strict=True):
        servers_H[host] += part
    shares_H: FloatArray = servers_H / max(servers_H.sum(), 1e-300)
    return shares_H


def _pairs(view: View, traffic: JobTraffic, job: int) -> FloatArray | None:
    """Return the bytes from tasks of each host to servers of each; None of a job without servers.

    As many go back. What passes between a task and a server of one host passes no link.
    """
    tasks_H, servers_H = _tasks(view, traffic, job), server_shares_H(view, job)
    if not servers_H.any():
        return None
    pairs_HH: FloatArray = max(0, int(view.round_bytes_J[job])) / 2 * np.outer(tasks_H, servers_H)
    np.fill_diagonal(pairs_HH, 0.0)
    return pairs_HH
