"""Search over all schedules of a tiny instance, in compiled code, a budget of nodes at a time.

Every schedule, written in order of (start, device), is a sequence of (job, device) choices in which
each task starts as soon as its device and its barrier allow (as in ``exhaustive``). A node appends
one task; its children come in order of their ends, so that the first leaf is greedy. A node is cut
off when its jobs, undisturbed from here on, cannot beat the best schedule known. Network
``constant``, grain 1. A search that has ended has proved its best schedule.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from warren.solve.common.arrays import BoolArray, FloatArray, Int, IntArray
from warren.solve.common.compile import kernel
from warren.solve.common.heaps import usable
from warren.solve.common.instance import Instance, prepared
from warren.solve.common.round_time import least_round_ns
from warren.solve.common.schedule_rows import rows_of_tasks


class SearchTree(NamedTuple):
    """Where the search stands: the instance, the path to the node at hand, the best schedule.

    Arrays with a leading N have a row a depth; row n is the partial schedule of n tasks. Arrays
    without an axis in their name have one entry.
    """

    instance: Instance
    usable_JT: BoolArray
    round_ns_J: IntArray  # least time of a round
    turn_ns_J: IntArray  # least T^c + T^s
    makespan: BoolArray  # whether the last end counts, else the weighted JCT
    first_ns: IntArray  # first arrival
    free_ns_ND: IntArray  # when the COMP lane of each device is free
    round_NJ: IntArray  # the round of each job of which tasks start next
    left_NJ: IntArray  # tasks of that round that have not started
    ready_ns_NJ: IntArray  # when that round may start
    barrier_ns_NJ: IntArray  # when those of its tasks that have started have all synchronised
    last_NX: IntArray  # start and device of the task that led here
    tried_NX: IntArray  # end, job and device of the child tried last
    path_NX: IntArray  # job and device at each depth
    depth: IntArray  # of the node at hand; ENDED behind the last
    best: FloatArray  # value of the best schedule
    best_NX: IntArray  # its job and device at each depth


ENDED: Final = -1
"""The depth of a search that has seen all."""
_MOST_TASKS: Final = 24
"""Instances with more tasks are not tiny."""


def new_branch(instance: Instance, value: float, *, makespan: bool) -> SearchTree | None:
    """Begin a search for schedules better than ``value``; None if the instance is not tiny.

    ``value`` is the last end minus the first arrival (ns) with ``makespan``, else the weighted JCT
    (ns times weight).
    """
    instance = prepared(instance)
    usable_JT = usable(instance.fits_JT, instance.type_D)
    jobs, devices = len(instance.scale_J), len(instance.type_D)
    tasks = int((instance.scale_J * instance.rounds_J).sum())
    whole = (instance.rounds_J > 0).all() and usable_JT.any(axis=1).all()
    if tasks > _MOST_TASKS or not whole:
        return None
    # Where a job cannot run stands a time that the least of its types never is.
    turn_ns_JT = np.where(usable_JT, instance.comp_ns_JT + instance.sync_ns_JT, np.int64(1 << 61))
    count_T = np.bincount(instance.type_D, minlength=instance.comp_ns_JT.shape[1])
    branch = SearchTree(
        instance=instance,
        usable_JT=usable_JT,
        round_ns_J=least_round_ns(
            instance.scale_J, instance.comp_ns_JT, instance.sync_ns_JT, usable_JT, count_T
        ),
        turn_ns_J=turn_ns_JT.min(axis=1),
        makespan=np.array([makespan]),
        first_ns=np.array([instance.arrival_ns_J.min()]),
        free_ns_ND=np.zeros((tasks + 1, devices), np.int64),
        round_NJ=np.zeros((tasks + 1, jobs), np.int64),
        left_NJ=np.zeros((tasks + 1, jobs), np.int64),
        ready_ns_NJ=np.zeros((tasks + 1, jobs), np.int64),
        barrier_ns_NJ=np.zeros((tasks + 1, jobs), np.int64),
        last_NX=np.full((tasks + 1, 2), -1, np.int64),
        tried_NX=np.full((tasks + 1, 3), -1, np.int64),
        path_NX=np.zeros((tasks + 1, 2), np.int64),
        depth=np.zeros(1, np.int64),
        best=np.array([value]),
        best_NX=np.full((tasks + 1, 2), -1, np.int64),
    )
    branch.left_NJ[0] = instance.scale_J
    branch.ready_ns_NJ[0] = instance.arrival_ns_J
    return branch


def best_rows(branch: SearchTree) -> IntArray:
    """Return the best schedule found as rows, int64 (5, R): job, round, rounds, shard, device."""
    job_I, device_I = branch.best_NX[:-1].T
    return rows_of_tasks(job_I, device_I, branch.instance.scale_J)


@kernel
def search(branch: SearchTree, nodes: int) -> int:
    """Go on for that many nodes, or fewer if the search ends; return how many it took."""
    tasks = len(branch.path_NX) - 1
    for node in range(nodes):
        depth = branch.depth[0]
        if depth < 0:
            return node
        # A leaf is a schedule; above it, a node without a child left leads back.
        if depth == tasks:
            value = _value(branch, depth)
            if value < branch.best[0]:
                branch.best[0] = value
                for task in range(tasks):
                    branch.best_NX[task, 0] = branch.path_NX[task, 0]
                    branch.best_NX[task, 1] = branch.path_NX[task, 1]
            branch.depth[0] = depth - 1
        elif not _next_child(branch, depth):
            branch.depth[0] = depth - 1
        else:
            _append(branch, depth)
            # The bound: undisturbed from here on, its jobs must beat the best schedule.
            if _value(branch, depth + 1) < branch.best[0]:
                branch.depth[0] = depth + 1
                for part in range(3):
                    branch.tried_NX[depth + 1, part] = -1
    return nodes


@kernel
def _next_child(branch: SearchTree, depth: Int) -> bool:
    """Put the next child, by (end, job, device), in ``tried_NX``; False if there is none."""
    instance = branch.instance
    found = False
    tried = branch.tried_NX[depth]
    best_end = 0
    best_job = 0
    best_device = 0
    for job in range(len(instance.scale_J)):
        if branch.round_NJ[depth, job] == instance.rounds_J[job]:
            continue
        for device in range(len(instance.type_D)):
            kind = instance.type_D[device]
            if not branch.usable_JT[job, kind] or not _is_first_alike(branch, depth, device):
                continue
            start = max(branch.ready_ns_NJ[depth, job], branch.free_ns_ND[depth, device])
            last = branch.last_NX[depth]
            # Only later in (start, device): each schedule is one sequence of choices.
            if start < last[0] or (start == last[0] and device < last[1]):
                continue
            end = start + instance.comp_ns_JT[job, kind] + instance.sync_ns_JT[job, kind]
            # The least that comes after the child tried last, so no list of children is kept.
            if not _is_before(tried[0], tried[1], tried[2], end, job, device):
                continue
            if not found or _is_before(end, job, device, best_end, best_job, best_device):
                found = True
                best_end = end
                best_job = job
                best_device = device
    if found:
        tried[0] = best_end
        tried[1] = best_job
        tried[2] = best_device
    return found


@kernel
def _is_before(end: int, job: int, device: int, other: int, job2: int, device2: int) -> bool:
    """Tell whether (end, job, device) comes before (other, job2, device2)."""
    if end != other:
        return end < other
    return job < job2 or (job == job2 and device < device2)


@kernel
def _is_first_alike(branch: SearchTree, depth: Int, device: Int) -> bool:
    """Tell whether no device of a lower index is as good here.

    As good is one that is allowed here too, of the same type, and free at the same time.
    """
    last = branch.last_NX[depth]
    for other in range(device):
        if (
            branch.instance.type_D[other] == branch.instance.type_D[device]
            and branch.free_ns_ND[depth, other] == branch.free_ns_ND[depth, device]
            # A task that starts with the last one must have a device behind the last one's.
            and (other >= last[1]) == (device >= last[1])
        ):
            return False
    return True


@kernel
def _append(branch: SearchTree, depth: Int) -> None:
    """Write the partial schedule with the child in ``tried_NX``, one deeper."""
    instance, below = branch.instance, depth + 1
    job, device = branch.tried_NX[depth, 1], branch.tried_NX[depth, 2]
    for other in range(len(instance.type_D)):
        branch.free_ns_ND[below, other] = branch.free_ns_ND[depth, other]
    for other in range(len(instance.scale_J)):
        branch.round_NJ[below, other] = branch.round_NJ[depth, other]
        branch.left_NJ[below, other] = branch.left_NJ[depth, other]
        branch.ready_ns_NJ[below, other] = branch.ready_ns_NJ[depth, other]
        branch.barrier_ns_NJ[below, other] = branch.barrier_ns_NJ[depth, other]
    # As soon as the device and the barrier allow; T^s holds no device, and the round is over
    # when all of its tasks have synchronised.
    kind = instance.type_D[device]
    start = max(branch.ready_ns_NJ[depth, job], branch.free_ns_ND[depth, device])
    comp_end = start + instance.comp_ns_JT[job, kind]
    end = max(branch.barrier_ns_NJ[depth, job], comp_end + instance.sync_ns_JT[job, kind])
    branch.free_ns_ND[below, device] = comp_end
    branch.barrier_ns_NJ[below, job] = end
    branch.left_NJ[below, job] -= 1
    if branch.left_NJ[below, job] == 0:
        branch.round_NJ[below, job] += 1
        branch.left_NJ[below, job] = instance.scale_J[job]
        branch.ready_ns_NJ[below, job] = end
        branch.barrier_ns_NJ[below, job] = 0
    branch.last_NX[below, 0], branch.last_NX[below, 1] = start, device
    branch.path_NX[depth, 0], branch.path_NX[depth, 1] = job, device


@kernel
def _value(branch: SearchTree, depth: Int) -> float:
    """Return the value of a partial schedule if every job goes on undisturbed: a lower bound.

    Of a complete schedule it is the value.
    """
    instance = branch.instance
    total = 0.0
    latest = 0
    for job in range(len(instance.scale_J)):
        rounds = instance.rounds_J[job] - branch.round_NJ[depth, job]
        end = branch.ready_ns_NJ[depth, job]
        if rounds > 0:
            # What is left of the round takes the least round, or one turn if tasks of it have
            # started, and starts no earlier than the last task; the rounds after it follow.
            left = branch.left_NJ[depth, job]
            whole = left == instance.scale_J[job]
            alone = branch.round_ns_J[job] if whole else branch.turn_ns_J[job]
            start = max(end, branch.last_NX[depth, 0])
            end = max(branch.barrier_ns_NJ[depth, job], start + alone)
            end += (rounds - 1) * branch.round_ns_J[job]
        latest = max(latest, end)
        total += instance.weight_J[job] * (end - instance.arrival_ns_J[job])
    return float(latest - branch.first_ns[0]) if branch.makespan[0] else total
