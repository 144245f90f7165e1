"""Dispatch stretches in time, the job with the least left to do first.

Whenever a device becomes free, a job arrives or a stretch ends, the jobs that could go on are
walked in order of their remaining length. A job takes the idle devices of the types that cost it
least, and of those the slowest, as they set the pace of its gang anyway. A stretch has as many
rounds as the grain has time for on these very devices, so a job on slow devices is looked at again
as soon as a job on fast ones.

Source: Hare (HPDC'22), section 7.1, "SRTF", as the place policy ``srtf`` reads it: with its
lengths, no prices and no patience the finish times are the same to the nanosecond. Differs, where
options ask for it: lengths over weights (Smith 1956, of the remaining work), prices, and waiting
for a type that is worth it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warren.solve.common.arrays import FloatArray, IntArray
from warren.solve.common.compile import inlined, kernel
from warren.solve.common.heaps import (
    Heaps,
    SortedJobs,
    idle_devices,
    insert,
    new_heaps,
    new_sorted_jobs,
    pop,
    push,
    push_all,
    remove,
    usable,
)
from warren.solve.common.instance import Instance, prepared
from warren.solve.common.schedule_rows import write_row
from warren.solve.lists.dispatch_options import GangTimes, TypePreferences, costs_ns_JT


class _State(NamedTuple):
    """State that changes while stretches are dispatched."""

    idle: Heaps
    cost_JT: FloatArray  # of a round, infinite where the job does not run
    length_J: FloatArray
    round_J: IntArray  # -1: has not arrived
    rounds_J: IntArray  # of the present stretch
    left_J: IntArray  # tasks of the present stretch that have not started
    barrier_ns_J: IntArray
    key_J: FloatArray
    ready: SortedJobs  # least key first
    events: Heaps  # of -d - 1: device d becomes free; of j: job j arrives or its barrier passes
    chosen_N: IntArray  # scratch
    finish_ns_J: IntArray
    rows: IntArray  # (5, R)
    counts: IntArray  # [_ROWS], [_VISITS], [_NOW]


# Rows written; jobs looked at; the present time in ns, for a run that goes on with more room.
_ROWS, _VISITS, _NOW = range(3)


def by_remaining(
    instance: Instance, preferences: TypePreferences
) -> tuple[IntArray, IntArray, int]:
    """Dispatch all jobs.

    Parameters
    ----------
    instance
        Jobs and devices; ``stretch_rounds_J`` is a guess of how long stretches will be.
    preferences
        Which job comes first, and which devices it takes.

    Returns
    -------
    rows
        int64 (5, R): job, round, rounds, shard, device, in order of start, which is a valid
        order of a ``Plan``.
    finish_ns_J
        Each job's last barrier under the constant network; -1 for a job left out. Running the
        rows as a plan can only be earlier: a device that was kept waiting starts at once.
    visits
        Number of jobs looked at, a measure of the time it took.
    """
    instance, gangs = prepared(instance), preferences.gangs
    state = _new_state(instance, preferences)
    # The lengths of stretches are known only when they start, so the rows may turn out too few:
    # then the kernel stops, and goes on from there with more room.
    while not _run(instance, gangs, state, preferences.keeps):
        state = state._replace(rows=_more_rows(state.rows, instance.scale_J.max()))
    rows: IntArray = state.rows[:, : state.counts[_ROWS]]
    return rows, state.finish_ns_J, int(state.counts[_VISITS])


def _new_state(instance: Instance, preferences: TypePreferences) -> _State:
    """Make the state before the first arrival: all devices are idle."""
    jobs, types = instance.comp_ns_JT.shape
    usable_JT = usable(instance.fits_JT, instance.type_D)
    runs_J = usable_JT.any(axis=1) & (instance.rounds_J > 0)
    stretches_J = -(-instance.rounds_J // instance.stretch_rounds_J)
    events = new_heaps(1, jobs + len(instance.type_D))
    push_all(events, instance.arrival_ns_J[runs_J], np.flatnonzero(runs_J))
    return _State(
        idle=idle_devices(instance.type_D, types),
        cost_JT=costs_ns_JT(instance, preferences),
        length_J=np.array(preferences.length_J, dtype=np.float64),
        round_J=np.full(jobs, -1, np.int64),
        rounds_J=np.zeros(jobs, np.int64),
        left_J=np.zeros(jobs, np.int64),
        barrier_ns_J=np.zeros(jobs, np.int64),
        key_J=np.zeros(jobs),
        ready=new_sorted_jobs(jobs),
        events=events,
        chosen_N=np.zeros(len(instance.type_D), np.int64),
        finish_ns_J=np.full(jobs, -1, np.int64),
        rows=np.zeros((5, 2 * int((stretches_J * instance.scale_J)[runs_J].sum())), np.int64),
        counts=np.zeros(3, np.int64),
    )


def _more_rows(rows: IntArray, more: int) -> IntArray:
    """Copy the rows into an array with room for twice as many, and ``more``."""
    grown = np.zeros((len(rows), 2 * rows.shape[1] + more), np.int64)
    grown[:, : rows.shape[1]] = rows
    return grown


@kernel
def _run(instance: Instance, gangs: GangTimes, state: _State, keeps: bool) -> bool:
    """Dispatch from where it stopped to the last barrier; False if the rows are full before."""
    events = state.events
    # The walk comes first: with more room, a run goes on with the walk in which it stopped.
    while _walk(instance, gangs, state, keeps, state.counts[_NOW]):
        if events.count_T[0] == 0:
            return True
        now = state.counts[_NOW] = events.key_C[0]
        while events.count_T[0] > 0 and events.key_C[0] == now:
            who = pop(events, 0)
            if who < 0:
                push(state.idle, instance.type_D[-who - 1], -who - 1, -who - 1)
            else:
                _advance(instance, state, who, now)
    return False


@inlined
def _advance(instance: Instance, state: _State, job: int, now: int) -> None:
    """Admit a job that arrives, or end its stretch: it becomes ready, or is done."""
    # From -1, before the arrival, the round becomes 0: ``rounds_J`` is 0 then.
    state.round_J[job] = max(0, state.round_J[job] + state.rounds_J[job])
    left = instance.rounds_J[job] - state.round_J[job]
    if left == 0:
        state.finish_ns_J[job] = now
        return
    state.left_J[job] = instance.scale_J[job]
    state.barrier_ns_J[job] = 0
    # Smallest remaining first: the rounds left, each counted as ``length_J``.
    state.key_J[job] = left * state.length_J[job]
    insert(state.ready, state.key_J, job)


@inlined
def _walk(instance: Instance, gangs: GangTimes, state: _State, keeps: bool, now: int) -> bool:
    """Start jobs in order while devices are idle; False if the rows are full."""
    place = 0
    idle = 0
    idle_T = state.idle.count_T
    for kind in range(len(idle_T)):
        idle += idle_T[kind]
    while idle > 0 and place < state.ready.count[0]:
        job = state.ready.job_N[place]
        if state.counts[_ROWS] + instance.scale_J[job] > state.rows.shape[1]:
            return False
        state.counts[_VISITS] += 1
        # Idle devices of the types that the job has patience for.
        liked = 0
        for kind in range(len(idle_T)):
            if state.cost_JT[job, kind] < np.inf:
                liked += idle_T[kind]
        taken = 0
        if liked > 0:
            if _runs_single(instance, gangs, state, job):
                taken = min(liked, state.left_J[job])
                _start_tasks(instance, state, job, taken, now)
            elif liked >= gangs.gang_J[job]:
                taken = gangs.gang_J[job]
                _start_stretch(instance, gangs, state, job, now)
            # Too few for its gang: they are kept for it, so no job behind it may start.
            elif keeps:
                return True
        idle -= taken
        if taken > 0 and state.left_J[job] == 0:
            remove(state.ready, place)
        else:
            place += 1
    return True


@inlined
def _runs_single(instance: Instance, gangs: GangTimes, state: _State, job: int) -> bool:
    """Tell whether the job's next tasks may start one by one.

    They may if some of their round have started, or if a stretch is one round anyway.
    """
    if state.left_J[job] < instance.scale_J[job]:
        return True
    one_round: bool = _rounds_for(instance, gangs, state, job, gangs.round_ns_J[job]) == 1
    return one_round


@inlined
def _rounds_for(
    instance: Instance, gangs: GangTimes, state: _State, job: int, round_ns: int
) -> int:
    """Return how many rounds of ``round_ns`` the grain allows the next stretch, at least 1."""
    left = instance.rounds_J[job] - state.round_J[job]
    return int(max(1, min(left, gangs.most_rounds, gangs.most_ns // max(1, round_ns))))


@kernel
def _choose(instance: Instance, state: _State, job: int, needed: int) -> None:
    """Take ``needed`` idle devices that cost the job least, the slowest first, then by index.

    They are put into ``chosen_N``. At least ``needed`` idle devices must be of types that it runs
    on.
    """
    idle, cost_JT = state.idle, state.cost_JT
    # Find the least cost up to which there are enough idle devices: each turn adds the types of the
    # next higher cost.
    limit = -1.0
    found = 0
    while found < needed:
        next_cost, count = np.inf, 0
        for kind in range(len(idle.count_T)):
            cost = cost_JT[job, kind]
            if idle.count_T[kind] > 0 and limit < cost <= next_cost:
                count = idle.count_T[kind] + (count if cost == next_cost else 0)
                next_cost = cost
        limit, found = next_cost, found + count
    # The slowest of these types: it sets the gang's pace, so the faster ones are left to others.
    for place in range(needed):
        best, best_ns = -1, -1
        for kind in range(len(idle.count_T)):
            if idle.count_T[kind] == 0 or cost_JT[job, kind] > limit:
                continue
            turn_ns = instance.comp_ns_JT[job, kind] + instance.sync_ns_JT[job, kind]
            if turn_ns > best_ns or (
                turn_ns == best_ns
                and idle.who_C[idle.first_T[kind]] < idle.who_C[idle.first_T[best]]
            ):
                best, best_ns = kind, turn_ns
        state.chosen_N[place] = pop(idle, best)


@kernel
def _start_tasks(instance: Instance, state: _State, job: int, tasks: int, now: int) -> None:
    """Start ``tasks`` tasks of the present round, each on a device of its own."""
    _choose(instance, state, job, tasks)
    state.rounds_J[job] = 1
    for place in range(tasks):
        device = state.chosen_N[place]
        kind = instance.type_D[device]
        shard = instance.scale_J[job] - state.left_J[job]
        write_row(state.rows, state.counts, job, state.round_J[job], 1, shard, device)
        state.left_J[job] -= 1
        comp_end_ns = now + instance.comp_ns_JT[job, kind]
        push(state.events, 0, comp_end_ns, -device - 1)
        end_ns = comp_end_ns + instance.sync_ns_JT[job, kind]
        state.barrier_ns_J[job] = max(state.barrier_ns_J[job], end_ns)
    if state.left_J[job] == 0:
        push(state.events, 0, state.barrier_ns_J[job], job)


@kernel
def _start_stretch(instance: Instance, gangs: GangTimes, state: _State, job: int, now: int) -> None:
    """Start a stretch: all shards, spread evenly over a gang."""
    members, scale = gangs.gang_J[job], instance.scale_J[job]
    _choose(instance, state, job, members)
    # The slowest member sets the period; the grain says how many of them the stretch has.
    period_ns = shard = 0
    for member in range(members):
        stop = _shards_of(member + 1, scale, members)
        kind = instance.type_D[state.chosen_N[member]]
        turn_ns = (stop - shard) * instance.comp_ns_JT[job, kind] + instance.sync_ns_JT[job, kind]
        period_ns = max(period_ns, turn_ns)
        shard = stop
    rounds = _rounds_for(instance, gangs, state, job, period_ns)
    state.rounds_J[job] = rounds
    shard = 0
    for member in range(members):
        device = state.chosen_N[member]
        stop = _shards_of(member + 1, scale, members)
        # The device is free when it has computed its last round: no T^s behind it.
        comp_ns = (stop - shard) * instance.comp_ns_JT[job, instance.type_D[device]]
        push(state.events, 0, now + (rounds - 1) * period_ns + comp_ns, -device - 1)
        for part in range(shard, stop):
            write_row(state.rows, state.counts, job, state.round_J[job], rounds, part, device)
        shard = stop
    state.left_J[job] = 0
    push(state.events, 0, now + rounds * period_ns, job)


@inlined
def _shards_of(first: int, scale: int, members: int) -> int:
    """Return how many shards the ``first`` members of a gang have together.

    Most gangs have one member for each shard, and need no division.
    """
    return first if members == scale else first * scale // members
