"""Run a whole plan: device orders and barriers in, times out, in one pass over the rows.

Times are the least solution of "start = max(device free, barrier of the round before, arrival)",
plus a switch where the device comes from another job (``plan_units``). Devices are first in, first
out, so the order in which ready rows are taken does not matter. A device whose head waits for a
barrier is parked with the job and comes back when the barrier passes. Rows that are never reached
stand behind a cycle or behind a round that the plan does not complete.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warren.solve.common.arrays import Int, IntArray, UintArray
from warren.solve.common.compile import inlined, kernel
from warren.solve.common.random import factor_ppm, scaled
from warren.solve.lists.plan_units import (
    PlanRows,
    PlanUnits,
    UnitTimes,
    gather_units,
    new_units,
    switch_times,
)

OK, STUCK, TWICE, PARTIAL = range(4)
"""Status of a run: fine; a row never starts; a task appears twice; a stretch misses shards."""
START, COMP_END, END, BUSY = range(4)
"""Rows of the times of units."""


class PlanTables(NamedTuple):
    """The jobs and devices that a plan runs with. Times in ns.

    ``comp_key_J`` and ``sync_key_J`` (uint64) start each job's streams of noise. ``cv_ppm`` is the
    noise's coefficient of variation in parts per million; 0 means that all tasks of a job take the
    same time on one type of device. ``is_lane``: one synchronization at a time per device, in order
    (network ``lane``); else they never queue.
    """

    arrival_ns_J: IntArray
    scale_J: IntArray
    rounds_J: IntArray
    type_D: IntArray
    comp_ns_JT: IntArray
    sync_ns_JT: IntArray
    comp_key_J: UintArray
    sync_key_J: UintArray
    cv_ppm: int
    is_lane: bool


class _State(NamedTuple):
    """State that changes while the plan runs. ``out`` is (4, U), see ``UnitTimes``."""

    head_D: IntArray  # unit at the head of each device's queue, -1 behind the last
    free_ns_D: IntArray
    comm_free_ns_D: IntArray
    stack_D: IntArray  # devices to look at
    parked_D: IntArray  # next device waiting for the same job
    parked_J: IntArray  # first device waiting for this job
    round_J: IntArray
    release_ns_J: IntArray  # when the present round may start
    barrier_ns_J: IntArray  # latest synchronization end of the present round so far
    left_J: IntArray  # tasks of the present round that have not started
    seen_K: IntArray  # last round started, per (job, shard)
    base_J: IntArray  # where a job's shards begin on axis K
    finish_ns_J: IntArray
    switch_ns_U: IntArray  # empty where nothing is charged
    out: IntArray


def _new_state(
    rows: PlanRows, tables: PlanTables, units: PlanUnits, switch_ns_JT: IntArray | None
) -> _State:
    """Make the state before the first unit starts: all devices are to be looked at."""
    jobs, devices = len(tables.scale_J), len(tables.type_D)
    return _State(
        head_D=units.head_D.copy(),
        free_ns_D=np.zeros(devices, np.int64),
        comm_free_ns_D=np.zeros(devices, np.int64),
        # The device of the lowest index lies on top.
        stack_D=np.arange(devices, dtype=np.int64)[::-1].copy(),
        parked_D=np.full(devices, -1, np.int64),
        parked_J=np.full(jobs, -1, np.int64),
        round_J=np.zeros(jobs, np.int64),
        release_ns_J=tables.arrival_ns_J.copy(),
        barrier_ns_J=np.zeros(jobs, np.int64),
        left_J=tables.scale_J.copy(),
        seen_K=np.full(tables.scale_J.sum(), -1, np.int64),
        base_J=np.cumsum(tables.scale_J) - tables.scale_J,
        finish_ns_J=np.full(jobs, -1, np.int64),
        switch_ns_U=switch_times(rows, units, tables.type_D, switch_ns_JT),
        out=np.empty((4, units.count[0]), np.int64),
    )


@inlined
def _run_round(
    rows: PlanRows,
    tables: PlanTables,
    units: PlanUnits,
    unit: int,
    offset: int,
    start: int,
    comm_free: int,
) -> tuple[int, int]:
    """Return the last ends of COMP and synchronization of a unit's tasks in one round.

    The round is the ``offset``-th of the unit, from 0; its COMP begins at ``start``, and the
    device's COMM lane is free from ``comm_free`` on.
    """
    row = units.row_U[unit]
    job, kind = rows.job_R[row], tables.type_D[rows.device_R[row]]
    round_ = rows.round_R[row] + offset
    comp = comp_ns = tables.comp_ns_JT[job, kind]
    sync = sync_ns = tables.sync_ns_JT[job, kind]
    end = comp_end = start
    while row >= 0:
        if tables.cv_ppm > 0:
            shard = rows.shard_R[row]
            comp = scaled(comp_ns, factor_ppm(tables.comp_key_J[job], round_, shard, tables.cv_ppm))
            sync = scaled(sync_ns, factor_ppm(tables.sync_key_J[job], round_, shard, tables.cv_ppm))
        # The tasks of a unit compute one after another. In a lane, so do their synchronizations:
        # each begins when its task has computed and the one before is over.
        comp_end += comp
        if tables.is_lane:
            comm_free = end = max(comm_free, comp_end) + sync
        else:
            end = max(end, comp_end + sync)
        row = units.next_row_R[row]
    return comp_end, end


@inlined
def _write(
    rows: PlanRows,
    units: PlanUnits,
    state: _State,
    unit: int,
    start: int,
    comp_end: int,
    end: int,
    busy: int,
) -> None:
    """Write a unit's times, and let its device go on to its next unit."""
    row, out = units.row_U[unit], state.out
    device = rows.device_R[row]
    out[START, unit] = start
    out[COMP_END, unit] = comp_end
    out[END, unit] = end
    out[BUSY, unit] = busy
    state.free_ns_D[device] = comp_end
    state.comm_free_ns_D[device] = end
    state.head_D[device] = units.next_U[unit]


