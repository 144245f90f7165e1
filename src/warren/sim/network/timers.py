"""Instants at which something inside a simulation is due that is no event of the core's."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Protocol

from warren.sim.parts import IDLE_NS


class Timed(Protocol):
    """A timed action: the end of a transfer, of a COMP, of a wait.

    ``timer``: the number of the timer that is set for it; any other one set for it is void.
    """

    timer: int

    def due(self, now: int) -> None:
        """Do what is due at ``now``."""
        ...


class Timers:
    """Timers in order of time; of one instant, in the order in which they were set.

    A timer that is set again stays in the heap under its old number, and is skipped there.
    """

    __slots__ = ("_heap", "_set")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Timed]] = []
        self._set = 0

    def set(self, what: Timed, time_ns: int) -> None:
        """Make ``what`` due at ``time_ns``, and at no other time."""
        self._set = number = self._set + 1
        what.timer = number
        heappush(self._heap, (time_ns, number, what))

    def cancel(self, what: Timed) -> None:
        """Make ``what`` not due."""
        what.timer = 0

    def pending(self) -> Iterator[Timed]:
        """Yield what is due at some time, in no order."""
        for _, number, what in self._heap:
            if what.timer == number:
                yield what

    def next_ns(self) -> int:
        """Return the first instant at which something is due."""
        heap = self._heap
        while heap:
            time_ns, number, what = heap[0]
            if what.timer == number:
                return time_ns
            heappop(heap)
        return IDLE_NS

    def step(self, now: int) -> None:
        """Do all that is due at ``now``, also actions that become due at ``now`` through that."""
        heap = self._heap
        while heap and heap[0][0] <= now:
            _, number, what = heappop(heap)
            if what.timer == number:
                what.timer = 0
                what.due(now)
