"""Insert jobs, one after the other, into the free time of the devices: stretches of rounds.

Jobs are placed in order of priority, each stretch by stretch: on every type, the earliest time at
which as many devices as the stretch needs are free for all of it; then the type where the end of
the stretch plus the price of its time is least. Earlier jobs are never moved, so the first of all
runs as if alone, and later ones fill gaps.

A stretch takes as many devices as the job has shards, or as there are of the type, with the shards
spread evenly; the same ones as the stretch before if they are free.

Source: serial schedule generation as in project scheduling (Kolisch 1996), in the order of Hare's
Algorithm 1. Differs: stretches are long beside their synchronizations, so a gap between two is
rare; at grain 1 ``type_queues`` is better, since it delays an urgent round a little where that
keeps a device busy.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from warren.solve.common.arrays import BoolArray, FloatArray, IntArray
from warren.solve.common.compile import inlined, kernel
from warren.solve.common.heaps import in_groups, usable
from warren.solve.common.instance import Instance, prepared
from warren.solve.common.schedule_rows import write_row
from warren.solve.lists.free_intervals import FOREVER, FreeIntervals, fit, new_gaps, rewind, take


class _State(NamedTuple):
    """Values that change while jobs are placed, and arrays prepared for it. Times in ns."""

    gaps: FreeIntervals
    device_C: IntArray  # devices, those of a type beside each other
    first_T: IntArray
    usable_JT: BoolArray
    price_ns_JT: FloatArray  # of a round
    extra_T: FloatArray  # scratch: cost of a stretch on each type if it starts at once
    from_ns_D: IntArray  # scratch: earliest start of the present stretch
    taken_D: BoolArray  # scratch
    chosen_N: IntArray  # devices of the best offer
    trial_N: IntArray  # scratch
    finish_ns_J: IntArray
    rows: IntArray  # (5, R)
    start_ns_R: IntArray
    counts: IntArray  # [ROWS], [VISITS]


_ROWS, _VISITS = range(2)
_ATTEMPTS: Final = 12
"""Starts tried among the gaps of a type."""


def insertion(
    instance: Instance, order_N: IntArray, price_s_JT: FloatArray
) -> tuple[IntArray, IntArray, int]:
    """Place all jobs.

    Parameters
    ----------
    instance
        Jobs and devices.
    order_N
        Jobs in order of priority.
    price_s_JT
        Cost to a job of the device time of a round on a type, in seconds of its own.

    Returns
    -------
    rows
        int64 (5, R): job, round, rounds, shard, device, in order of start, which is a valid
        order of a ``Plan``.
    finish_ns_J
        Each job's last barrier under the constant network; -1 for a job left out.
    visits
        Number of devices looked at, a measure of the time it took.
    """
    instance = prepared(instance)
    state = _new_state(instance, price_s_JT)
    runs_J = state.usable_JT.any(axis=1) & (instance.rounds_J > 0)
    _place(instance, state, order_N[runs_J[order_N]])
    first = np.argsort(state.start_ns_R[: state.counts[_ROWS]], kind="stable")
    return np.ascontiguousarray(state.rows[:, first]), state.finish_ns_J, int(state.counts[_VISITS])


def _new_state(instance: Instance, price_s_JT: FloatArray) -> _State:
    """Make the state before the first job is placed: all devices are free."""
    jobs, types = instance.comp_ns_JT.shape
    devices = len(instance.type_D)
    usable_JT = usable(instance.fits_JT, instance.type_D)
    stretches_J = -(-np.maximum(instance.rounds_J, 0) // instance.stretch_rounds_J)
    rows = int((stretches_J * instance.scale_J).sum())
    device_C, first_T = in_groups(instance.type_D, types)
    # Finite whatever the price is: an infinite cost says that a type needs no look any more.
    price_ns_JT = np.minimum(np.where(usable_JT, price_s_JT, 0.0) * 1e9, FOREVER / 64)
    return _State(
        gaps=new_gaps(devices, rows),
        device_C=device_C,
        first_T=first_T,
        usable_JT=usable_JT,
        price_ns_JT=np.ascontiguousarray(price_ns_JT),
        extra_T=np.zeros(types),
        from_ns_D=np.zeros(devices, np.int64),
        taken_D=np.zeros(devices, np.bool_),
        chosen_N=np.zeros(devices, np.int64),
        trial_N=np.zeros(devices, np.int64),
        finish_ns_J=np.full(jobs, -1, np.int64),
        rows=np.zeros((5, rows), np.int64),
        start_ns_R=np.zeros(rows, np.int64),
        counts=np.zeros(2, np.int64),
    )


@kernel
def _place(instance: Instance, state: _State, order_N: IntArray) -> None:
    """Place the jobs in this order."""
    for job in order_N:
        _place_job(instance, state, job)


@inlined
def _place_job(instance: Instance, state: _State, job: int) -> None:
    """Place all stretches of a job, one after the other."""
    ready_ns, kind = instance.arrival_ns_J[job], -1
    rewind(state.gaps)
    round_ = 0
    while round_ < instance.rounds_J[job]:
        rounds = min(instance.stretch_rounds_J[job], instance.rounds_J[job] - round_)
        kind, start_ns = _offer(instance, state, job, rounds, ready_ns, kind)
        members, period_ns, _ = _shape(instance, state, job, kind, rounds)
        # Member m of the devices takes the shards from m n / members to (m + 1) n / members.
        shard, scale = 0, instance.scale_J[job]
        for member in range(members):
            stop = (member + 1) * scale // members
            comp_ns = (stop - shard) * instance.comp_ns_JT[job, kind]
            device = state.chosen_N[member]
            # The device is free again when it has computed its last round: no T^s behind it.
            take(state.gaps, device, start_ns, start_ns + (rounds - 1) * period_ns + comp_ns)
            for part in range(shard, stop):
                state.start_ns_R[state.counts[_ROWS]] = start_ns
                write_row(state.rows, state.counts, job, round_, rounds, part, device)
            shard = stop
        ready_ns = start_ns + rounds * period_ns
        round_ += rounds
    state.finish_ns_J[job] = ready_ns


@inlined
def _offer(
    instance: Instance, state: _State, job: int, rounds: int, ready_ns: int, last: int
) -> tuple[int, int]:
    """Return the cheapest type and start of a stretch, and put its devices into ``chosen_N``.

    Types come by the cost of a stretch there if it can start at once, so the first that can is the
    best. The devices of the stretch before, on type ``last``, are looked at first.
    """
    best_kind = -1
    best_ns = 0
    best_cost = np.inf
    for kind in range(len(state.extra_T)):
        state.extra_T[kind] = np.inf
        if state.usable_JT[job, kind]:
            _, period_ns, _ = _shape(instance, state, job, kind, rounds)
            state.extra_T[kind] = rounds * (period_ns + state.price_ns_JT[job, kind])
    while True:
        kind = 0
        for other in range(len(state.extra_T)):
            if state.extra_T[other] < state.extra_T[kind]:
                kind = other
        # The cost is start + rounds x (period + price). No start is before ``ready_ns``, so types
        # that come later cannot cost less than the best one found.
        extra = state.extra_T[kind]
        if not ready_ns + extra < best_cost:
            return best_kind, best_ns
        state.extra_T[kind] = np.inf
        members, _, hold_ns = _shape(instance, state, job, kind, rounds)
        if kind == last and best_kind < 0 and _can_stay(state, members, ready_ns, hold_ns):
            return kind, ready_ns
        start_ns = _earliest(state, kind, members, ready_ns, hold_ns, best_cost - extra)
        if start_ns >= 0 and start_ns + extra < best_cost:
            best_kind = kind
            best_ns = start_ns
            best_cost = start_ns + extra
            _choose(state, kind, members, start_ns)


@inlined
def _can_stay(state: _State, members: int, ready_ns: int, hold_ns: int) -> bool:
    """Tell whether the devices chosen last are free for ``hold_ns`` from ``ready_ns`` on."""
    state.counts[_VISITS] += members
    for member in range(members):
        if fit(state.gaps, state.chosen_N[member], ready_ns, hold_ns, True) > ready_ns:
            return False
    return True


@inlined
def _shape(
    instance: Instance, state: _State, job: int, kind: int, rounds: int
) -> tuple[int, int, int]:
    """Return how many devices a stretch takes on a type, its period, and how long it holds them.

    The period is the time of a round: ceil(n / members) T^c + T^s, in ns.
    """
    scale = instance.scale_J[job]
    members = min(scale, state.first_T[kind + 1] - state.first_T[kind])
    # The device with the most shards sets the pace; behind the last round no task waits for T^s.
    comp_ns = (scale + members - 1) // members * instance.comp_ns_JT[job, kind]
    period_ns = comp_ns + instance.sync_ns_JT[job, kind]
    return members, period_ns, (rounds - 1) * period_ns + comp_ns


@inlined
def _earliest(
    state: _State, kind: int, members: int, ready_ns: int, hold_ns: int, limit: float
) -> int:
    """Return from when ``members`` devices of a type are free for ``hold_ns`` at one time.

    -1 if only after the limit. Gaps are tried a few times only; then the time behind all gaps is
    taken.
    """
    first, stop = state.first_T[kind], state.first_T[kind + 1]
    start_ns = ready_ns
    for attempt in range(_ATTEMPTS):
        free = 0
        for cell in range(first, stop):
            device = state.device_C[cell]
            state.from_ns_D[device] = fit(state.gaps, device, start_ns, hold_ns, attempt == 0)
            free += state.from_ns_D[device] <= start_ns
        state.counts[_VISITS] += stop - first
        if free >= members:
            return start_ns
        # Before the members-th of these starts too few are free; at it, a gap that began earlier
        # may be too short for all of the stretch, so all devices are asked again.
        start_ns = _nth_start(state, kind, members)
        if start_ns >= limit:
            return -1
    # Behind its last gap's start a device is free for ever.
    for cell in range(first, stop):
        device = state.device_C[cell]
        state.from_ns_D[device] = max(start_ns, state.gaps.start_ns_G[state.gaps.tail_D[device]])
    start_ns = _nth_start(state, kind, members)
    for cell in range(first, stop):
        device = state.device_C[cell]
        state.from_ns_D[device] = fit(state.gaps, device, start_ns, hold_ns, False)
    return start_ns if start_ns < limit else -1


@inlined
def _nth_start(state: _State, kind: int, members: int) -> int:
    """Return the ``members``-th earliest of the starts in ``from_ns_D``."""
    # Selection of the least, ``members`` times; ``trial_N`` keeps the entries to unmark.
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


@inlined
def _since(gaps: FreeIntervals, device: int) -> int:
    """Return since when the device is free in the gap found last."""
    return int(gaps.start_ns_G[gaps.next_G[gaps.at_D[device]]])


@inlined
def _choose(state: _State, kind: int, members: int, start_ns: int) -> None:
    """Choose, of the devices free at ``start_ns``, those that became so last, then by index.

    So the least time is left idle before the stretch.
    """
    for place in range(members):
        best, best_ns = -1, 0
        for cell in range(state.first_T[kind], state.first_T[kind + 1]):
            device = state.device_C[cell]
            since_ns = _since(state.gaps, device)
            if state.from_ns_D[device] <= start_ns and (best < 0 or since_ns > best_ns):
                best, best_ns = device, since_ns
        # Not free at ``start_ns`` any more: it is not chosen again.
        state.from_ns_D[best] = FOREVER
        state.chosen_N[place] = best
