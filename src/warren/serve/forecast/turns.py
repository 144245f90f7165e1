"""The order in which a plan gives jobs their times."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Final

from warren.model.units import NS_PER_S
from warren.serve.queue.state import Queue
from warren.serve.queue.usage import HALF_LIFE_S
from warren.serve.records.jobs import ServiceJob
from warren.serve.schedule.decide import order_of
from warren.serve.schedule.order import use_of, weighted

COUNTED_S: Final = HALF_LIFE_S
"""Most time of a job that counts for its user when it is planned, in seconds."""


class FairTurns:
    """Jobs in their order: priority, then the user with the least use, then as they were submitted.

    As ``schedule.order``, but the device time of a job counts at once.
    """

    def __init__(self, queue: Queue, now_ns: int) -> None:
        self._queue = queue
        self._now_ns = now_ns
        self._levels: dict[int, dict[str, list[tuple[int, str]]]] = {}
        self._scores: dict[str, float] = {}

    def add(self, job: ServiceJob) -> None:
        """Let a job wait for its turn."""
        users = self._levels.setdefault(job.priority, {})
        heappush(users.setdefault(job.user, []), (job.order, job.id))

    def count(self, user: str, device_type: str, devices: int, length_ns: int) -> None:
        """Count device time that a user is to have."""
        length_s = min(COUNTED_S, length_ns / NS_PER_S)
        more = weighted(self._queue, user, device_type, devices * length_s)
        self._scores[user] = self._score(user) + more

    def next(self) -> ServiceJob | None:
        """Return the next job, and pass it; None after the last."""
        if not self._levels:
            return None
        priority = max(self._levels)
        users = self._levels[priority]
        user = min(users, key=lambda one: (self._score(one), users[one][0]))
        _, job_id = heappop(users[user])
        if not users[user]:
            del users[user]
        if not users:
            del self._levels[priority]
        return self._queue.jobs[job_id]

    def _score(self, user: str) -> float:
        if user not in self._scores:
            self._scores[user] = use_of(self._queue, user, self._now_ns)
        return self._scores[user]


class PolicyTurns:
    """Jobs in the order that the place policy of the queue gives them now.

    Jobs that wait for others come behind those of their priority.
    """

    def __init__(self, queue: Queue, now_ns: int) -> None:
        self._queue = queue
        self._rank: dict[str, int] = {}
        self._jobs: list[tuple[int, int, int, str]] = []
        order = order_of(queue, now_ns)
        while (one := order.next()) is not None:
            self._rank[one[1].id] = len(self._rank)
            order.take("", one[1].spec.devices)

    def add(self, job: ServiceJob) -> None:
        """Let a job wait for its turn."""
        rank = self._rank.get(job.id, len(self._rank))
        heappush(self._jobs, (-job.priority, rank, job.order, job.id))

    def count(self, user: str, device_type: str, devices: int, length_ns: int) -> None:
        """Count nothing: the policy ranks by what it knows now."""

    def next(self) -> ServiceJob | None:
        """Return the next job, and pass it; None after the last."""
        return self._queue.jobs[heappop(self._jobs)[3]] if self._jobs else None


def turns_of(queue: Queue, now_ns: int) -> FairTurns | PolicyTurns:
    """Return the order of a plan: by fair shares, or by the place policy of the queue."""
    return FairTurns(queue, now_ns) if queue.policy is None else PolicyTurns(queue, now_ns)
