"""Dispatch tasks in time by lists: the most urgent job chooses first, the earliest completion.

Whenever a device becomes free, a job arrives or a barrier passes, the ready jobs are walked in
order of priority. Each open task looks at all devices, busy ones too, and chooses the earliest
completion max(now, phi) + T^c + T^s, phi the time at which the device is free. If that device is
idle the task starts there. If it is busy the task waits, and for the rest of this walk the device
counts as taken until phi + T^c, so that the next task sees what is truly left; no such mark
outlives the walk. So a device idles only if every ready task expects to be done earlier elsewhere.

Jobs with ``stretch_rounds_J`` > 1 choose for all their shards and a whole stretch at once, by the
earliest completion of its COMP and synchronization; several shards may share a device. A stretch
starts when all the devices it chose are idle.

Source: list scheduling in the order of Hare's Algorithm 1. Differs from it: no device is reserved
for a task that waits for its barrier, and speed counts.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from warren.solve.common.arrays import BoolArray, FloatArray, IntArray
from warren.solve.common.compile import inlined, kernel
from warren.solve.common.heaps import (
    DeviceHeaps,
    Heaps,
    SortedJobs,
    insert,
    new_device_heaps,
    new_heaps,
    new_sorted_jobs,
    pop,
    push,
    rebuild,
    remove,
    replace_top,
    soonest,
    usable,
)
from warren.solve.common.instance import Instance, prepared
from warren.solve.common.schedule_rows import write_row


class _State(NamedTuple):
    """State that changes while tasks are dispatched.

    ``free_ns_D`` is when each device is free. ``pool`` is the present walk's view of that: a device
    for which a task waits shows as busy.
    """

    pool: DeviceHeaps
    usable_JT: BoolArray
    turn_ns_JT: IntArray  # T^c + T^s
    free_ns_D: IntArray
    altered_T: BoolArray  # heaps of ``pool`` that differ from ``free_ns_D``
    round_J: IntArray
    left_J: IntArray  # tasks of the present round that have not started
    barrier_ns_J: IntArray
    priority_J: FloatArray  # of the first round
    step_J: FloatArray  # addition of each further round
    key_J: FloatArray  # priority of the present round
    arrived_J: BoolArray  # or left out
    ready: SortedJobs  # in order of priority
    events: Heaps  # a job that arrives or whose barrier passes, or -1: a device is free
    counts: IntArray  # [ROWS], [IDLE], [TAKEABLE]
    finish_ns_J: IntArray
    rows: IntArray  # (5, R): job, round, rounds, shard, device
    chosen_K: IntArray  # scratch of one stretch: device of each shard
    load_D: IntArray  # scratch of one stretch: shards on each device


ROWS, IDLE, TAKEABLE = range(3)
"""``counts``: rows written; idle devices; devices this walk may still fill."""
# A task is of one round: an int64, as the rounds of a stretch are.
_ONE: Final = np.int64(1)


def dispatch(
    instance: Instance, priority_J: FloatArray, step_J: FloatArray
) -> tuple[IntArray, IntArray]:
    """Dispatch all jobs.

    Parameters
    ----------
    instance
        Jobs and devices.
    priority_J, step_J
        The priority of round r is ``priority_J + r * step_J``, float64; lower comes first, ties go
        to the lower job index.

    Returns
    -------
    rows
        int64 (5, R): job, round, rounds, shard, device, in order of start, which is a valid
        order of a ``Plan``.
    finish_ns_J
        Each job's last barrier under the constant network; -1 for a job that was left out. Running
        the rows as a plan can only be earlier: a task that waited for a better device and then took
        a device that was idle all along starts there at once. T^c of 0 counts as 1 ns.
    """
    instance = prepared(instance)
    state = _new_state(instance, priority_J, step_J)
    _run(instance, state, bool((instance.stretch_rounds_J > 1).any()))
    return state.rows[:, : state.counts[ROWS]], state.finish_ns_J


def _new_state(instance: Instance, priority_J: FloatArray, step_J: FloatArray) -> _State:
    """Make the state before the first arrival: all devices are idle."""
    jobs, types = instance.comp_ns_JT.shape
    devices = len(instance.type_D)
    pool = new_device_heaps(instance.type_D, types)
    usable_JT = usable(instance.fits_JT, instance.type_D)
    rounds_J = np.where(usable_JT.any(axis=1), np.maximum(instance.rounds_J, 0), 0)
    rows = int((-(-rounds_J // instance.stretch_rounds_J) * instance.scale_J).sum())
    counts = np.zeros(3, np.int64)
    counts[IDLE] = devices
    return _State(
        pool=pool,
        usable_JT=usable_JT,
        turn_ns_JT=np.where(usable_JT, instance.comp_ns_JT + instance.sync_ns_JT, 0),
        free_ns_D=np.zeros(devices, np.int64),
        altered_T=np.zeros(types, np.bool_),
        round_J=np.zeros(jobs, np.int64),
        left_J=instance.scale_J.copy(),
        barrier_ns_J=np.zeros(jobs, np.int64),
        priority_J=np.array(priority_J, dtype=np.float64),
        step_J=np.array(step_J, dtype=np.float64),
        key_J=np.array(priority_J, dtype=np.float64),
        arrived_J=rounds_J == 0,
        ready=new_sorted_jobs(jobs),
        events=new_heaps(1, jobs + devices),
        counts=counts,
        finish_ns_J=np.full(jobs, -1, np.int64),
        rows=np.zeros((5, rows), np.int64),
        chosen_K=np.zeros(instance.scale_J.max(initial=1), np.int64),
        load_D=np.zeros(devices, np.int64),
    )


@inlined
def _choose(instance: Instance, state: _State, job: int, now: int, rounds: int) -> int:
    """Return the type with the earliest completion of a stretch of ``rounds`` rounds."""
    turn_ns_JT, comp_ns_JT = state.turn_ns_JT, instance.comp_ns_JT
    return int(soonest(state.pool, state.usable_JT, turn_ns_JT, comp_ns_JT, job, now, rounds))


@inlined
def _start_tasks(instance: Instance, state: _State, job: int, now: int) -> bool:
    """Assign each open task of the round to its device; tell whether all of them have started."""
    pool = state.pool
    open_tasks = state.left_J[job]
    for _ in range(open_tasks):
        kind = _choose(instance, state, job, now, _ONE)
        comp_ns = instance.comp_ns_JT[job, kind]
        free_ns = pool.free_ns_C[pool.first_T[kind]]
        # The best device is busy, so the task waits, and for this walk the device counts as taken.
        if free_ns > now:
            replace_top(pool, kind, free_ns + comp_ns)
            state.altered_T[kind] = True
            continue
        device = pool.device_C[pool.first_T[kind]]
        comp_end_ns = now + comp_ns
        replace_top(pool, kind, comp_end_ns)
        state.free_ns_D[device] = comp_end_ns
        push(state.events, 0, comp_end_ns, -1)
        shard = instance.scale_J[job] - state.left_J[job]
        write_row(state.rows, state.counts, job, state.round_J[job], 1, shard, device)
        end_ns = comp_end_ns + instance.sync_ns_JT[job, kind]
        state.barrier_ns_J[job] = max(state.barrier_ns_J[job], end_ns)
        state.left_J[job] -= 1
        state.counts[IDLE] -= 1
        state.counts[TAKEABLE] -= 1
        # All that is idle is taken: nothing more can start in this walk.
        if state.counts[TAKEABLE] == 0:
            break
    if state.left_J[job] > 0:
        return False
    # The round's last synchronization end is its barrier: the job's next event.
    push(state.events, 0, state.barrier_ns_J[job], job)
    return True


@inlined
def _start_stretch(instance: Instance, state: _State, job: int, now: int, rounds: int) -> bool:
    """Start a stretch if all devices that it chooses are idle, else hold them for this walk.

    Tells whether it started.
    """
    pool, scale = state.pool, instance.scale_J[job]
    all_idle = True
    for shard in range(scale):
        kind = _choose(instance, state, job, now, rounds)
        device = pool.device_C[pool.first_T[kind]]
        state.chosen_K[shard] = device
        state.load_D[device] += 1
        # Only the first shard on a device asks whether it is idle; the next ones find it taken by
        # their own stretch. A device that another stretch holds in this walk shows as busy here,
        # though it is idle.
        first = state.load_D[device] == 1
        all_idle &= not first or pool.free_ns_C[pool.first_T[kind]] <= now
        free_ns = (
            max(now, pool.free_ns_C[pool.first_T[kind]]) + rounds * instance.comp_ns_JT[job, kind]
        )
        replace_top(pool, kind, free_ns)
        state.altered_T[kind] = True
    if all_idle:
        _commit_stretch(instance, state, job, now, rounds)
    for shard in range(scale):
        state.load_D[state.chosen_K[shard]] = 0
    return all_idle


@inlined
def _commit_stretch(instance: Instance, state: _State, job: int, now: int, rounds: int) -> None:
    """Start a stretch on the devices chosen for its shards: write its rows, push its events."""
    # Devices that run several shards take longer: the slowest sets the period of all rounds.
    period_ns = 0
    for shard in range(instance.scale_J[job]):
        device = state.chosen_K[shard]
        kind = instance.type_D[device]
        comp_ns = state.load_D[device] * instance.comp_ns_JT[job, kind]
        period_ns = max(period_ns, comp_ns + instance.sync_ns_JT[job, kind])
        write_row(state.rows, state.counts, job, state.round_J[job], rounds, shard, device)
    for shard in range(instance.scale_J[job]):
        device = state.chosen_K[shard]
        comp_ns = state.load_D[device] * instance.comp_ns_JT[job, instance.type_D[device]]
        comp_end_ns = now + (rounds - 1) * period_ns + comp_ns
        # Only the first shard on a device makes it busy: the end is the same for the others.
        if state.free_ns_D[device] != comp_end_ns:
            state.free_ns_D[device] = comp_end_ns
            state.counts[IDLE] -= 1
            push(state.events, 0, comp_end_ns, -1)
    push(state.events, 0, now + rounds * period_ns, job)


@inlined
def _walk(instance: Instance, state: _State, now: int, takeable: int) -> None:
    """Ask all ready jobs in order, until none is left or ``takeable`` devices are filled."""
    state.counts[TAKEABLE] = takeable
    # Reservations of the walk before are forgotten.
    for kind in range(len(state.altered_T)):
        if state.altered_T[kind]:
            rebuild(state.pool, kind, state.free_ns_D)
            state.altered_T[kind] = False
    place = 0
    while place < state.ready.count[0] and state.counts[TAKEABLE] > 0:
        job = state.ready.job_N[place]
        if instance.stretch_rounds_J[job] > 1:
            rounds = _stretch_of(instance, state, job)
            started = _start_stretch(instance, state, job, now, rounds)
        else:
            started = _start_tasks(instance, state, job, now)
        # Removing a job moves the next one to its place.
        if started:
            remove(state.ready, place)
        else:
            place += 1


@inlined
def _stretch_of(instance: Instance, state: _State, job: int) -> int:
    """Return how many rounds the job's next stretch has."""
    return int(min(instance.stretch_rounds_J[job], instance.rounds_J[job] - state.round_J[job]))


