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
        self._levels: dict[int, dict[str, list[_Head]]] = {}
        for group, orders in queue.waiting.groups.items():
            users = self._levels.setdefault(group.priority, {})
            users.setdefault(group.user, []).append(_Head(orders[0], 0, group))
        self._todo = sorted(self._levels)
        self._users: list[tuple[float, int, str]] = []

    def next(self) -> tuple[JobGroup, ServiceJob] | None:
        """Return the next job with its group; None after the last."""
        while not self._users:
            if not self._todo:
                return None
            users = self._levels[self._todo[-1]]
            for user, heads in users.items():
                heapify(heads)
                self._users.append((self._score(user), heads[0].order, user))
            heapify(self._users)
            self._todo.pop()
            self._level = users
        head = self._level[self._users[0][2]][0]
        return head.group, self._queue.in_order[head.order]

    def take(self, device_type: str, devices: int) -> None:
        """Pass the job that ``next`` returned, which got devices, or is to get them later."""
        user = self._users[0][2]
        self._scores[user] = self._score(user) + self._weighted(user, device_type, devices * TURN_S)
        heads = self._level[user]
        head = heads[0]
        orders = self._queue.waiting.groups[head.group]
        if head.at + 1 < len(orders):
            heapreplace(heads, _Head(orders[head.at + 1], head.at + 1, head.group))
        else:
            heappop(heads)
        self._again(user, heads)

    def drop(self) -> None:
        """Pass the job that ``next`` returned, with all others of its group."""
        user = self._users[0][2]
        heads = self._level[user]
        heappop(heads)
        self._again(user, heads)

    def _again(self, user: str, heads: list[_Head]) -> None:
        heappop(self._users)
        if heads:
            heappush(self._users, (self._score(user), heads[0].order, user))

    def _score(self, user: str) -> float:
        """Return the use of a user, the lower the sooner; with the turns taken in this order."""
        if user not in self._scores:
            held = self._queue.holds.get(user, {})
            self._scores[user] = sum(
                self._weighted(user, kind, seconds + held.get(kind, 0) * TURN_S)
                for kind, seconds in self._queue.usage.of(user, self._now_ns).items()
            )
        return self._scores[user]

    def _weighted(self, user: str, device_type: str, seconds: float) -> float:
        total = self._queue.types.get(device_type)
        return seconds / (total.devices if total else 1) / self._queue.user(user).weight
