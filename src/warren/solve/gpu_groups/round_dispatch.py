"""Starts of a job on idle devices of a group: tasks of a round, or a stretch of rounds.

Each task of a job's round chooses among all devices of the group, busy ones too. If its choice is
idle the task starts there; if it is busy the task waits, and for the rest of this walk the device
counts as taken until then, so that the next task sees what is truly left; no such mark outlives the
walk. A task chooses

- ``by_completion``: the device on which it completes first, max(now, phi) + T^c + T^s;
- else: the device that is available first, max(now, phi); of several the fastest.

Jobs of a stretch choose for all their shards at once, several may share a device, and the stretch
starts when all devices that it chose are idle. It has as many rounds as the grain allows if all its
tasks were on devices of its fastest type in the group.

*Source.* HLAS (TCC'24), Figs. 9 and 10: several tasks of a round on one GPU of a group, each on the
GPU that is available first. By completion is ours.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from warren.solve.common.arrays import BoolArray, Int, IntArray
from warren.solve.common.compile import inlined, kernel
from warren.solve.common.heaps import DeviceHeaps, replace_top, soonest

_ENDLESS: Final = 2**40
"""Most rounds of a stretch by time."""
_FAR_NS: Final = 2**61
"""No stretch is expected to last longer: 73 years."""


class JobColumns(NamedTuple):
    """Properties of jobs: columns over jobs (J,) and types (J, T), times in ns, as in a view.

    ``turn_ns_JT``: T^c + T^s where the job fits; it may have more rows than there are jobs.
    """

    scale_J: IntArray
    next_shard_J: IntArray
    comp_ns_JT: IntArray
    turn_ns_JT: IntArray
    fits_JT: BoolArray


class GroupedDevices(NamedTuple):
    """The devices of a cluster in their groups.

    The heap of devices of type t of group g has the cells from ``first_GT[g, t]`` to
    ``first_GT[g, t + 1]`` of ``free_ns_C`` and ``device_C`` (see ``DeviceHeaps``). These,
    ``load_D`` (all zero), ``idle_T`` and ``chosen_K``, one a task of the widest job, are scratch.
    """

    first_GT: IntArray
    free_ns_C: IntArray
    device_C: IntArray
    type_D: IntArray
    load_D: IntArray
    idle_T: BoolArray
    chosen_K: IntArray


class DispatchRules(NamedTuple):
    """Rules of the jobs' choice, the same for all of a decision; times in ns.

    ``grain_rounds``: rounds of a stretch, or 0: as many as fit into ``grain_ns``.
    ``most_declined``: see ``waiting_walk``.
    """

    now: int
    grain_rounds: int
    grain_ns: int
    by_completion: bool
    most_declined: int


PLACE, DEVICE, TASKS, ROUNDS = range(4)
"""Rows of the starting tasks.