@inlined
def _pass_barrier(instance: Instance, state: _State, job: int, now: int) -> None:
    """End the stretch or round that ran: the next one becomes ready, or the job is done."""
    state.round_J[job] += _stretch_of(instance, state, job)
    if state.round_J[job] == instance.rounds_J[job]:
        state.finish_ns_J[job] = now
        return
    state.left_J[job] = instance.scale_J[job]
    state.barrier_ns_J[job] = 0
    state.key_J[job] = state.priority_J[job] + state.round_J[job] * state.step_J[job]
    insert(state.ready, state.key_J, job)


@kernel
def _run(instance: Instance, state: _State, stretches: bool) -> None:
    """Dispatch from the first arrival to the last barrier."""
    for job in range(len(instance.scale_J)):
        if not state.arrived_J[job]:
            push(state.events, 0, instance.arrival_ns_J[job], job)
    while state.events.count_T[0] > 0:
        now = state.events.key_C[0]
        # All events of this instant come before the walk, so ties have one order.
        freed, before = 0, state.ready.count[0]
        while state.events.count_T[0] > 0 and state.events.key_C[0] == now:
            job = pop(state.events, 0)
            if job < 0:
                freed += 1
            elif state.arrived_J[job]:
                _pass_barrier(instance, state, job, now)
            else:
                state.arrived_J[job] = True
                insert(state.ready, state.key_J, job)
        state.counts[IDLE] += freed
        # The devices that the last walk left idle were worth less to every ready task than waiting.
        # Time makes them worth less still, so while no job joins the ready jobs only the devices
        # freed now can be chosen. (A stretch may end later than its walk assumed.)
        full = stretches or state.ready.count[0] > before
        _walk(instance, state, now, state.counts[IDLE] if full else freed)
