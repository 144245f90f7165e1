"""What a job starts on idle devices of a group: tasks of a round, or a stretch of rounds.

Each task of a job's round chooses among all devices of the group, busy ones too. If its choice is
idle the task starts there; if it is busy the task waits, and for the rest of this walk the device
counts as taken until then, so that the next task sees what is truly left; nothing of that outlives
the walk. A task chooses

- ``by_completion``: the device on which it completes first, max(now, phi) + T^c + T^s;
- else: the device that is available first, max(now, phi); of several the fastest.

Jobs of a stretch choose for all their shards at once, several may share a device, and the stretch
starts when all devices that it chose are idle. It has as many rounds as the grain allows if all its
tasks were on devices of its fastest type in the group.

*Source.* HLAS (TCC'24), Figs. 9 and 10: several tasks of a round on one GPU of a group, each on the
GPU that is available first. By completion is ours.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from warren.solve.common.compile import inlined, kernel
from warren.solve.common.heaps import DeviceHeaps, replace_top, soonest

_ENDLESS: Final = 2**40
_FAR_NS: Final = 2**61
"""No stretch is expected to last longer: 73 years."""


class JobColumns(NamedTuple):
    """Columns over all jobs (J,) and types (J, T), times in ns, as a view has them.

    ``turn_ns_JT``: T^c + T^s where the job fits; it may have more rows than there are jobs.
    """

    scale_J: Any
    next_shard_J: Any
    comp_ns_JT: Any
    turn_ns_JT: Any
    fits_JT: Any


class GroupedDevices(NamedTuple):
    """The devices of a cluster in their groups.

    The heap of devices of type t of group g has the cells from ``first_GT[g, t]`` to
    ``first_GT[g, t + 1]`` of ``free_ns_C`` and ``device_C`` (see ``solve.pool``). These, ``load_D``
    (all zero), ``idle_T`` and ``chosen_K``, one a task of the widest job, are scratch.
    """

    first_GT: Any
    free_ns_C: Any
    device_C: Any
    type_D: Any
    load_D: Any
    idle_T: Any
    chosen_K: Any


class DispatchRules(NamedTuple):
    """``grain_rounds``: rounds of a stretch, or 0: as many as fit into ``grain_ns``.

    ``most_declined``: see ``waiting_walk``.
    """

    now: int
    grain_rounds: int
    grain_ns: int
    by_completion: bool
    most_declined: int


PLACE, DEVICE, TASKS, ROUNDS = range(4)
"""Rows of what starts. The place of a job in ``Waiting``: n, or -1 - p of one that has begun."""


@kernel
def ask(
    jobs: JobColumns,
    grouped_devices: GroupedDevices,
    pool: DeviceHeaps,
    rules: DispatchRules,
    row: int,
    job: int,
    takeable: int,
    free_ns_D: Any,
    rows: Any,
    count: int,
) -> Any:
    """Start what the job can start; idle devices that nobody has taken or holds, and rows."""
    rounds = _rounds(jobs, pool, rules, job)
    if rounds == 1:
        return _tasks(jobs, pool, rules, row, job, takeable, free_ns_D, rows, count)
    all_idle, held = _hold(jobs, grouped_devices, pool, rules, job, rounds)
    if all_idle:
        count = _begin(jobs, grouped_devices, rules, row, job, rounds, free_ns_D, rows, count)
    for shard in range(jobs.scale_J[job]):
        grouped_devices.load_D[grouped_devices.chosen_K[shard]] = 0
    return count, takeable - held


@inlined
def _rounds(jobs: JobColumns, pool: DeviceHeaps, rules: DispatchRules, job: int) -> int:
    """Rounds of a stretch of the job, if all its tasks were on devices of its fastest type."""
    if jobs.next_shard_J[job] > 0 or rules.grain_rounds == 1:
        return 1
    first_T, least_ns, longest_ns = pool.first_T, -1, 1
    tasks = -(-jobs.scale_J[job] // (first_T[-1] - first_T[0]))
    for kind in range(len(first_T) - 1):
        if jobs.fits_JT[job, kind] and first_T[kind + 1] > first_T[kind]:
            turn_ns = jobs.turn_ns_JT[job, kind]
            round_ns = (tasks - 1) * jobs.comp_ns_JT[job, kind] + turn_ns
            if least_ns < 0 or round_ns < least_ns:
                least_ns = round_ns
            longest_ns = max(longest_ns, tasks * turn_ns)
    rounds = rules.grain_rounds
    if rounds == 0:
        rounds = min(_ENDLESS, rules.grain_ns // max(1, least_ns))
    return int(max(1, min(rounds, _FAR_NS // longest_ns // jobs.scale_J[job])))


@inlined
def _choose(jobs: JobColumns, pool: DeviceHeaps, job: int, now: int, weight: int) -> int:
    return int(soonest(pool, jobs.fits_JT, jobs.turn_ns_JT, jobs.comp_ns_JT, job, now, weight))


@kernel
def _tasks(
    jobs: JobColumns,
    pool: DeviceHeaps,
    rules: DispatchRules,
    row: int,
    job: int,
    takeable: int,
    free_ns_D: Any,
    rows: Any,
    count: int,
) -> Any:
    """Give each open task of the round its device, if that is idle."""
    now = rules.now
    for _ in range(jobs.next_shard_J[job], jobs.scale_J[job]):
        kind = _choose(jobs, pool, job, now, 1 if rules.by_completion else 0)
        free_ns = pool.free_ns_C[pool.first_T[kind]]
        comp_ns = jobs.comp_ns_JT[job, kind]
        if free_ns > now:
            if not rules.by_completion:  # nobody is idle, and the others wait for their turn
                break
            replace_top(pool, kind, free_ns + comp_ns)
            continue
        device = pool.device_C[pool.first_T[kind]]
        replace_top(pool, kind, now + max(1, comp_ns))
        free_ns_D[device] = now + comp_ns
        rows[PLACE, count], rows[DEVICE, count] = row, device
        rows[TASKS, count], rows[ROUNDS, count] = 1, 1
        count += 1
        takeable -= 1
        if takeable == 0:
            break
    return count, takeable


@kernel
def _hold(
    jobs: JobColumns,
    grouped_devices: GroupedDevices,
    pool: DeviceHeaps,
    rules: DispatchRules,
    job: int,
    rounds: int,
) -> Any:
    """Choose a device for each shard of a stretch; whether all are idle, and how many are."""
    now, all_idle, held = rules.now, True, 0
    for shard in range(jobs.scale_J[job]):
        kind = _choose(jobs, pool, job, now, rounds if rules.by_completion else 0)
        cell = pool.first_T[kind]
        device, free_ns = pool.device_C[cell], pool.free_ns_C[cell]
        grouped_devices.chosen_K[shard] = device
        grouped_devices.load_D[device] += 1
        if grouped_devices.load_D[device] == 1:
            all_idle &= free_ns <= now
            held += free_ns <= now
        work_ns = max(1, rounds * jobs.comp_ns_JT[job, kind])
        replace_top(pool, kind, max(now, free_ns) + work_ns)
    return all_idle, held


@kernel
def _begin(
    jobs: JobColumns,
    grouped_devices: GroupedDevices,
    rules: DispatchRules,
    row: int,
    job: int,
    rounds: int,
    free_ns_D: Any,
    rows: Any,
    count: int,
) -> int:
    """Write a stretch down, and until when its devices work; fewer rounds if they are slow."""
    period_ns = 1
    for shard in range(jobs.scale_J[job]):
        device = grouped_devices.chosen_K[shard]
        kind = grouped_devices.type_D[device]
        comp_ns = jobs.comp_ns_JT[job, kind]
        sync_ns = jobs.turn_ns_JT[job, kind] - comp_ns
        period_ns = max(period_ns, grouped_devices.load_D[device] * comp_ns + sync_ns)
    if rules.grain_ns > 0:
        rounds = max(1, min(rounds, rules.grain_ns // period_ns))
    for shard in range(jobs.scale_J[job]):
        device = grouped_devices.chosen_K[shard]
        tasks = grouped_devices.load_D[device]
        if tasks == 0:
            continue
        comp_ns = tasks * jobs.comp_ns_JT[job, grouped_devices.type_D[device]]
        free_ns_D[device] = rules.now + (rounds - 1) * period_ns + comp_ns
        rows[PLACE, count], rows[DEVICE, count] = row, device
        rows[TASKS, count], rows[ROUNDS, count] = tasks, rounds
        grouped_devices.load_D[device] = 0
        count += 1
    return int(count)
