"""Jobs one after the other into what is left of the devices' time: for stretches of rounds.

Jobs are placed in order of priority, each stretch by stretch: on every type, the earliest time at
which as many devices as the stretch needs are free for all of it; then the type where the end of
the stretch plus the price of its time is least. Earlier jobs are never moved, so the first of all
runs as if alone, and later ones fill gaps.

A stretch takes as many devices as the job has shards, or as there are of the type, with the shards
spread evenly.

Source: serial schedule generation as in project scheduling (Kolisch 1996), in the order of Hare's
Algorithm 1. Differs: stretches are long beside their synchronisations, so a gap between two is
rare; at grain 1 ``guided`` is better, since it delays an urgent round a little where that keeps
a device busy.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from warren.solve.instance import Instance, prepared
from warren.solve.kernel import kernel
from warren.solve.pool import usable


class _State(NamedTuple):
    """Free time of each device: a list of gaps, before it a sentinel that is never used."""

    start_ns_G: Any
    end_ns_G: Any
    next_G: Any
    head_D: Any
    before_D: Any  # the gap before the first one that the present job can still use
    device_C: Any  # devices, those of a type beside each other
    first_T: Any
    usable_JT: Any
    price_ns_JT: Any  # of a round
    from_ns_D: Any  # scratch: earliest start of the present stretch
    taken_D: Any  # scratch
    chosen_N: Any  # devices of the best offer so far
    trial_N: Any  # scratch
    finish_ns_J: Any
    rows: Any  # (6, R): job, round, rounds, shard, device, start
    count: Any  # [ROWS], [GAPS], [VISITS]


_ROWS, _GAPS, _VISITS = range(3)
_FOREVER: Final = 1 << 61


def insertion(instance: Instance, order_N: Any, price_s_JT: Any) -> tuple[Any, Any, int]:
    """Place all jobs.

    Parameters
    ----------
    instance
        Jobs and devices.
    order_N
        Jobs in order of priority.
    price_s_JT
        What the device time of a round on a type costs a job, in seconds of its own.

    Returns
    -------
    rows
        int64 (5, R): job, round, rounds, shard, device, in order of start, which is a valid
        order of a ``Plan``.
    finish_ns_J
        Each job's last barrier under the constant network; -1 for a job left out.
    visits
        How many devices were looked at.
    """
    instance = prepared(instance)
    state = _new_state(instance, price_s_JT)
    runs_J = state.usable_JT.any(axis=1) & (instance.rounds_J > 0)
    for job in order_N[runs_J[order_N]]:
        _place_job(instance, state, job)
    rows = state.rows[:, : state.count[_ROWS]]
    first = np.argsort(rows[5], kind="stable")
    return np.ascontiguousarray(rows[:5, first]), state.finish_ns_J, int(state.count[_VISITS])


def _new_state(instance: Instance, price_s_JT: Any) -> _State:
    jobs, types = instance.comp_ns_JT.shape
    devices = len(instance.type_D)
    usable_JT = usable(instance.fits_JT, instance.type_D)
    stretches_J = -(-np.maximum(instance.rounds_J, 0) // instance.stretch_rounds_J)
    rows = int((stretches_J * instance.scale_J).sum())
    gaps = 2 * devices + rows
    start_ns_G, end_ns_G = np.zeros(gaps, np.int64), np.zeros(gaps, np.int64)
    next_G = np.full(gaps, -1, np.int64)
    end_ns_G[1 : 2 * devices : 2] = _FOREVER
    next_G[: 2 * devices : 2] = np.arange(1, 2 * devices, 2)
    count_T = np.bincount(instance.type_D, minlength=types)
    price_ns_JT = np.minimum(np.where(usable_JT, price_s_JT, 0.0) * 1e9, _FOREVER / 64)
    return _State(
        start_ns_G=start_ns_G,
        end_ns_G=end_ns_G,
        next_G=next_G,
        head_D=np.arange(0, 2 * devices, 2),
        before_D=np.zeros(devices, np.int64),
        device_C=np.argsort(instance.type_D, kind="stable").astype(np.int64),
        first_T=np.concatenate(([0], np.cumsum(count_T))).astype(np.int64),
        usable_JT=usable_JT,
        price_ns_JT=np.ascontiguousarray(price_ns_JT),
        from_ns_D=np.zeros(devices, np.int64),
        taken_D=np.zeros(devices, np.bool_),
        chosen_N=np.zeros(devices, np.int64),
        trial_N=np.zeros(devices, np.int64),
        finish_ns_J=np.full(jobs, -1, np.int64),
        rows=np.zeros((6, rows), np.int64),
        count=np.array([0, 2 * devices, 0], np.int64),
    )


@kernel
def _place_job(instance: Instance, state: _State, job: int) -> None:
    ready_ns = instance.arrival_ns_J[job]
    for device in range(len(state.head_D)):
        state.before_D[device] = state.head_D[device]
    round_ = 0
    while round_ < instance.rounds_J[job]:
        rounds = min(instance.stretch_rounds_J[job], instance.rounds_J[job] - round_)
        ready_ns = _place_stretch(instance, state, job, round_, rounds, ready_ns)
        round_ += rounds
    state.finish_ns_J[job] = ready_ns


@kernel
def _place_stretch(
    instance: Instance, state: _State, job: int, round_: int, rounds: int, ready_ns: int
) -> int:
    """Place one stretch where it is cheapest; its last barrier."""
    best_kind, best_ns, best_cost = -1, 0, np.inf
    for kind in range(len(state.first_T) - 1):
        if not state.usable_JT[job, kind]:
            continue
        members, period_ns, hold_ns = _shape(instance, state, job, kind, rounds)
        extra = rounds * (period_ns + state.price_ns_JT[job, kind])
        if ready_ns + extra >= best_cost:
            continue
        start_ns = _earliest(state, kind, members, ready_ns, hold_ns, best_cost - extra)
        if start_ns >= 0 and start_ns + extra < best_cost:
            best_kind, best_ns, best_cost = kind, start_ns, start_ns + extra
            _choose(state, kind, members, start_ns, hold_ns)
    members, period_ns, _ = _shape(instance, state, job, best_kind, rounds)
    shard, scale = 0, instance.scale_J[job]
    for member in range(members):
        stop = (member + 1) * scale // members
        comp_ns = (stop - shard) * instance.comp_ns_JT[job, best_kind]
        device = state.chosen_N[member]
        _take(state, device, best_ns, best_ns + (rounds - 1) * period_ns + comp_ns)
        for part in range(shard, stop):
            _write_row(state, job, round_, rounds, part, device, best_ns)
        shard = stop
    return int(best_ns + rounds * period_ns)


@kernel
def _shape(
    instance: Instance, state: _State, job: int, kind: int, rounds: int
) -> tuple[int, int, int]:
    """Devices of a stretch on a type, the time of a round, and how long the devices are held."""
    scale = instance.scale_J[job]
    members = min(scale, state.first_T[kind + 1] - state.first_T[kind])
    comp_ns = (scale + members - 1) // members * instance.comp_ns_JT[job, kind]
    period_ns = comp_ns + instance.sync_ns_JT[job, kind]
    return members, period_ns, (rounds - 1) * period_ns + comp_ns


@kernel
def _earliest(
    state: _State, kind: int, members: int, ready_ns: int, hold_ns: int, limit: float
) -> int:
    """From when so many devices of a type are free for so long; -1 if only after the limit."""
    start_ns, moved = ready_ns, True
    while True:
        free = 0
        for cell in range(state.first_T[kind], state.first_T[kind + 1]):
            device = state.device_C[cell]
            from_ns = _fit(state, device, start_ns, hold_ns, moved)
            state.from_ns_D[device] = from_ns
            free += from_ns <= start_ns
        state.count[_VISITS] += state.first_T[kind + 1] - state.first_T[kind]
        if free >= members:
            return start_ns
        start_ns, moved = _nth_start(state, kind, members), False
        if start_ns >= limit:
            return -1


@kernel
def _fit(state: _State, device: int, ready_ns: int, hold_ns: int, move: bool) -> int:
    """When the device is first free for so long; ``move``: what ended before is forgotten."""
    before = state.before_D[device]
    gap = state.next_G[before]
    while move and state.end_ns_G[gap] <= ready_ns:
        before, gap = gap, state.next_G[gap]
    state.before_D[device] = before
    while max(ready_ns, state.start_ns_G[gap]) + hold_ns > state.end_ns_G[gap]:
        gap = state.next_G[gap]
    return int(max(ready_ns, state.start_ns_G[gap]))


@kernel
def _nth_start(state: _State, kind: int, members: int) -> int:
    """The ``members``-th earliest of the starts found."""
    start_ns = 0
    for place in range(members):
        best = -1
        for cell in range(state.first_T[kind], state.first_T[kind + 1]):
            device = state.device_C[cell]
            if not state.taken_D[device] and (
                best < 0 or state.from_ns_D[device] < state.from_ns_D[best]
            ):
                best = device
        state.taken_D[best] = True
        state.trial_N[place] = best
        start_ns = state.from_ns_D[best]
    for place in range(members):
        state.taken_D[state.trial_N[place]] = False
    return int(start_ns)


@kernel
def _choose(state: _State, kind: int, members: int, start_ns: int, hold_ns: int) -> None:
    """Of the devices free at ``start_ns``, those that became so last, then by index."""
    for cell in range(state.first_T[kind], state.first_T[kind + 1]):
        device = state.device_C[cell]
        if state.from_ns_D[device] > start_ns:
            state.from_ns_D[device] = -1
            continue
        gap = state.next_G[state.before_D[device]]
        while max(start_ns, state.start_ns_G[gap]) + hold_ns > state.end_ns_G[gap]:
            gap = state.next_G[gap]
        state.from_ns_D[device] = state.start_ns_G[gap]
    for place in range(members):
        best = -1
        for cell in range(state.first_T[kind], state.first_T[kind + 1]):
            device = state.device_C[cell]
            since_ns = state.from_ns_D[device]
            if since_ns >= 0 and (best < 0 or since_ns > state.from_ns_D[best]):
                best = device
        state.from_ns_D[best] = -1
        state.chosen_N[place] = best


@kernel
def _take(state: _State, device: int, start_ns: int, end_ns: int) -> None:
    """The device is busy for that time, which lies in one of its gaps."""
    before = state.before_D[device]
    gap = state.next_G[before]
    while state.end_ns_G[gap] < end_ns:
        before, gap = gap, state.next_G[gap]
    if state.start_ns_G[gap] < start_ns:
        if end_ns < state.end_ns_G[gap]:
            rest = state.count[_GAPS]
            state.count[_GAPS] += 1
            state.start_ns_G[rest], state.end_ns_G[rest] = end_ns, state.end_ns_G[gap]
            state.next_G[rest], state.next_G[gap] = state.next_G[gap], rest
        state.end_ns_G[gap] = start_ns
    elif end_ns < state.end_ns_G[gap]:
        state.start_ns_G[gap] = end_ns
    else:
        state.next_G[before] = state.next_G[gap]


@kernel
def _write_row(
    state: _State, job: int, round_: int, rounds: int, shard: int, device: int, start_ns: int
) -> None:
    row = state.count[_ROWS]
    state.rows[0, row] = job
    state.rows[1, row] = round_
    state.rows[2, row] = rounds
    state.rows[3, row] = shard
    state.rows[4, row] = device
    state.rows[5, row] = start_ns
    state.count[_ROWS] = row + 1
