"""Starts on idle devices of groups: rounds of waiting jobs, in their order.

Group by group, jobs are asked in their order until no device of the group is idle.
``round_dispatch`` starts their tasks. Jobs are asked in batches of 1, 2, 4 and so on; once a batch
has ended and ``DispatchRules.most_declined`` jobs, of whose round no task runs, have started
nothing, no other job is asked in that group.

*Source.* HLAS (TCC'24), Algorithm 3, and Figs. 9 and 10.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from warren.solve.common.arrays import BoolArray, Int, IntArray
from warren.solve.common.compile import inlined, kernel
from warren.solve.common.heaps import DeviceHeaps, rebuild
from warren.solve.gpu_groups.round_dispatch import DispatchRules, GroupedDevices, JobColumns, ask

MOST_AT_ONCE: Final = 16
"""The largest batch."""


class WaitingColumns(NamedTuple):
    """Jobs in the order of their turn, (N,), and those of whose round tasks run already, (P,).

    ``begun_P`` (P, 3): these jobs, the group of each, in which alone it is asked, and before which
    place in the order of the others. ``taken_N`` (all False) is scratch.
    """

    job_N: IntArray
    taken_N: BoolArray
    begun_P: IntArray


@kernel
def serve(
    waiting: WaitingColumns,
    jobs: JobColumns,
    groups: GroupedDevices,
    rules: DispatchRules,
    group_N: IntArray,
    queued_D: IntArray,
    free_ns_D: IntArray,
    rows: IntArray,
) -> int:
    """Start jobs on idle devices of groups, one group after the other.

    Parameters
    ----------
    group_N
        The groups, in the order in which they are looked at.
    queued_D
        Number of assignments in each device's queue; a device without any is idle.
    free_ns_D
        Written: when the COMP lanes of the devices are expected to be free.
    rows
        Written: the starting tasks, (4, R), with R at least the idle devices.

    Returns
    -------
    int
        Number of columns of ``rows`` in use.
    """
    count = 0
    for group in group_N:
        count = _walk(waiting, jobs, groups, rules, group, queued_D, free_ns_D, rows, count)
    return count


@kernel
def _walk(
    waiting: WaitingColumns,
    jobs: JobColumns,
    groups: GroupedDevices,
    rules: DispatchRules,
    group: Int,
    queued_D: IntArray,
    free_ns_D: IntArray,
    rows: IntArray,
    count: Int,
) -> Int:
    """Ask jobs until no device of the group is idle, or too many have declined."""
    pool = DeviceHeaps(groups.free_ns_C, groups.device_C, groups.first_GT[group])
    takeable = _open(pool, groups, queued_D, free_ns_D, rules.now)
    place = 0  # in the order of those that wait
    begun = 0  # in the list of those that have begun
    declined = 0
    batch = 1
    left = 1  # jobs of this batch that are still to be asked
    while takeable > 0:
        # A job that has begun in this group comes at its own place in the order of the others.
        while begun < len(waiting.begun_P) and waiting.begun_P[begun, 1] != group:
            begun += 1
        is_begun = begun < len(waiting.begun_P) and waiting.begun_P[begun, 2] <= place
        if is_begun:
            row, job = -1 - begun, waiting.begun_P[begun, 0]
            begun += 1
        elif place < len(waiting.job_N):
            row, job = place, waiting.job_N[place]
            place += 1
            if waiting.taken_N[row]:
                continue
        else:
            break
        if not _fits_idle(jobs, groups, job):
            continue
        # The number of declined jobs is looked at between batches only.
        if left == 0:
            if declined >= rules.most_declined:
                break
            batch = min(2 * batch, MOST_AT_ONCE)
            left = batch
        left -= 1
        before = count
        count, takeable = ask(jobs, groups, pool, rules, row, job, takeable, free_ns_D, rows, count)
        if count > before and not is_begun:
            waiting.taken_N[row] = True
        declined += count == before and not is_begun
    return count


@kernel
def _open(
    pool: DeviceHeaps, groups: GroupedDevices, queued_D: IntArray, free_ns_D: IntArray, now: Int
) -> int:
    """Heap a group's devices by when they are free, and count those that are idle."""
    first_T, idle = pool.first_T, 0
    for kind in range(len(first_T) - 1):
        before = idle
        for cell in range(first_T[kind], first_T[kind + 1]):
            device = pool.device_C[cell]
            # A busy device whose expected time has passed is free at the next instant at best.
            is_idle = queued_D[device] == 0
            free_ns_D[device] = now if is_idle else max(free_ns_D[device], now + 1)
            idle += is_idle
        groups.idle_T[kind] = idle > before
        rebuild(pool, kind, free_ns_D)
    return idle


@inlined
def _fits_idle(jobs: JobColumns, groups: GroupedDevices, job: Int) -> bool:
    """Tell whether the job fits a type of which a device of the group was idle at the start."""
    found = False
    for kind in range(len(groups.idle_T)):
        found |= jobs.fits_JT[job, kind] and groups.idle_T[kind]
    return found
