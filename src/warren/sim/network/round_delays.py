"""Delays of rounds that were answered and that no barrier has met, and rounds that they hold.

The first barrier of a job that passes takes its delay, whether an event reports it or not; within a
stretch of servers or of a ring that is one of its inner barriers. A stretch without bytes on links
is one step, and takes it at its end. The delay holds the round behind the barrier, with its pulls
and all its tasks; devices whose next task belongs to it wait with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from warren.sim.network.timers import Timers


class _Held:
    """A held action and its time."""

    __slots__ = ("_begin", "job", "timer")

    def __init__(self, job: int, begin: Callable[[], None]) -> None:
        self.job = job
        self._begin = begin
        self.timer = 0

    def due(self, now: int) -> None:
        """Begin."""
        self._begin()


class RoundDelays:
    """The delays of a run's jobs, in ns; ``timers`` say when a held round begins."""

    __slots__ = ("_delay_ns", "_timers")

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._delay_ns: dict[int, int] = {}

    def answer(self, delays_ns: Mapping[int, int]) -> None:
        """Note delays, by job, in place of those that no barrier has met."""
        self._delay_ns.update(delays_ns)

    def waits(self, job: int) -> bool:
        """Tell whether a delay of the job waits for its next barrier."""
        return job in self._delay_ns

    def take(self, job: int) -> int:
        """Return the delay that a barrier of the job meets, once."""
        return self._delay_ns.pop(job, 0)

    def hold(self, job: int, time_ns: int, begin: Callable[[], None]) -> None:
        """Call ``begin`` of a job at ``time_ns``."""
        self._timers.set(_Held(job, begin), time_ns)
