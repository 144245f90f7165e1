"""Hare, Algorithm 1, lines 9-16: a sequence of tasks, placed one after another.

Line 12 to the letter: the task takes the GPU that is available first, m* = argmin phi_m,
whatever its speed; x = max(t, phi_m*), then phi_m* = x + T^c. The GPU is reserved even while the
task still waits for its barrier t. Differs: types that the task does not fit are left out (the
paper lets every task run everywhere); ``by_completion`` is ours: m* = argmin max(t, phi_m) + T^c
+ T^s.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from warren.solve.pool import Pool, new_pool, replace_top, usable


@njit(cache=True, nogil=True)
def algorithm1(
    job_I: Any, round_I: Any, arrival_ns_J: Any, scale_J: Any, rounds_J: Any, comp_ns_JT: Any,
    sync_ns_JT: Any, fits_JT: Any, type_D: Any, by_completion: bool,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """Place the tasks of a sequence.

    Parameters
    ----------
    job_I, round_I
        The sequence pi: job and round of each task. All tasks of a round come before the first
        of the next.
    arrival_ns_J, scale_J, rounds_J, comp_ns_JT, sync_ns_JT, fits_JT, type_D
        The instance; times in ns (constant network).
    by_completion
        False: the earliest available device (published). True: the earliest completion.

    Returns
    -------
    device_I, start_ns_I, finish_ns_J
        Placement and start (x) of each task; each job's last barrier, -1 where the sequence
        does not complete it. A device of -1 marks the first task that cannot be placed, because
        it fits nowhere or comes before its round: the sequence is read no further.
    """
    tasks, jobs = len(job_I), len(scale_J)
    pool = new_pool(type_D, comp_ns_JT.shape[1])
    usable_JT = usable(fits_JT, pool)
    device_I = np.full(tasks, -1, np.int64)
    start_ns_I = np.full(tasks, -1, np.int64)
    finish_ns_J = np.full(jobs, -1, np.int64)
    round_J = np.zeros(jobs, np.int64)
    left_J = scale_J.copy()
    ready_ns_J = arrival_ns_J.copy()
    barrier_ns_J = np.zeros(jobs, np.int64)
    for task in range(tasks):
        job = job_I[task]
        ready_ns = ready_ns_J[job]
        comp_ns_T, sync_ns_T, usable_T = comp_ns_JT[job], sync_ns_JT[job], usable_JT[job]
        kind = _choose(pool, ready_ns, comp_ns_T, sync_ns_T, usable_T, by_completion)
        if kind < 0 or round_I[task] != round_J[job]:
            break
        start_ns = max(ready_ns, pool.free_ns_C[pool.first_T[kind]])
        device_I[task] = pool.device_C[pool.first_T[kind]]
        start_ns_I[task] = start_ns
        comp_end_ns = start_ns + comp_ns_T[kind]
        replace_top(pool, kind, comp_end_ns)
        barrier_ns_J[job] = max(barrier_ns_J[job], comp_end_ns + sync_ns_T[kind])
        left_J[job] -= 1
        if left_J[job] == 0:
            ready_ns_J[job] = barrier_ns_J[job]
            left_J[job] = scale_J[job]
            round_J[job] += 1
            if round_J[job] == rounds_J[job]:
                finish_ns_J[job] = barrier_ns_J[job]
    return device_I, start_ns_I, finish_ns_J


@njit(cache=True, nogil=True)
def _choose(
    pool: Pool, ready_ns: int, comp_ns_T: Any, sync_ns_T: Any, usable_T: Any, by_completion: bool
) -> int:
    """Type whose first device is best; ties go to the lowest device index."""
    best, best_ns = -1, 0
    for kind in range(len(comp_ns_T)):
        if not usable_T[kind]:
            continue
        time_ns = pool.free_ns_C[pool.first_T[kind]]
        if by_completion:
            time_ns = max(ready_ns, time_ns) + comp_ns_T[kind] + sync_ns_T[kind]
        better = best < 0 or time_ns < best_ns
        if not better and time_ns == best_ns:
            better = pool.device_C[pool.first_T[kind]] < pool.device_C[pool.first_T[best]]
        if better:
            best, best_ns = kind, time_ns
    return best
