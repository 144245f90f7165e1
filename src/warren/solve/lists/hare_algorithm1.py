"""Place a sequence of tasks, one after another: Hare, Algorithm 1, lines 5 to 17.

Line 12 to the letter: the task takes the GPU that is available first, m* = argmin phi_m,
whatever its speed; x = max(t, phi_m*), then phi_m* = x + T^c. The GPU is reserved even while the
task still waits for its barrier t. Differs: types that the task does not fit are left out (the
paper lets every task run everywhere). Two other choices of m*: ``FASTEST`` of those that can start
the task first, argmin max(t, phi_m), for which all idle GPUs are alike; and ours, ``COMPLETION``,
argmin max(t, phi_m) + T^c + T^s.

Symbols: t is when the task's round may start, phi_m when GPU m is free, x when the task starts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warren.solve.common.arrays import BoolArray, IntArray
from warren.solve.common.compile import kernel
from warren.solve.common.heaps import (
    DeviceHeaps,
    first_is_before,
    new_device_heaps,
    replace_top,
    usable,
)

AVAILABLE, FASTEST, COMPLETION = range(3)
"""Choices of line 12: see the module's text."""


class _Rounds(NamedTuple):
    """The columns of the instance that the loop reads, int64, times in ns."""

    scale_J: IntArray
    rounds_J: IntArray
    comp_ns_JT: IntArray
    sync_ns_JT: IntArray


class _State(NamedTuple):
    """State that changes while tasks are placed. ``pool`` has phi of all devices."""

    pool: DeviceHeaps
    usable_JT: BoolArray
    round_J: IntArray
    left_J: IntArray  # tasks of the present round that have not been placed
    ready_ns_J: IntArray  # t: when the present round may start
    barrier_ns_J: IntArray
    device_I: IntArray
    start_ns_I: IntArray
    finish_ns_J: IntArray


def algorithm1(
    job_I: IntArray,
    round_I: IntArray,
    arrival_ns_J: IntArray,
    scale_J: IntArray,
    rounds_J: IntArray,
    comp_ns_JT: IntArray,
    sync_ns_JT: IntArray,
    fits_JT: BoolArray,
    type_D: IntArray,
    choice: int,
) -> tuple[IntArray, IntArray, IntArray]:
    """Place the tasks of a sequence.

    Parameters
    ----------
    job_I, round_I
        The sequence pi: job and round of each task. All tasks of a round come before the first
        of the next.
    arrival_ns_J, scale_J, rounds_J, comp_ns_JT, sync_ns_JT, fits_JT, type_D
        The instance; times in ns (constant network).
    choice
        Choice of the device: ``AVAILABLE`` (published), ``FASTEST`` or ``COMPLETION``.

    Returns
    -------
    device_I, start_ns_I, finish_ns_J
        Placement and start (x) of each task; each job's last barrier, -1 where the sequence
        does not complete it. A device of -1 marks the first task that cannot be placed, because
        it fits nowhere or comes before its round: the sequence is read no further.
    """
    problem = _Rounds(
        scale_J=_own(scale_J),
        rounds_J=_own(rounds_J),
        comp_ns_JT=_own(comp_ns_JT),
        sync_ns_JT=_own(sync_ns_JT),
    )
    tasks, jobs = len(job_I), len(problem.scale_J)
    state = _State(
        pool=new_device_heaps(type_D, problem.comp_ns_JT.shape[1]),
        usable_JT=usable(np.array(fits_JT, dtype=np.bool_), type_D),
        round_J=np.zeros(jobs, np.int64),
        left_J=problem.scale_J.copy(),
        ready_ns_J=_own(arrival_ns_J),
        barrier_ns_J=np.zeros(jobs, np.int64),
        device_I=np.full(tasks, -1, np.int64),
        start_ns_I=np.full(tasks, -1, np.int64),
        finish_ns_J=np.full(jobs, -1, np.int64),
    )
    _place(problem, state, _own(job_I), _own(round_I), choice)
    return state.device_I, state.start_ns_I, state.finish_ns_J


def _own(column: IntArray) -> IntArray:
    """Copy a column into a contiguous int64 array, as the kernel is compiled for."""
    return np.array(column, dtype=np.int64, order="C")


@kernel
def _place(
    problem: _Rounds, state: _State, job_I: IntArray, round_I: IntArray, choice: int
) -> None:
    """Place the tasks of the sequence: the loop of lines 5 to 17."""
    pool = state.pool
    for task in range(len(job_I)):
        job = job_I[task]
        # Line 12: the first device of the chosen type is m*.
        kind = _choose(problem, state, job, choice)
        if kind < 0 or round_I[task] != state.round_J[job]:
            break
        # Lines 13 and 14: x = max(t, phi_m*), on m*.
        start_ns = max(state.ready_ns_J[job], pool.free_ns_C[pool.first_T[kind]])
        state.device_I[task] = pool.device_C[pool.first_T[kind]]
        state.start_ns_I[task] = start_ns
        # Line 16: phi_m* = x + T^c. The synchronization overlaps with the next task.
        comp_end_ns = start_ns + problem.comp_ns_JT[job, kind]
        replace_top(pool, kind, comp_end_ns)
        # Line 10, for the round after this one: t is the latest x + T^c + T^s of this one.
        end_ns = comp_end_ns + problem.sync_ns_JT[job, kind]
        state.barrier_ns_J[job] = max(state.barrier_ns_J[job], end_ns)
        state.left_J[job] -= 1
        if state.left_J[job] == 0:
            state.ready_ns_J[job] = state.barrier_ns_J[job]
            state.left_J[job] = problem.scale_J[job]
            state.round_J[job] += 1
            if state.round_J[job] == problem.rounds_J[job]:
                state.finish_ns_J[job] = state.barrier_ns_J[job]


@kernel
def _choose(problem: _Rounds, state: _State, job: int, choice: int) -> int:
    """Return the type whose first device is best, -1 if none is usable.

    Ties go to the device that is free first, then to the lowest index.
    """
    pool = state.pool
    best = -1
    best_ns = 0
    best_turn_ns = 0
    for kind in range(len(pool.first_T) - 1):
        if not state.usable_JT[job, kind]:
            continue
        # Choices are compared by (time, turn): phi and 0 for AVAILABLE, max(t, phi) and T^c + T^s
        # for FASTEST, their sum and 0 for COMPLETION.
        time_ns = pool.free_ns_C[pool.first_T[kind]]
        turn_ns = 0
        if choice != AVAILABLE:
            time_ns = max(state.ready_ns_J[job], time_ns)
            turn_ns = problem.comp_ns_JT[job, kind] + problem.sync_ns_JT[job, kind]
        if choice == COMPLETION:
            time_ns, turn_ns = time_ns + turn_ns, 0
        better = best < 0 or time_ns < best_ns or (time_ns == best_ns and turn_ns < best_turn_ns)
        if not better and time_ns == best_ns and turn_ns == best_turn_ns:
            better = first_is_before(pool, kind, best)
        if better:
            best = kind
            best_ns = time_ns
            best_turn_ns = turn_ns
    return best
