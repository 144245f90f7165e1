"""What comes next: a binary heap of (time, who) in arrays of fixed size."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from warren.solve.common.compile import kernel


class Agenda(NamedTuple):
    """``count[0]`` entries, earliest first; entries of one time come in any order."""

    time_ns_E: Any
    who_E: Any
    count: Any


def new_agenda(most: int) -> Agenda:
    """An empty agenda with room for ``most`` entries at a time."""
    return Agenda(
        time_ns_E=np.zeros(most, np.int64),
        who_E=np.zeros(most, np.int64),
        count=np.zeros(1, np.int64),
    )


@kernel
def push(agenda: Agenda, time_ns: int, who: int) -> None:
    """Add an entry."""
    time, whose = agenda.time_ns_E, agenda.who_E
    cell = agenda.count[0]
    agenda.count[0] += 1
    while cell > 0 and time[(cell - 1) // 2] > time_ns:
        time[cell] = time[(cell - 1) // 2]
        whose[cell] = whose[(cell - 1) // 2]
        cell = (cell - 1) // 2
    time[cell] = time_ns
    whose[cell] = who


@kernel
def push_all(agenda: Agenda, time_ns_N: Any, who_N: Any) -> None:
    """Add entries one after the other. Each call from Python takes longer than its push."""
    for place in range(len(who_N)):
        push(agenda, time_ns_N[place], who_N[place])


@kernel
def pop(agenda: Agenda) -> Any:
    """Remove an entry of the earliest time; whose it is."""
    time, whose = agenda.time_ns_E, agenda.who_E
    first = whose[0]
    agenda.count[0] -= 1
    stop = agenda.count[0]
    time_ns, who = time[stop], whose[stop]
    cell, child = 0, 1
    while child < stop:
        if child + 1 < stop and time[child + 1] < time[child]:
            child += 1
        if time[child] >= time_ns:
            break
        time[cell] = time[child]
        whose[cell] = whose[child]
        cell, child = child, 2 * child + 1
    time[cell] = time_ns
    whose[cell] = who
    return first
