"""The time of a job's round with all links to itself, by JPAS's mathematical method."""

from __future__ import annotations

import numpy as np

from warren.cost.parameter_server import ServerLinks, StepTimes, transfer_s_W
from warren.model.units import NS_PER_S
from warren.model.view import View
from warren.policy.common.job_traffic import JobTraffic
from warren.policy.common.link_loads import server_shares_H


def modelled_step_s(view: View, traffic: JobTraffic, job: int) -> float | None:
    """Eq. (14)-(20): return a round's time from the known facts about it; None: too few.

    The devices that have run tasks of the job are its workers. Those of one host share its link,
    and each computes its even share of a round's tasks. T_syn is counted as 0.
    """
    model, share_H = view.costs.model_bytes_J, server_shares_H(view, job)
    if model is None or not int(model[job]) or not share_H.any():
        return None
    devices = np.array(sorted(traffic.tasks[job]))
    host_W, rate_H = view.hosts.host_D[devices], np.array(view.cluster.link_bytes_per_s)
    serves = np.flatnonzero(share_H)
    links = ServerLinks(
        server_bytes_P=share_H[serves] * int(model[job]),
        server_rate_P=rate_H[serves],
        worker_rate_W=rate_H[host_W] / np.bincount(host_W)[host_W],
    )
    task_s_W = view.costs.comp_ns_JT[job, view.type_D[devices]] / NS_PER_S
    return StepTimes(
        transfer_s=float(transfer_s_W(links).max()),
        compute_s=float(task_s_W.max()) * int(view.scale_J[job]) / len(devices),
    ).step_s
