"""What idle devices of a group take: rounds of waiting jobs, in their order, dispatched in time.

Jobs are walked in the order given. Each task of a job's round chooses among all devices of the
group, busy ones too. If its choice is idle the task starts there; if it is busy the task waits,
and for the rest of this walk the device counts as taken until then, so that the next task sees
what is truly left; nothing of that outlives the walk. A task chooses

- ``by_completion``: the device on which it completes first, max(now, phi) + T^c + T^s;
- else: the device that is available first, max(now, phi); of several the fastest.

Jobs of a stretch choose for all their shards at once, several may share a device, and the stretch
starts when all devices that it chose are idle.

*Source.* HLAS (TCC'24), Figs. 9 and 10: several tasks of a round on one GPU of a group, each on the
GPU that is available first. By completion is ours.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from warren.solve.kernel import inlined, kernel
from warren.solve.pool import Pool, rebuild, replace_top, soonest

MOST_AT_ONCE: Final = 16
"""Jobs are asked in batches of 1, 2, 4 and so on, up to so many."""


class Front(NamedTuple):
    """Jobs in the order of their turn, a row each, and costs of all jobs; times in ns.

    ``shard_N``: first task that has no device yet. ``rounds_N``: of a stretch; 1: of this round
    single tasks. ``begun_N``: tasks of its round run already. ``fits_JT``: where the job fits;
    ``turn_ns_JT``: T^c + T^s there.
    """

    job_N: Any
    shard_N: Any
    rounds_N: Any
    begun_N: Any
    scale_J: Any
    comp_ns_JT: Any
    turn_ns_JT: Any
    fits_JT: Any


TAKEABLE, DECLINED, BATCH, LEFT = range(4)
"""How far a walk is, as a column of four: idle devices that nobody has taken or holds, jobs that
declined them, the size of this batch of jobs and how many of it are to be asked yet."""


def asked(takeable: int) -> Any:
    """Nobody has been asked yet."""
    return np.array([takeable, 0, 1, 1])


class Desk(NamedTuple):
    """The devices of a group: ``kind_D`` their types, ``free_ns_D`` when their COMP lane is free.

    ``pool`` and ``load_D`` (all zero) are scratch.
    """

    pool: Pool
    kind_D: Any
    free_ns_D: Any
    load_D: Any


@kernel
def open_desk(desk: Desk) -> None:
    """Begin a walk: forget what the last one held for tasks that wait."""
    for kind in range(len(desk.pool.first_T) - 1):
        rebuild(desk.pool, kind, desk.free_ns_D)


@kernel
def walk(
    front: Front,
    desk: Desk,
    now: int,
    grain_ns: int,
    by_completion: bool,
    most_declined: int,
    so_far: Any,
    rows: Any,
    chosen_K: Any,
) -> Any:
    """Go on with a walk, by these jobs, until all idle devices are taken or held.

    Nobody else is asked either once a batch has ended and ``most_declined`` jobs, of whose round
    no task runs, have started nothing. Writes what starts into ``rows`` (4, R): row of the job,
    shard, device of the group, rounds; when the devices are free again into ``desk``; how far the
    walk is into ``so_far`` (4,). With ``grain_ns`` a stretch on slow devices has fewer rounds: as
    many as fit into it. ``chosen_K`` is scratch, one a task of the widest job. Returns the number
    of rows and whether the walk has ended.
    """
    count, takeable = 0, so_far[TAKEABLE]
    for place in range(len(front.job_N)):
        if takeable == 0:
            break
        if so_far[LEFT] == 0:
            if so_far[DECLINED] >= most_declined:
                return count, True
            so_far[BATCH] = min(2 * so_far[BATCH], MOST_AT_ONCE)
            so_far[LEFT] = so_far[BATCH]
        so_far[LEFT] -= 1
        before = count
        if front.rounds_N[place] == 1:
            count, takeable = _tasks(front, desk, place, now, by_completion, takeable, rows, count)
        else:
            all_idle, held = _hold(front, desk, place, now, by_completion, chosen_K)
            takeable -= held
            if all_idle:
                count = _begin(front, desk, place, now, grain_ns, rows, chosen_K, count)
            for shard in range(front.scale_J[front.job_N[place]]):
                desk.load_D[chosen_K[shard]] = 0
        if count == before and not front.begun_N[place]:
            so_far[DECLINED] += 1
    so_far[TAKEABLE] = takeable
    return count, takeable == 0


@inlined
def _choose(front: Front, desk: Desk, place: int, now: int, weight: int) -> int:
    fits_JT, turn_ns_JT, job = front.fits_JT, front.turn_ns_JT, front.job_N[place]
    return int(soonest(desk.pool, fits_JT, turn_ns_JT, front.comp_ns_JT, job, now, weight))


@kernel
def _tasks(
    front: Front,
    desk: Desk,
    place: int,
    now: int,
    by_completion: bool,
    takeable: int,
    rows: Any,
    count: int,
) -> Any:
    """Give each open task of the round its device, if that is idle."""
    pool, shard, job = desk.pool, front.shard_N[place], front.job_N[place]
    for _ in range(front.shard_N[place], front.scale_J[job]):
        kind = _choose(front, desk, place, now, 1 if by_completion else 0)
        free_ns = pool.free_ns_C[pool.first_T[kind]]
        comp_ns = front.comp_ns_JT[job, kind]
        if free_ns > now:
            if not by_completion:  # nobody is idle, and the others wait for their turn
                break
            replace_top(pool, kind, free_ns + comp_ns)
            continue
        device = pool.device_C[pool.first_T[kind]]
        replace_top(pool, kind, now + max(1, comp_ns))
        desk.free_ns_D[device] = now + comp_ns
        rows[0, count] = place
        rows[1, count] = shard
        rows[2, count] = device
        rows[3, count] = 1
        count += 1
        shard += 1
        takeable -= 1
        if takeable == 0:
            break
    return count, takeable


@kernel
def _hold(
    front: Front, desk: Desk, place: int, now: int, by_completion: bool, chosen_K: Any
) -> Any:
    """Choose a device for each shard of a stretch; whether all are idle, and how many are."""
    pool, rounds, job = desk.pool, front.rounds_N[place], front.job_N[place]
    all_idle, held = True, 0
    for shard in range(front.scale_J[job]):
        kind = _choose(front, desk, place, now, rounds if by_completion else 0)
        cell = pool.first_T[kind]
        device, free_ns = pool.device_C[cell], pool.free_ns_C[cell]
        chosen_K[shard] = device
        desk.load_D[device] += 1
        if desk.load_D[device] == 1:
            all_idle &= free_ns <= now
            held += free_ns <= now
        work_ns = max(1, rounds * front.comp_ns_JT[job, kind])
        replace_top(pool, kind, max(now, free_ns) + work_ns)
    return all_idle, held


@kernel
def _begin(
    front: Front,
    desk: Desk,
    place: int,
    now: int,
    grain_ns: int,
    rows: Any,
    chosen_K: Any,
    count: int,
) -> int:
    """Write a stretch down, and until when its devices work."""
    period_ns, job = 1, front.job_N[place]
    for shard in range(front.scale_J[job]):
        device = chosen_K[shard]
        kind = desk.kind_D[device]
        comp_ns = front.comp_ns_JT[job, kind]
        sync_ns = front.turn_ns_JT[job, kind] - comp_ns
        period_ns = max(period_ns, desk.load_D[device] * comp_ns + sync_ns)
    rounds = front.rounds_N[place]
    if grain_ns > 0:
        rounds = max(1, min(rounds, grain_ns // period_ns))
    for shard in range(front.scale_J[job]):
        device = chosen_K[shard]
        comp_ns = desk.load_D[device] * front.comp_ns_JT[job, desk.kind_D[device]]
        desk.free_ns_D[device] = now + (rounds - 1) * period_ns + comp_ns
        rows[0, count] = place
        rows[1, count] = shard
        rows[2, count] = device
        rows[3, count] = rounds
        count += 1
    return int(count)
