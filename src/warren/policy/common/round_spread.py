"""All tasks of a round at once, over some devices."""

from __future__ import annotations

import numpy as np

from warren.model.costs import IntArray
from warren.model.decision import Assignment
from warren.model.view import View


def spread_tasks(view: View, job: int, devices: IntArray, queued_D: IntArray) -> list[Assignment]:
    """Assign what is left of a job's round: each task where the round would be done first.

    Devices that have as much to do for this round go in the order of what is queued on them. Those
    that the job does not fit have none. Each task is an assignment, so that its end is known.
    """
    devices = devices[view.costs.fits_JT[job, view.type_D[devices]]]
    if not len(devices):
        return []
    comp_ns_D = view.costs.comp_ns_JT[job, view.type_D[devices]].astype(float)
    order = np.argsort(queued_D[devices], kind="stable")
    devices, comp_ns_D = devices[order], comp_ns_D[order]
    busy_ns_D = np.zeros(len(devices))
    first, shard = view.next_round_J.item(job), view.next_shard_J.item(job)
    for _ in range(shard, view.scale_J.item(job)):
        at = int(np.argmin(busy_ns_D + comp_ns_D))
        busy_ns_D[at] += comp_ns_D[at]
    found = []
    for device, busy_ns, comp_ns in zip(devices.tolist(), busy_ns_D, comp_ns_D, strict=True):
        # Shards are assigned in their order.
        count = round(busy_ns / comp_ns)
        found += [Assignment(device, job, first, 1, (shard + at,)) for at in range(count)]
        shard += count
    return found
