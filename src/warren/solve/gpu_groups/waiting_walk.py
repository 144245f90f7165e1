"""What idle devices of groups take: rounds of waiting jobs, in their order.

Group by group, jobs are asked in their order until no device of the group is idle. What each starts
is ``round_dispatch``. Jobs are asked in batches of 1, 2, 4 and so on; once a batch has ended
and ``DispatchRules.most_declined`` jobs, of whose round no task runs, have started nothing, nobody
else is asked in that group.

*Source.* HLAS (TCC'24), Algorithm 3, and Figs. 9 and 10.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

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

    job_N: Any
    taken_N: Any
    begun_P: Any


@kernel
def serve(
    waiting: WaitingColumns,
    jobs: JobColumns,
    grouped_devices: GroupedDevices,
    rules: DispatchRules,
    group_N: Any,
    queued_D: Any,
    free_ns_D: Any,
    rows: Any,
) -> int:
    """Let jobs take idle devices of groups, one group after the other.

    Writes what starts into ``rows`` (4, R), with R at least the idle devices, and into
    ``free_ns_D`` when the COMP lanes of their devices are expected to be free. Gives the number of
    rows.
    """
    count = 0
    for group in group_N:
        count = _walk(
            waiting, jobs, grouped_devices, rules, group, queued_D, free_ns_D, rows, count
        )
    return count


@kernel
def _walk(
    waiting: WaitingColumns,
    jobs: JobColumns,
    grouped_devices: GroupedDevices,
    rules: DispatchRules,
    group: int,
    queued_D: Any,
    free_ns_D: Any,
    rows: Any,
    count: int,
) -> int:
    """Ask jobs until no device of the group is idle, or too many have declined."""
    pool = DeviceHeaps(
        grouped_devices.free_ns_C, grouped_devices.device_C, grouped_devices.first_GT[group]
    )
    takeable = _open(pool, grouped_devices, queued_D, free_ns_D, rules.now)
    place, begun, declined, batch, left = 0, 0, 0, 1, 1
    while takeable > 0:
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
        if not _fits_idle(jobs, grouped_devices, job):
            continue
        if left == 0:
            if declined >= rules.most_declined:
                break
            batch = min(2 * batch, MOST_AT_ONCE)
            left = batch
        left -= 1
        before = count
        count, takeable = ask(
            jobs, grouped_devices, pool, rules, row, job, takeable, free_ns_D, rows, count
        )
        if count > before and not is_begun:
            waiting.taken_N[row] = True
        declined += count == before and not is_begun
    return count


@kernel
def _open(
    pool: DeviceHeaps, grouped_devices: GroupedDevices, queued_D: Any, free_ns_D: Any, now: int
) -> int:
    """Heap a group's devices by when they are free, and count those that are idle."""
    first_T, idle = pool.first_T, 0
    for kind in range(len(first_T) - 1):
        before = idle
        for cell in range(first_T[kind], first_T[kind + 1]):
            device = pool.device_C[cell]
            is_idle = queued_D[device] == 0
            free_ns_D[device] = now if is_idle else max(free_ns_D[device], now + 1)
            idle += is_idle
        grouped_devices.idle_T[kind] = idle > before
        rebuild(pool, kind, free_ns_D)
    return idle


@inlined
def _fits_idle(jobs: JobColumns, grouped_devices: GroupedDevices, job: int) -> bool:
    """Whether the job fits a type of which a device of the group was idle."""
    found = False
    for kind in range(len(grouped_devices.idle_T)):
        found |= jobs.fits_JT[job, kind] and grouped_devices.idle_T[kind]
    return found
