"""Local search over job groupings: exchanges between two groups, or with jobs that do not run.

*Between two groups:* one job goes over, or two are exchanged, or none, and the machines of both are
split again. The second group may be empty: so groups begin. A group whose last job leaves ends.
*With jobs that do not run:* in one group a job comes, leaves, or is replaced by one, and the
group's machines and another group's are split again.

For each group, in turn, the best exchange with each partner is done at once if it gains. If there
are few groups every other one is a partner, else some drawn ones; so with jobs that do not run. The
search ends where a whole turn gains nothing, or the work is spent.

*Source.* Ours.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from warren.solve.common.arrays import Float, FloatArray, Int, IntArray
from warren.solve.common.compile import kernel
from warren.solve.common.random import mix
from warren.solve.job_groups.group_state import (
    NOBODY,
    GroupColumns,
    best_split,
    gather,
    gathered_value,
    link,
    unlink,
)

PARTNERS: Final = 12
"""Most groups that a group exchanges with in a turn."""
CANDIDATES: Final = 24
"""Most jobs that do not run that a group looks at in a turn."""
_LEAST_GAIN: Final = 1e-10
"""Least gain of an exchange, in machines: sums of 10,000 machines round by less."""


class _Exchange(NamedTuple):
    """The best exchange of two groups found; each array has one or two entries.

    ``gain``; ``leaves``: the job that leaves each group; ``comes``: the job that comes to each;
    ``machines``: of the first group afterwards.
    """

    gain: FloatArray
    leaves: IntArray
    comes: IntArray
    machines: IntArray


def new_exchange() -> _Exchange:
    """Make room for an exchange."""
    pair = np.zeros(2, np.int64), np.zeros(2, np.int64)
    return _Exchange(np.zeros(1), *pair, np.zeros(1, np.int64))


@kernel
def descend(
    columns: GroupColumns,
    exchange: _Exchange,
    key: np.uint64,
    work: Int,
    all_run: bool,
    begins: bool,
) -> None:
    """Do exchanges while one gains and no more than ``work`` jobs have been looked at in all.

    ``all_run``: only those between two groups. ``begins``: also those in which a group begins.
    """
    improved = True
    turn = 0
    while improved and columns.work[0] < work:
        improved = False
        for slot in range(len(columns.machine_G)):
            if columns.count_G[slot] > 0 and columns.work[0] < work:
                drawn = mix(key + np.uint64(turn))
                turn += 1
                if begins:
                    improved |= _exchange_jobs(columns, exchange, slot, _free_slot(columns))
                improved |= _with_groups(columns, exchange, slot, drawn)
                if columns.count_G[slot] > 0 and not all_run:
                    improved |= _with_idle(columns, exchange, slot, drawn, begins)


@kernel
def _free_slot(columns: GroupColumns) -> int:
    """Return the first slot without jobs; there is one."""
    slot = 0
    while columns.count_G[slot] > 0:
        slot += 1
    return slot


@kernel
def _with_groups(columns: GroupColumns, exchange: _Exchange, one: Int, key: np.uint64) -> bool:
    """Exchange with some other groups."""
    slots = len(columns.machine_G)
    improved = False
    # All others in their order if they are few, else those after a drawn one.
    begin = one + 1
    if slots > PARTNERS:
        begin = np.int64(mix(key) >> np.uint64(1)) % slots
    seen = 0
    for step in range(slots):
        other = (begin + step) % slots
        if other == one or columns.count_G[other] == 0:
            continue
        if columns.count_G[one] == 0 or seen == PARTNERS:
            break
        seen += 1
        improved |= _exchange_jobs(columns, exchange, one, other)
    return bool(improved)


@kernel
def _exchange_jobs(columns: GroupColumns, exchange: _Exchange, one: Int, other: Int) -> bool:
    """Do the best exchange between two groups, if one gains."""
    exchange.gain[0] = _LEAST_GAIN
    give = np.int64(NOBODY)
    while True:
        take = np.int64(NOBODY)
        while True:
            _consider(columns, exchange, one, give, take, other, take, give)
            take = columns.head_G[other] if take < 0 else columns.next_J[take]
            if take < 0:
                break
        give = columns.head_G[one] if give < 0 else columns.next_J[give]
        if give < 0:
            break
    return bool(_apply(columns, exchange, one, other))


@kernel
def _consider(
    columns: GroupColumns,
    exchange: _Exchange,
    one: Int,
    leaves: Int,
    comes: Int,
    other: Int,
    leaves_other: Int,
    comes_other: Int,
) -> None:
    """Keep an exchange of two groups if it is the best found."""
    gather(columns, 0, one, leaves, comes)
    gather(columns, 1, other, leaves_other, comes_other)
    total = columns.machine_G[one] + columns.machine_G[other]
    groups = (columns.count_2[0] > 0) + (columns.count_2[1] > 0)
    if groups == 0 or total < groups:
        return
    # If no job goes or comes there is one split to look for, and time to look closely.
    same = leaves < 0 and comes < 0 and leaves_other < 0 and comes_other < 0
    value, machines = best_split(columns, total, columns.machine_G[one], same)
    gain = value - columns.value_G[one] - columns.value_G[other]
    if gain > exchange.gain[0]:
        exchange.gain[0] = gain
        exchange.leaves[0] = leaves
        exchange.leaves[1] = leaves_other
        exchange.comes[0] = comes
        exchange.comes[1] = comes_other
        exchange.machines[0] = machines


@kernel
def _apply(columns: GroupColumns, exchange: _Exchange, one: Int, other: Int) -> bool:
    """Do the exchange that was kept; False if none was."""
    if exchange.gain[0] <= _LEAST_GAIN:
        return False
    idle = len(columns.machine_G)
    total = columns.machine_G[one] + columns.machine_G[other]
    for side in range(2):
        # A job that neither group takes does not run.
        if exchange.leaves[side] >= 0:
            unlink(columns, exchange.leaves[side])
            link(columns, exchange.leaves[side], idle)
    for side in range(2):
        if exchange.comes[side] >= 0:
            unlink(columns, exchange.comes[side])
            link(columns, exchange.comes[side], one if side == 0 else other)
    columns.machine_G[one] = exchange.machines[0]
    columns.machine_G[other] = total - exchange.machines[0]
    _value_again(columns, one)
    _value_again(columns, other)
    return True


@kernel
def _value_again(columns: GroupColumns, slot: Int) -> None:
    """Compute the worth of a slot again."""
    gather(columns, 0, slot, NOBODY, NOBODY)
    columns.value_G[slot] = gathered_value(columns, 0, columns.machine_G[slot])


@kernel
def _with_idle(
    columns: GroupColumns, exchange: _Exchange, one: Int, key: np.uint64, begins: bool
) -> bool:
    """Exchange with jobs that do not run, the machines split with some other groups."""
    slots = len(columns.machine_G)
    free = _free_slot(columns)
    improved = False
    if begins:
        # A job that does not run begins a group with some of this one's machines.
        exchange.gain[0] = _LEAST_GAIN
        _replace(columns, exchange, free, one, key)
        improved = _apply(columns, exchange, free, one)
    # The machines stay, or are split with partners.
    exchange.gain[0] = _LEAST_GAIN
    free = _free_slot(columns)
    _replace(columns, exchange, one, free, key)
    partner = np.int64(free)
    most = PARTNERS if slots <= PARTNERS else 1
    begin = np.int64(mix(key + np.uint64(1)) >> np.uint64(1)) % slots
    seen = 0
    for step in range(slots):
        other = (begin + step) % slots
        if other == one or columns.count_G[other] == 0:
            continue
        if seen == most:
            break
        seen += 1
        before = exchange.gain[0]
        _replace(columns, exchange, one, other, key)
        if exchange.gain[0] > before:
            partner = other
    return bool(improved | _apply(columns, exchange, one, partner))


@kernel
def _replace(
    columns: GroupColumns, exchange: _Exchange, one: Int, other: Int, key: np.uint64
) -> None:
    """Consider each job of a group, or none, for each of some that do not run, or none."""
    jobs, idle = len(columns.group_J), columns.count_G[len(columns.machine_G)]
    leaves = np.int64(NOBODY)
    while True:
        if leaves >= 0:
            _consider(columns, exchange, one, leaves, NOBODY, other, NOBODY, NOBODY)
        comes = columns.head_G[len(columns.machine_G)]
        if idle > CANDIDATES:
            comes = np.int64(mix(key + np.uint64(2)) >> np.uint64(1)) % jobs
        seen = 0
        for _ in range(jobs if idle > 0 else 0):
            if columns.group_J[comes] < 0:
                _consider(columns, exchange, one, leaves, comes, other, NOBODY, NOBODY)
                seen += 1
            if seen == min(idle, CANDIDATES):
                break
            comes = columns.next_J[comes] if idle <= CANDIDATES else (comes + 1) % jobs
        leaves = columns.head_G[one] if leaves < 0 else columns.next_J[leaves]
        if leaves < 0:
            break


@kernel
def total_value(columns: GroupColumns) -> Float:
    """Return the worth of all groups, in machines."""
    total = 0.0
    for slot in range(len(columns.value_G)):
        total += columns.value_G[slot]
    return total
