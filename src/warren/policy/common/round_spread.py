"""All tasks of a round at once, over some devices."""

from __future__ import annotations

import numpy as np

from warren.model.costs import FloatArray, IntArray
from warren.model.decision import ENDLESS, Assignment
from warren.model.view import View


def spread_tasks(view: View, job: int, devices: IntArray, queued_D: IntArray) -> list[Assignment]:
    """Assign the rest of a job's round: each task where the round would be done first.

    Devices that have as much to do for this round go in the order of the work queued on them. Those
    that the job does not fit have none. Each task is an assignment, so that its end is known; at a
    coarse grain a whole stretch is assigned.
    """
    devices = devices[view.costs.fits_JT[job, view.type_D[devices]]]
    if not len(devices):
        return []
    cost_T = view.costs.comp_ns_JT[job]
    comp_ns_D = np.maximum(cost_T[view.type_D[devices]], 1).astype(float)
    # Hosts in turns, so that no link has all pulls of a round.
    host_D = view.hosts.host_D[devices]
    rank_D = np.array([int((host_D[:at] == host).sum()) for at, host in enumerate(host_D)])
    order = np.lexsort((rank_D, queued_D[devices]))
    devices, comp_ns_D = devices[order], comp_ns_D[order]
    first, shard = view.next_round_J.item(job), view.next_shard_J.item(job)
    count_D = _counts(comp_ns_D, view.scale_J.item(job) - shard)
    rounds = 1
    if shard == 0:
        sync_ns_T = view.costs.sync_ns_JT[job][view.costs.fits_JT[job]]
        round_ns = int((count_D * comp_ns_D).max()) + int(sync_ns_T.max())
        left = view.rounds_J.item(job) - first if view.rounds_J[job] >= 0 else ENDLESS
        rounds = view.grain.rounds_for(round_ns, left)
    found = []
    for device, count in zip(devices.tolist(), count_D.tolist(), strict=True):
        # Shards are assigned in their order.
        shards = range(shard, shard + count)
        if rounds > 1 and count:
            found.append(Assignment(device, job, first, rounds, tuple(shards)))
        elif rounds == 1:
            found += [Assignment(device, job, first, 1, (one,)) for one in shards]
        shard += count
    return found


def _counts(comp_ns_D: FloatArray, tasks: int) -> IntArray:
    """Return how many tasks each device computes, so that the last one ends as soon as can be."""
    count_D = np.zeros(len(comp_ns_D), dtype=np.int64)
    for _ in range(tasks):
        count_D[int(np.argmin((count_D + 1) * comp_ns_D))] += 1
    return count_D