PLACE is that of a job in ``WaitingColumns``: n, or -1 - p of a job that has begun.
"""


@kernel
def ask(
    jobs: JobColumns,
    groups: GroupedDevices,
    pool: DeviceHeaps,
    rules: DispatchRules,
    row: Int,
    job: Int,
    takeable: Int,
    free_ns_D: IntArray,
    rows: IntArray,
    count: Int,
) -> tuple[Int, Int]:
    """Start as much of the job as can start.

    Parameters
    ----------
    pool
        The heaps of the group's devices.
    row
        The value of PLACE for this job.
    takeable
        Idle devices of the group that are neither taken nor held.
    rows, count
        The starting tasks, and how many columns of them are in use.

    Returns
    -------
    count, takeable
        Both as they are afterwards.
    """
    rounds = _rounds(jobs, pool, rules, job)
    if rounds == 1:
        count, takeable = _tasks(jobs, pool, rules, row, job, takeable, free_ns_D, rows, count)
        return count, takeable
    # A stretch starts on all its devices or on none; either way the idle ones among them are held.
    all_idle, held = _hold(jobs, groups, pool, rules, job, rounds)
    if all_idle:
        count = _begin(jobs, groups, rules, row, job, rounds, free_ns_D, rows, count)
    # load_D is all zero between calls.
    for shard in range(jobs.scale_J[job]):
        groups.load_D[groups.chosen_K[shard]] = 0
    return count, takeable - held


@inlined
def _rounds(jobs: JobColumns, pool: DeviceHeaps, rules: DispatchRules, job: Int) -> int:
    """Return the rounds of a stretch, as if all tasks were on devices of the job's fastest type."""
    # A round that has begun is finished task by task.
    if jobs.next_shard_J[job] > 0 or rules.grain_rounds == 1:
        return 1
    first_T = pool.first_T
    least_ns = -1
    longest_ns = 1
    # Shards per device of the group, rounded up. k tasks of one device take (k - 1) T^c and one
    # turn, since synchronizations go on beside the next task.
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
    # Sums of times stay within int64 even if one device gets all shards.
    return int(max(1, min(rounds, _FAR_NS // longest_ns // jobs.scale_J[job])))


@inlined
def _choose(jobs: JobColumns, pool: DeviceHeaps, job: Int, now: Int, weight: Int) -> int:
    """Return the type whose first device a task chooses; ``weight`` 0: the first free one."""
    return int(soonest(pool, jobs.fits_JT, jobs.turn_ns_JT, jobs.comp_ns_JT, job, now, weight))


@kernel
def _tasks(
    jobs: JobColumns,
    pool: DeviceHeaps,
    rules: DispatchRules,
    row: Int,
    job: Int,
    takeable: Int,
    free_ns_D: IntArray,
    rows: IntArray,
    count: Int,
) -> tuple[Int, Int]:
    """Give each open task of the round its device, if that is idle; return count and takeable."""
    now = rules.now
    for _ in range(jobs.next_shard_J[job], jobs.scale_J[job]):
        kind = _choose(jobs, pool, job, now, 1 if rules.by_completion else 0)
        free_ns = pool.free_ns_C[pool.first_T[kind]]
        comp_ns = jobs.comp_ns_JT[job, kind]
        if free_ns > now:
            # The first device to be free is busy, so none is idle.
            if not rules.by_completion:
                break
            # The task waits for it: for the tasks after it the device is taken until then.
            replace_top(pool, kind, free_ns + comp_ns)
            continue
        # At least 1 ns, so that a device that has been taken is idle no more.
        device = pool.device_C[pool.first_T[kind]]
        replace_top(pool, kind, now + max(1, comp_ns))
        free_ns_D[device] = now + comp_ns
        rows[PLACE, count] = row
        rows[DEVICE, count] = device
        rows[TASKS, count] = 1
        rows[ROUNDS, count] = 1
        count += 1
        takeable -= 1
        if takeable == 0:
            break
    return count, takeable


@kernel
def _hold(
    jobs: JobColumns,
    groups: GroupedDevices,
    pool: DeviceHeaps,
    rules: DispatchRules,
    job: Int,
    rounds: Int,
) -> tuple[bool, Int]:
    """Choose a device for each shard of a stretch; tell whether all are idle, and how many are."""
    now = rules.now
    all_idle = True
    held = 0
    for shard in range(jobs.scale_J[job]):
        kind = _choose(jobs, pool, job, now, rounds if rules.by_completion else 0)
        cell = pool.first_T[kind]
        device, free_ns = pool.device_C[cell], pool.free_ns_C[cell]
        groups.chosen_K[shard] = device
        groups.load_D[device] += 1
        # Several shards may choose one device, which counts once.
        if groups.load_D[device] == 1:
            all_idle &= free_ns <= now
            held += free_ns <= now
        work_ns = max(1, rounds * jobs.comp_ns_JT[job, kind])
        replace_top(pool, kind, max(now, free_ns) + work_ns)
    return all_idle, held


@kernel
def _begin(
    jobs: JobColumns,
    groups: GroupedDevices,
    rules: DispatchRules,
    row: Int,
    job: Int,
    rounds: Int,
    free_ns_D: IntArray,
    rows: IntArray,
    count: Int,
) -> int:
    """Write a stretch down, and until when its devices work; fewer rounds if they are slow."""
    # The slowest device sets the period: its tasks one after the other, then the last one's T^s.
    period_ns = 1
    for shard in range(jobs.scale_J[job]):
        device = groups.chosen_K[shard]
        kind = groups.type_D[device]
        comp_ns = jobs.comp_ns_JT[job, kind]
        sync_ns = jobs.turn_ns_JT[job, kind] - comp_ns
        period_ns = max(period_ns, groups.load_D[device] * comp_ns + sync_ns)
    if rules.grain_ns > 0:
        rounds = max(1, min(rounds, rules.grain_ns // period_ns))
    for shard in range(jobs.scale_J[job]):
        device = groups.chosen_K[shard]
        tasks = groups.load_D[device]
        # A device that several shards chose has been written down at the first of them.
        if tasks == 0:
            continue
        # It computes until its tasks of the last round are done; their T^s is the COMM lane's.
        comp_ns = tasks * jobs.comp_ns_JT[job, groups.type_D[device]]
        free_ns_D[device] = rules.now + (rounds - 1) * period_ns + comp_ns
        rows[PLACE, count] = row
        rows[DEVICE, count] = device
        rows[TASKS, count] = tasks
        rows[ROUNDS, count] = rounds
        groups.load_D[device] = 0
        count += 1
    return int(count)
