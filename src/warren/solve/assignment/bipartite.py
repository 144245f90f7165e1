"""Jobs matched to places in the queues of machines, for the least total completion time.

On unrelated machines without release dates, the job that runs k-th from the end on a machine
delays k jobs, itself included, by its own time there. So the sum of completion times is a sum of
one cost a job, and the best schedule without preemption is a bipartite matching of jobs to
(machine, place from the end) of least cost: k times the job's time on the machine, plus the delay
until the machine is free.

Source: Horn (1973) and Bruno, Coffman and Sethi (CACM 1974); AlloX (EuroSys'20) 3.1 for clusters.
Differs: AlloX has J places on each of D machines. Machines of one kind, in order of their delays,
need no more jobs than the ones before them, so the i-th has at most J / i places; nothing is lost.
"""

from __future__ import annotations

from heapq import heapreplace
from typing import Final, NamedTuple

import numpy as np

from warren.solve.common.arrays import FloatArray, IntArray

ALIKE: Final = 1e-12
"""Largest relative difference in length at which jobs count as equal: a tie keeps their order."""


class Matching(NamedTuple):
    """The machine of each job, and how many jobs run there before it; int64, shape (J,)."""

    device_J: IntArray
    ahead_J: IntArray


class _Slots(NamedTuple):
    """Places that a job can take: machine, its kind, place from the end, delay; shape (S,)."""

    device_S: IntArray
    kind_S: IntArray
    times_S: IntArray
    delay_S: FloatArray


def least_total_completion(
    process_JT: FloatArray, type_D: IntArray, delay_D: FloatArray
) -> Matching:
    """Find the schedule without preemption that has the least sum of completion times.

    Parameters
    ----------
    process_JT
        Time of each job on a machine of each type; infinity where it does not fit.
    type_D, delay_D
        Type of each machine, and the time until it is free.

    Raises
    ------
    ValueError
        If a job fits no machine.
    """
    if not len(process_JT):
        return Matching(np.zeros(0, np.int64), np.zeros(0, np.int64))
    # Each job is a little longer than the one before it, so that equal ones keep their order.
    process_JT = process_JT * (1 + ALIKE * np.arange(len(process_JT)))[:, None]
    # Types that differ for no job are one kind.
    is_there_T = np.bincount(type_D, minlength=process_JT.shape[1]) > 0
    process_JP = process_JT[:, is_there_T]
    if np.isinf(process_JP).all(axis=1).any():
        raise ValueError("a job fits no machine")
    if (process_JP == process_JP[:, :1]).all():
        return _shortest_first(process_JP[:, 0], delay_D)
    # Sorted columns: types are of a new kind where they differ from the type before them.
    order_P = np.lexsort(process_JP[::-1])
    sorted_JP = process_JP[:, order_P]
    new_P = np.append(True, (sorted_JP[:, 1:] != sorted_JP[:, :-1]).any(axis=0))
    kind_T = np.zeros(len(is_there_T), np.int64)
    kind_T[np.flatnonzero(is_there_T)[order_P]] = np.cumsum(new_P) - 1
    return _matched(sorted_JP[:, new_P], _slots(len(process_JP), kind_T[type_D], delay_D))


def _shortest_first(process_J: FloatArray, delay_D: FloatArray) -> Matching:
    """Match jobs on machines of one kind: the shortest job takes the machine that is free first.

    No solver is needed for this.
    """
    # More machines than jobs are not needed: only the machines free first, ties by their order.
    needed = min(len(process_J), len(delay_D))
    soonest = np.flatnonzero(delay_D <= np.partition(delay_D, needed - 1)[needed - 1])
    soonest = soonest[np.argsort(delay_D[soonest], kind="stable")][:needed]
    free = list(zip(delay_D[soonest].tolist(), soonest.tolist(), strict=True))
    device_J = np.zeros(len(process_J), np.int64)
    ahead_J, count_D = np.zeros_like(device_J), np.zeros(len(delay_D), np.int64)
    for job in np.argsort(process_J, kind="stable"):
        when, device = free[0]
        heapreplace(free, (when + float(process_J[job]), device))
        device_J[job], ahead_J[job] = device, count_D[device]
        count_D[device] += 1
    return Matching(device_J, ahead_J)


def _slots(jobs: int, kind_D: IntArray, delay_D: FloatArray) -> _Slots:
    """List the places that ``jobs`` jobs may need; of each kind only the machines free first."""
    devices, places = [], []
    for kind in range(int(kind_D.max()) + 1):
        of_kind = np.flatnonzero(kind_D == kind)
        of_kind = of_kind[np.argsort(delay_D[of_kind], kind="stable")][:jobs]
        delay = delay_D[of_kind]
        before = np.searchsorted(delay, delay, side="left")
        until = np.searchsorted(delay, delay, side="right")
        # n jobs here mean n on each machine free earlier and n - 1 on each free at the same time.
        # Together that is n until - (until - before - 1) <= jobs, solved for n.
        devices.append(of_kind)
        places.append((jobs + until - before - 1) // until)
    device_D, places_D = np.concatenate(devices), np.concatenate(places)
    device_S = np.repeat(device_D, places_D)
    first_D = np.cumsum(places_D) - places_D
    times_S = np.arange(len(device_S)) - np.repeat(first_D, places_D) + 1
    return _Slots(device_S, kind_D[device_S], times_S, delay_D[device_S])


def _matched(process_JK: FloatArray, slots: _Slots) -> Matching:
    """Match jobs to places at the least cost."""
    from scipy.optimize import linear_sum_assignment

    # The job k-th from the end delays k jobs by its time, and waits until the machine is free.
    cost_JS = process_JK[:, slots.kind_S] * slots.times_S + slots.delay_S
    _, slot_J = linear_sum_assignment(cost_JS)
    device_J, times_J = slots.device_S[slot_J], slots.times_S[slot_J]
    # From the front: the largest place from the end is the first.
    return Matching(device_J, queue_places(device_J, -times_J))


def queue_places(device_J: IntArray, key_J: IntArray | FloatArray) -> IntArray:
    """Count the jobs of the same device that have a lower key, or the same and a lower index."""
    order = np.lexsort((key_J, device_J))
    _, first, counts = np.unique(device_J[order], return_index=True, return_counts=True)
    places_J = np.empty_like(device_J)
    # Sorted by device and key, a job's place is its position less that of its device's first job.
    places_J[order] = np.arange(len(order)) - np.repeat(first, counts)
    return places_J
