"""Dispatch tasks in time on the types that a rule of sharing gives each job. Grain 1.

Whenever a job arrives or ends, devices are shared as if they could be divided
(``divisible_devices``). A job that gets several types uses them in turn, a whole round on one, in
proportion to its rates there; a job that gets nothing waits for the type that costs it least. Each
type has a queue in order of priority: a device that becomes free takes the next task of the first
job in it. So no device of a type idles while a task waits for that type, and the most urgent job
waits for running tasks only.

Source: list scheduling in the order of Hare's Algorithm 1 (a global order, spread over rounds).
Differs: which type a round uses is decided by order and prices, before any device is looked at.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from warren.solve.common.arrays import FloatArray, IntArray
from warren.solve.common.compile import kernel
from warren.solve.common.heaps import Heaps, insert, new_heaps, pop, push, push_all, remove
from warren.solve.common.instance import Instance, prepared
from warren.solve.common.schedule_rows import write_row
from warren.solve.relaxation.divisible_devices import (
    VISITS,
    Shares,
    SharingRule,
    new_shares,
    price_types,
    share,
    terms_of,
)


class _State(NamedTuple):
    """State that changes in a dispatch. ``rows`` is (5, R), as ``guided`` returns it."""

    shares: Shares
    queues: Heaps  # jobs whose round waits for a type
    events: Heaps  # of -d - 1: device d becomes free; of j: job j arrives or its barrier passes
    idle_D: IntArray  # stacks of idle devices, one a type
    first_T: IntArray  # where the stack of each type begins
    idle_T: IntArray  # idle devices of each type
    credit_JT: FloatArray  # rounds that a job is behind its share of each type
    round_J: IntArray  # -1: has not arrived
    left_J: IntArray  # tasks of the present round that have not started
    barrier_ns_J: IntArray
    finish_ns_J: IntArray
    ready_N: IntArray  # scratch: jobs whose next round is ready
    rows: IntArray
    count: Any  # IntArray; a tuple's method has this name


def guided(instance: Instance, rule: SharingRule) -> tuple[IntArray, IntArray, int]:
    """Dispatch all jobs.

    Returns
    -------
    rows
        int64 (5, R): job, round, rounds (1), shard, device, in order of start, which is a valid
        order of a ``Plan``.
    finish_ns_J
        Each job's last barrier under the constant network; -1 for a job that fits no device or
        has no rounds. T^c of 0 counts as 1 ns.
    visits
        Times that a job was served in a sharing, a measure of the time it took.
    """
    instance = prepared(instance)
    state = _new_state(instance, rule)
    _run(instance, state)
    rows: IntArray = state.rows[:, : state.count[0]]
    return rows, state.finish_ns_J, int(state.shares.count[VISITS])


def _new_state(instance: Instance, rule: SharingRule) -> _State:
    """Make the state before the first arrival: all devices are idle, and no job is present."""
    jobs, types = instance.comp_ns_JT.shape
    devices = len(instance.type_D)
    shares = new_shares(instance, rule, terms_of(instance))
    runs_J = np.isfinite(shares.turn_s_JT).any(axis=1) & (instance.rounds_J > 0)
    count_T = np.bincount(instance.type_D, minlength=types)
    events = new_heaps(1, jobs + devices)
    push_all(events, instance.arrival_ns_J[runs_J], np.flatnonzero(runs_J))
    return _State(
        shares=shares,
        queues=new_heaps(types, jobs),
        events=events,
        # The device of the lowest index lies on top.
        idle_D=np.lexsort((-np.arange(devices), instance.type_D)),
        first_T=np.cumsum(count_T) - count_T,
        idle_T=count_T.astype(np.int64),
        credit_JT=np.zeros((jobs, types)),
        round_J=np.full(jobs, -1, np.int64),
        left_J=np.zeros(jobs, np.int64),
        barrier_ns_J=np.zeros(jobs, np.int64),
        finish_ns_J=np.full(jobs, -1, np.int64),
        ready_N=np.zeros(jobs, np.int64),
        rows=np.zeros((5, int((instance.rounds_J * instance.scale_J)[runs_J].sum())), np.int64),
        count=np.zeros(1, np.int64),
    )


@kernel
def _run(instance: Instance, state: _State) -> None:
    """Dispatch from the first arrival to the last barrier."""
    events = state.events
    while events.count_T[0] > 0:
        now = events.key_C[0]
        # All events of this instant come first: devices are shared once for all of them.
        changed, ready = False, 0
        while events.count_T[0] > 0 and events.key_C[0] == now:
            who = pop(events, 0)
            if who < 0:
                _put_back(instance, state, -who - 1)
                continue
            changed |= _advance(instance, state, who, now)
            if state.finish_ns_J[who] < 0:
                state.ready_N[ready] = who
                ready += 1
        if changed:
            share(state.shares)
        # A job joins the queue of one type for all tasks of its next round.
        for place in range(ready):
            job = state.ready_N[place]
            push(state.queues, _next_type(state, job), state.shares.rank_J[job], job)
        for kind in range(len(state.idle_T)):
            _fill(instance, state, kind, now)


@kernel
def _put_back(instance: Instance, state: _State, device: int) -> None:
    """Put a device that has become free on the stack of its type."""
    kind = instance.type_D[device]
    state.idle_D[state.first_T[kind] + state.idle_T[kind]] = device
    state.idle_T[kind] += 1


@kernel
def _advance(instance: Instance, state: _State, job: int, now: int) -> bool:
    """Admit a job, or pass its barrier; tell whether the set of jobs present has changed."""
    shares, arrives = state.shares, state.round_J[job] < 0
    state.round_J[job] += 1
    if arrives:
        insert(shares.present, shares.rank_J, job)
        shares.weight[0] += shares.weight_J[job]
    if state.round_J[job] == instance.rounds_J[job]:
        state.finish_ns_J[job] = now
        for place in range(shares.present.count[0]):
            if shares.present.job_N[place] == job:
                remove(shares.present, place)
                break
        shares.weight[0] -= shares.weight_J[job]
        return True
    state.left_J[job] = instance.scale_J[job]
    state.barrier_ns_J[job] = 0
    return bool(arrives)


@kernel
def _next_type(state: _State, job: int) -> int:
    """Return the type for a job's next round: the one on which it is most behind its share.

    That spreads whole rounds over the types in proportion to the job's rates there. Without any
    share it is the cheapest type.
    """
    shares = state.shares
    rate = shares.rate_J[job]
    if rate <= 0:
        return int(price_types(shares, job))
    # A round earns each type its part of the rate, and costs the chosen one a whole round: the
    # credits of a job sum up to the same as before.
    best, most = -1, 0.0
    for kind in range(len(shares.cost_T)):
        if shares.part_JT[job, kind] > 0:
            state.credit_JT[job, kind] += shares.part_JT[job, kind] / rate
            if best < 0 or state.credit_JT[job, kind] > most:
                best, most = kind, state.credit_JT[job, kind]
    state.credit_JT[job, best] -= 1.0
    return best


@kernel
def _fill(instance: Instance, state: _State, kind: int, now: int) -> None:
    """Start tasks that wait for a type, in order of their jobs, while devices of it are idle."""
    queues = state.queues
    while state.idle_T[kind] > 0 and queues.count_T[kind] > 0:
        job = queues.who_C[queues.first_T[kind]]
        state.idle_T[kind] -= 1
        device = state.idle_D[state.first_T[kind] + state.idle_T[kind]]
        shard = instance.scale_J[job] - state.left_J[job]
        write_row(state.rows, state.count, job, state.round_J[job], 1, shard, device)
        comp_end_ns = now + instance.comp_ns_JT[job, kind]
        push(state.events, 0, comp_end_ns, -device - 1)
        end_ns = comp_end_ns + instance.sync_ns_JT[job, kind]
        state.barrier_ns_J[job] = max(state.barrier_ns_J[job], end_ns)
        state.left_J[job] -= 1
        # The round's last task has started, so its barrier is known; the job leaves the queue.
        if state.left_J[job] == 0:
            pop(queues, kind)
            push(state.events, 0, state.barrier_ns_J[job], job)
