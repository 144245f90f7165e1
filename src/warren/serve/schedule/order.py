"""The order of waiting jobs, found as far as it is asked for.

**Higher priority first; among equal priorities the user with the least use of devices, and each
user's jobs as they were submitted.** Use is device time with a half-life. A device second counts by
one over the number of devices of its type, so scarce types count more, and use is divided by the
user's weight. A device counts for a minute as soon as a job gets it, so users take turns.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush, heapreplace
from typing import Final, NamedTuple

from warren.serve.queue.state import Queue
from warren.serve.queue.waiting import JobGroup
from warren.serve.records.jobs import ServiceJob

TURN_S: Final = 60.0
"""Time for which a device counts as used as soon as a job gets it, in seconds."""


class _Head(NamedTuple):
    """The first job of a group that the order has not passed: its place, and its index there."""

    order: int
    at: int
    group: JobGroup


class _Line:
    """The jobs of one user at one priority, in the order of submission.

    Parameters
    ----------
    heads
        The groups with the places of their first jobs, in that order; they stay as they are.
    """

    __slots__ = ("_heads", "_later", "_passed")

    def __init__(self, heads: list[tuple[int, JobGroup]]) -> None:
        self._heads = heads
        self._passed = 0
        # Groups of which the first job was passed.
        self._later: list[_Head] = []

    def first(self) -> _Head | None:
        """Return the first job that was not passed, with its group; None after the last."""
        if self._passed == len(self._heads):
            return self._later[0] if self._later else None
        order, group = self._heads[self._passed]
        if self._later and self._later[0].order < order:
            return self._later[0]
        return _Head(order, 0, group)

    def go_on(self, first: _Head, after: _Head | None) -> None:
        """Pass the first job; ``after`` is the next one of its group, None to pass all of them."""
        if not self._later or self._later[0] is not first:
            self._passed += 1
            if after is not None:
                heappush(self._later, after)
        elif after is not None:
            heapreplace(self._later, after)
        else:
            heappop(self._later)


class FairOrder:
    """Waiting jobs one after another; after each, ``take`` or ``drop`` says what became of it.

    Parameters
    ----------
    queue
        The queue, which stays as it is while the order is in use.
    now_ns
        The time at which device time is counted.
    """

    def __init__(self, queue: Queue, now_ns: int) -> None:
        self._queue = queue
        self._now_ns = now_ns
        self._scores: dict[str, float] = {}
        self._todo = sorted(queue.waiting.heads)
        self._lines: dict[str, _Line] = {}
        self._users: list[tuple[float, int, str]] = []
        self._first: _Head | None = None

    def next(self) -> tuple[JobGroup, ServiceJob] | None:
        """Return the next job with its group; None after the last."""
        while not self._users:
            if not self._todo:
                return None
            users = self._queue.waiting.heads[self._todo.pop()]
            self._lines = {user: _Line(heads) for user, heads in users.items()}
            self._users = [(self._score(user), heads[0][0], user) for user, heads in users.items()]
            heapify(self._users)
        head = self._first = self._lines[self._users[0][2]].first()
        assert head is not None
        return head.group, self._queue.in_order[head.order]

    def take(self, device_type: str, devices: int) -> None:
        """Pass the job that ``next`` returned, which got devices, or is to get them later."""
        head = self._first
        assert head is not None
        user = self._users[0][2]
        turn = weighted(self._queue, user, device_type, devices * TURN_S)
        self._scores[user] = self._score(user) + turn
        orders, at = self._queue.waiting.groups[head.group], head.at + 1
        self._go_on(user, head, _Head(orders[at], at, head.group) if at < len(orders) else None)

    def drop(self) -> None:
        """Pass the job that ``next`` returned, with all others of its group."""
        head = self._first
        assert head is not None
        self._go_on(self._users[0][2], head, None)

    def _go_on(self, user: str, first: _Head, after: _Head | None) -> None:
        line = self._lines[user]
        line.go_on(first, after)
        heappop(self._users)
        head = line.first()
        if head is not None:
            heappush(self._users, (self._score(user), head.order, user))

    def _score(self, user: str) -> float:
        """Return the use of a user, the lower the sooner; with the turns taken in this order."""
        if user not in self._scores:
            self._scores[user] = use_of(self._queue, user, self._now_ns)
        return self._scores[user]


def weighted(queue: Queue, user: str, device_type: str, seconds: float) -> float:
    """Return what device seconds of a type count for a user."""
    total = queue.types.get(device_type)
    return seconds / (total.devices if total else 1) / queue.user(user).weight


def use_of(queue: Queue, user: str, now_ns: int) -> float:
    """Return what the device time of a user counts, with a minute for each device held."""
    held = queue.holds.get(user, {})
    return sum(
        weighted(queue, user, kind, seconds + held.get(kind, 0) * TURN_S)
        for kind, seconds in queue.usage.of(user, now_ns).items()
    )