@kernel
def _run_rest(
    rows: PlanRows,
    tables: PlanTables,
    units: PlanUnits,
    state: _State,
    first: int,
    stop: int,
    barrier: int,
) -> int:
    """Run rounds 2 and later of the stretch of units ``first`` to ``stop``.

    Returns its last barrier. The first round left start and COMP time of each unit in ``out``.
    Without noise all rounds are alike: one is computed and counted ``rounds - 1`` times.
    """
    out = state.out
    rounds = rows.rounds_R[units.row_U[first]]
    noisy = tables.cv_ppm > 0
    repeat = 1 if noisy else rounds - 1
    begin = barrier
    # With noise this runs once for each round from the second on; without, for the last one only.
    for offset in range(1 if noisy else rounds - 1, rounds):
        # No device of a stretch does anything else, so both its lanes are free at the barrier.
        begin = barrier
        for unit in range(first, stop):
            comp_end, end = _run_round(rows, tables, units, unit, offset, begin, begin)
            out[COMP_END, unit] = comp_end
            out[END, unit] = end
            out[BUSY, unit] += repeat * (comp_end - begin)
            barrier = max(barrier, end)
    # The rounds that were not computed shift the last one by a period each.
    skipped = (repeat - 1) * (barrier - begin)
    for unit in range(first, stop):
        comp_end, end = out[COMP_END, unit] + skipped, out[END, unit] + skipped
        _write(rows, units, state, unit, out[START, unit], comp_end, end, out[BUSY, unit])
    return barrier + skipped


@inlined
def _mark_seen(rows: PlanRows, units: PlanUnits, state: _State, unit: int) -> bool:
    """Record the unit's shards for its round; False if one of them ran in it before."""
    row = units.row_U[unit]
    base, round_ = state.base_J[rows.job_R[row]], rows.round_R[row]
    while row >= 0:
        cell = base + rows.shard_R[row]
        if state.seen_K[cell] == round_:
            return False
        state.seen_K[cell] = round_
        row = units.next_row_R[row]
    return True


@inlined
def _pass_barrier(
    tables: PlanTables, state: _State, job: int, rounds: int, barrier: int, depth: int
) -> int:
    """Start the job's next round at ``barrier``, and put its parked devices on the stack.

    Returns the stack's new depth.
    """
    state.round_J[job] += rounds
    state.release_ns_J[job] = barrier
    state.barrier_ns_J[job] = 0
    state.left_J[job] = tables.scale_J[job]
    if state.round_J[job] == tables.rounds_J[job]:
        state.finish_ns_J[job] = barrier
    # Parked devices are a linked list from ``parked_J`` on, through ``parked_D``.
    device = state.parked_J[job]
    state.parked_J[job] = -1
    while device >= 0:
        state.stack_D[depth] = device
        depth += 1
        device = state.parked_D[device]
    return depth


