"""Groupings to begin with: one group after the other, each as busy as a few jobs can make it.

Jobs are taken in the order of their lengths, the longest first, so that no job waits for one job of
a group. The first remaining job begins a group; of the next ones the job that makes the group
busiest comes to it, as long as the group becomes more than ``LEAST_GAIN`` busier. A group has the
machines on which COMP and COMM take equally long, W / N, down or up. So a cluster with many jobs
has few in a group, and the rest does not run.

*Source.* Ours; from Algorithm 2 of Harmony it has the order, and that opposite jobs go together.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from warren.solve.common.arrays import Float, Int, IntArray
from warren.solve.common.compile import kernel
from warren.solve.job_groups.group_state import (
    GroupColumns,
    add,
    balanced_machines,
    clear,
    gathered_value,
    take_back,
)
from warren.solve.job_groups.problem import NOT_RUN, JobGroupingProblem

CANDIDATES: Final = 200
"""Number of next jobs in the order from which one is chosen for a group."""
LEAST_GAIN: Final = 1e-3
"""Least gain, in utilization, by which a further job must make a group busier."""


def busiest_first(
    problem: JobGroupingProblem, columns: GroupColumns, machines: float
) -> tuple[IntArray, IntArray]:
    """Construct a grouping: the slot of each job (J,), and machines of slots.

    ``machines``: on how many a job's length is compared with others'.
    """
    alone_J = problem.comp_machine_s_J / machines + problem.net_s_J
    group_J = np.full(len(alone_J), NOT_RUN, np.int64)
    machine_G = np.zeros(len(columns.machine_G), np.int64)
    order_J = np.argsort(-alone_J, kind="stable")
    _build(columns, order_J, group_J, machine_G, problem.machines)
    return group_J, machine_G


@kernel
def _build(
    columns: GroupColumns, order_J: IntArray, group_J: IntArray, machine_G: IntArray, machines: Int
) -> None:
    """Build groups until no machine or no job is left; machines that are left go to the last."""
    begin = 0
    slot = -1
    while machines > 0:
        while begin < len(order_J) and group_J[order_J[begin]] >= 0:
            begin += 1
        if begin == len(order_J):
            break
        slot += 1
        taken = _build_group(columns, order_J, group_J, begin, slot, machines)
        machine_G[slot] = taken
        machines -= taken
    machine_G[slot] += machines


@kernel
def _build_group(
    columns: GroupColumns, order_J: IntArray, group_J: IntArray, begin: Int, slot: Int, left: Int
) -> Int:
    """Build one group of the first job without one and some after it; return its machines."""
    clear(columns, 0)
    busy, machines = _with_job(columns, order_J[begin], left)
    _take(columns, group_J, order_J[begin], slot)
    while True:
        best = busy + LEAST_GAIN
        best_job = -1
        best_machines = machines
        seen = 0
        for place in range(begin + 1, len(order_J)):
            job = order_J[place]
            if group_J[job] >= 0:
                continue
            value, needed = _with_job(columns, job, left)
            if value > best:
                best = value
                best_job = job
                best_machines = needed
            seen += 1
            if seen == CANDIDATES:
                break
        if best_job < 0:
            return np.int64(machines)
        busy = best
        machines = best_machines
        _take(columns, group_J, best_job, slot)


@kernel
def _take(columns: GroupColumns, group_J: IntArray, job: Int, slot: Int) -> None:
    """Add a job to the group in scratch."""
    add(columns, 0, job)
    group_J[job] = slot


@kernel
def _with_job(columns: GroupColumns, job: Int, left: Int) -> tuple[Float, Int]:
    """Compute how busy the group in scratch is with one more job, and on how many machines."""
    add(columns, 0, job)
    ratio = balanced_machines(columns, 0, left)
    best: Float = -1.0
    chosen: Int = np.int64(1)
    for machines in range(max(1, min(left, ratio)), max(1, min(left, ratio + 1)) + 1):
        value = gathered_value(columns, 0, machines) / machines
        if value > best:
            best = value
            chosen = machines
    take_back(columns, 0)
    return best, chosen
