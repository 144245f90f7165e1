"""One time for each of many that can be moved: a binary heap that knows where each of them is."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from warren.solve.common.compile import kernel


class Alarms(NamedTuple):
    """``who_E[:count[0]]`` have a time, who is first at the top; ``cell_N`` is -1 without one."""

    time_ns_N: Any
    who_E: Any
    cell_N: Any
    count: Any


def new_alarms(most: int) -> Alarms:
    """None of ``most`` has a time."""
    return Alarms(
        time_ns_N=np.zeros(most, np.int64),
        who_E=np.zeros(most, np.int64),
        cell_N=np.full(most, -1, np.int64),
        count=np.zeros(1, np.int64),
    )


@kernel
def set_alarm(alarms: Alarms, who: int, time_ns: int) -> None:
    """Give ``who`` a time, in place of the one it has."""
    if alarms.cell_N[who] < 0:
        _put(alarms, alarms.count[0], who)
        alarms.count[0] += 1
    alarms.time_ns_N[who] = time_ns
    _rise(alarms, alarms.cell_N[who])
    _sink(alarms, alarms.cell_N[who])


@kernel
def take_first(alarms: Alarms) -> Any:
    """Remove one of the earliest time; who it is."""
    first = alarms.who_E[0]
    alarms.cell_N[first] = -1
    alarms.count[0] -= 1
    if alarms.count[0] > 0:
        _put(alarms, 0, alarms.who_E[alarms.count[0]])
        _sink(alarms, 0)
    return first


@kernel
def _put(alarms: Alarms, cell: int, who: int) -> None:
    alarms.who_E[cell] = who
    alarms.cell_N[who] = cell


@kernel
def _rise(alarms: Alarms, cell: int) -> None:
    who = alarms.who_E[cell]
    time_ns = alarms.time_ns_N[who]
    while cell > 0 and alarms.time_ns_N[alarms.who_E[(cell - 1) // 2]] > time_ns:
        _put(alarms, cell, alarms.who_E[(cell - 1) // 2])
        cell = (cell - 1) // 2
    _put(alarms, cell, who)


@kernel
def _sink(alarms: Alarms, cell: int) -> None:
    who, stop = alarms.who_E[cell], alarms.count[0]
    time_ns = alarms.time_ns_N[who]
    child = 2 * cell + 1
    while child < stop:
        if (
            child + 1 < stop
            and alarms.time_ns_N[alarms.who_E[child + 1]] < alarms.time_ns_N[alarms.who_E[child]]
        ):
            child += 1
        if alarms.time_ns_N[alarms.who_E[child]] >= time_ns:
            break
        _put(alarms, cell, alarms.who_E[child])
        cell, child = child, 2 * child + 1
    _put(alarms, cell, who)