@kernel
def _end_stretch(
    rows: PlanRows, tables: PlanTables, units: PlanUnits, state: _State, unit: int, depth: int
) -> tuple[int, int, int]:
    """Finish the stretch of ``unit``; return its last barrier, the stack's depth and a status.

    The status is ``PARTIAL`` if the stretch does not have all of the job's shards.
    """
    first = units.stretch_U[unit]
    job = rows.job_R[units.row_U[unit]]
    stop = first
    tasks = 0
    while stop < units.count[0] and units.stretch_U[stop] == first:
        tasks += units.tasks_U[stop]
        stop += 1
    if tasks != tables.scale_J[job]:
        return 0, depth, PARTIAL
    barrier = _run_rest(rows, tables, units, state, first, stop, state.barrier_ns_J[job])
    # The devices were held since the first round and go on with the unit behind the stretch.
    for part in range(first, stop):
        state.stack_D[depth] = rows.device_R[units.row_U[part]]
        depth += 1
    return barrier, depth, OK


@inlined
def _run_head(
    rows: PlanRows, tables: PlanTables, units: PlanUnits, state: _State, unit: int, depth: int
) -> tuple[int, int]:
    """Start a unit whose round is the present one; return the stack's new depth and a status."""
    row = units.row_U[unit]
    job = rows.job_R[row]
    rounds = rows.rounds_R[row]
    device = rows.device_R[row]
    if not _mark_seen(rows, units, state, unit):
        return depth, TWICE
    # start = max(device free, barrier of the round before or arrival), plus the switch.
    start = max(state.free_ns_D[device], state.release_ns_J[job])
    if len(state.switch_ns_U) > 0:
        start += state.switch_ns_U[unit]
    comp_end, end = _run_round(rows, tables, units, unit, 0, start, state.comm_free_ns_D[device])
    state.barrier_ns_J[job] = max(state.barrier_ns_J[job], end)
    state.left_J[job] -= units.tasks_U[unit]
    if rounds == 1:
        _write(rows, units, state, unit, start, comp_end, end, comp_end - start)
    else:
        state.out[START, unit] = start
        state.out[BUSY, unit] = comp_end - start
    # All tasks of the round have started, so its barrier is known.
    if state.left_J[job] == 0:
        barrier = state.barrier_ns_J[job]
        if rounds > 1:
            barrier, depth, status = _end_stretch(rows, tables, units, state, unit, depth)
            if status != OK:
                return depth, status
        depth = _pass_barrier(tables, state, job, rounds, barrier, depth)
    return depth, OK


def execute(rows: PlanRows, tables: PlanTables, switch_ns_JT: IntArray | None = None) -> UnitTimes:
    """Run a plan.

    Parameters
    ----------
    rows
        The plan.
    tables
        Jobs and devices.
    switch_ns_JT
        Time of a switch to a job on a type, int64 (J, T); None: nothing.

    Returns
    -------
    UnitTimes
        When each unit and each job ends, or the fault of the plan.
    """
    units = new_units(len(rows.job_R), len(tables.type_D))
    gather_units(rows, units)
    state = _new_state(rows, tables, units, switch_ns_JT)
    status, row = _run(rows, tables, units, state)
    count = units.count[0]
    return UnitTimes(
        status=status,
        row=row,
        row_U=units.row_U[:count],
        tasks_U=units.tasks_U[:count],
        time_ns_XU=state.out,
        finish_ns_J=state.finish_ns_J,
    )


@kernel
def _run(rows: PlanRows, tables: PlanTables, units: PlanUnits, state: _State) -> tuple[int, Int]:
    """Take devices off the stack until it is empty; return a status and its row."""
    depth = len(tables.type_D)
    while depth > 0:
        depth -= 1
        device = state.stack_D[depth]
        while state.head_D[device] >= 0:
            unit = state.head_D[device]
            row = units.row_U[unit]
            job = rows.job_R[row]
            # Nothing overtakes the head of a queue: the device waits for the job's barrier.
            if state.round_J[job] != rows.round_R[row]:
                state.parked_D[device] = state.parked_J[job]
                state.parked_J[job] = device
                break
            depth, status = _run_head(rows, tables, units, state, unit, depth)
            if status != OK:
                return status, row
            # The device is held until its stretch is over, which puts it back.
            if rows.rounds_R[row] > 1:
                break
    outcome: tuple[int, Int] = _stuck(rows, units, state)
    return outcome


@kernel
def _stuck(rows: PlanRows, units: PlanUnits, state: _State) -> tuple[int, Int]:
    """Return ``OK`` and -1 if all rows ran, else a status and the first row at a queue's head."""
    stuck, status = np.int64(-1), OK
    for device in range(len(state.head_D)):
        if state.head_D[device] >= 0:
            row = units.row_U[state.head_D[device]]
            if stuck < 0 or row < stuck:
                stuck = row
                # A task of a round that has passed can only be a duplicate.
                over = rows.round_R[row] < state.round_J[rows.job_R[row]]
                status = TWICE if over else STUCK
    return status, stuck
