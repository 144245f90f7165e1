"""Local search by single tasks: an order of all tasks and a device for each, moved step by step.

Tasks are started in this order: each as soon as its round may and its device has done the tasks
before. Every schedule in which no task can start earlier without another order comes of one, so an
optimum does. A move puts a task at another place of the order, on another device, or both; it is
kept if the result is worse than before by at most a threshold (threshold accepting; Dueck and
Scheuer, 1990), which falls to nothing. Tasks of a round are alike, so the k-th entry of a job is of
its round k / scale.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from warren.solve.common.arrays import IntArray, UintArray
from warren.solve.common.compile import kernel
from warren.solve.common.instance import Instance, prepared
from warren.solve.common.schedule_rows import rows_of_tasks


class TaskOrder(NamedTuple):
    """An order of all tasks I, with the job and the device of each."""

    job_I: IntArray
    device_I: IntArray


class _Scratch(NamedTuple):
    """Arrays that an evaluation writes over. Times in ns."""

    free_ns_D: IntArray
    done_J: IntArray  # tasks placed
    ready_ns_J: IntArray  # when the present round may start
    barrier_ns_J: IntArray  # latest synchronization end of the present round


TRIALS: Final = 2_000
"""Moves in a turn of a search."""
WORSE: Final = (0.3, 0.1, 0.03, 0.0)
"""Most by which an order may be worse at first, as a part of the value, from turn to turn."""
# Kinds of moves, equally likely: to another place (0), to another device (1), both (2).
_MOVES: Final = 3


def walked(
    instance: Instance, rows: IntArray, makespan: bool, turn: int, random: np.random.Generator
) -> tuple[IntArray, int]:
    """Search for one turn, from the rows of a schedule.

    Parameters
    ----------
    instance
        Jobs and devices.
    rows
        The schedule, int64 (5, R): job, round, rounds, shard, device.
    makespan
        Whether the latest completion counts, in place of the sum of w C.
    turn
        Number of the turn, on which it depends how much worse an order may be at first.
    random
        Gives the seed of the turn.

    Returns
    -------
    rows
        The best schedule found; the same rows where they are no single tasks in the order of their
        rounds.
    placed
        Number of tasks placed, a measure of the time it took.
    """
    order = order_of(rows)
    if order is None:
        return rows, 0
    worse, seed = WORSE[turn % len(WORSE)], int(random.integers(2**62))
    found = walk_tasks(
        instance, order, makespan=makespan, trials=TRIALS, threshold=worse, seed=seed
    )
    return rows_of_tasks(*found, instance.scale_J), TRIALS * len(order.job_I)


def order_of(rows: IntArray) -> TaskOrder | None:
    """Return the order of rows (5, R) of single tasks; None if a job's rounds are not in theirs.

    None too if a row has several rounds.
    """
    job_I, round_I, rounds_I, _, device_I = rows
    for job in np.unique(job_I):
        if (np.diff(round_I[job_I == job]) < 0).any():
            return None
    if (rounds_I != 1).any():
        return None
    return TaskOrder(np.array(job_I, np.int64), np.array(device_I, np.int64))


def walk_tasks(
    instance: Instance,
    order: TaskOrder,
    *,
    makespan: bool,
    trials: int,
    threshold: float,
    seed: int,
) -> TaskOrder:
    """Return the best of the orders that ``trials`` moves away from an order lead to.

    ``threshold``: how much worse an order may be at first, as a part of the value. The value is
    the sum of w C in ns, or the latest C with ``makespan``. Deterministic in ``seed``.
    """
    instance = prepared(instance)
    jobs, devices = len(instance.scale_J), len(instance.type_D)
    here = TaskOrder(order.job_I.copy(), order.device_I.copy())
    best = TaskOrder(order.job_I.copy(), order.device_I.copy())
    scratch = _Scratch(
        free_ns_D=np.zeros(devices, np.int64),
        done_J=np.zeros(jobs, np.int64),
        ready_ns_J=np.zeros(jobs, np.int64),
        barrier_ns_J=np.zeros(jobs, np.int64),
    )
    # Xorshift never leaves 0, so its state must not be 0.
    random = np.array([seed % (2**63 - 1) + 1], np.uint64)
    if len(order.job_I):
        _walk(instance, here, best, scratch, makespan, trials, threshold, random)
    return best


@kernel
def _walk(
    instance: Instance,
    here: TaskOrder,
    best: TaskOrder,
    scratch: _Scratch,
    makespan: bool,
    trials: int,
    threshold: float,
    random: UintArray,
) -> None:
    """Move ``here`` for ``trials`` trials, and keep the best order of all in ``best``."""
    tasks = len(here.job_I)
    value = _value(instance, here, scratch, makespan)
    # The threshold falls evenly from ``first``, a part of the value at the start, to nothing.
    least, first = value, value * threshold
    for trial in range(trials):
        kind = _drawn(random, _MOVES)
        source, target = _drawn(random, tasks), _drawn(random, tasks)
        if kind == 1:
            target = source
        device = here.device_I[source]
        if kind != 0:
            other = _drawn(random, len(instance.type_D))
            if not instance.fits_JT[here.job_I[source], instance.type_D[other]]:
                # The job does not fit that device: no move, but the trial counts.
                continue
            here.device_I[source] = other
        _move(here, source, target)
        found = _value(instance, here, scratch, makespan)
        if found <= value + first * (trials - trial) / trials:
            value = found
            if value < least:
                least = value
                for task in range(tasks):
                    best.job_I[task] = here.job_I[task]
                    best.device_I[task] = here.device_I[task]
            continue
        # Not accepted: both parts of the move are undone.
        _move(here, target, source)
        here.device_I[source] = device


@kernel
def _move(order: TaskOrder, source: int, target: int) -> None:
    """Put a task at another place; those between move by one to where it was."""
    job, device = order.job_I[source], order.device_I[source]
    step = 1 if target > source else -1
    for place in range(source, target, step):
        order.job_I[place] = order.job_I[place + step]
        order.device_I[place] = order.device_I[place + step]
    order.job_I[target] = job
    order.device_I[target] = device


@kernel
def _value(instance: Instance, order: TaskOrder, scratch: _Scratch, makespan: bool) -> float:
    """Return the sum of w C, or the latest C, if the tasks start in this order (ns)."""
    free_ns_D, done_J = scratch.free_ns_D, scratch.done_J
    ready_ns_J, barrier_ns_J = scratch.ready_ns_J, scratch.barrier_ns_J
    for device in range(len(free_ns_D)):
        free_ns_D[device] = 0
    for job in range(len(done_J)):
        done_J[job] = 0
        ready_ns_J[job] = instance.arrival_ns_J[job]
        barrier_ns_J[job] = 0
    total, latest_ns = 0.0, 0
    for task in range(len(order.job_I)):
        job, device = order.job_I[task], order.device_I[task]
        kind = instance.type_D[device]
        # start = max(barrier of the round before or arrival, device free); the device computes for
        # T^c, and the synchronization of T^s overlaps with its next task.
        comp_end_ns = max(ready_ns_J[job], free_ns_D[device]) + instance.comp_ns_JT[job, kind]
        free_ns_D[device] = comp_end_ns
        barrier_ns_J[job] = max(barrier_ns_J[job], comp_end_ns + instance.sync_ns_JT[job, kind])
        # After every n tasks the barrier has passed, after n x rounds tasks the job is complete.
        done_J[job] += 1
        if done_J[job] % instance.scale_J[job] == 0:
            ready_ns_J[job] = barrier_ns_J[job]
            if done_J[job] == instance.scale_J[job] * instance.rounds_J[job]:
                total += instance.weight_J[job] * barrier_ns_J[job]
                latest_ns = max(latest_ns, barrier_ns_J[job])
    return float(latest_ns) if makespan else total


@kernel
def _drawn(random: UintArray, below: int) -> int:
    """Draw a number below another (xorshift with 13, 7, 17; Marsaglia, 2003)."""
    value = random[0]
    value ^= value << np.uint64(13)
    value ^= value >> np.uint64(7)
    value ^= value << np.uint64(17)
    random[0] = value
    return int((value >> np.uint64(33)) % np.uint64(below))
