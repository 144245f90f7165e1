"""Events of the live world that were not handed out yet, in order; their times never go back."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from typing import Final

import msgspec

from warren.model.events import (
    RANK,
    AnyEvent,
    CompDone,
    JobArrived,
    JobCancelled,
    JobFailed,
    RolledBack,
    RoundsDone,
    TaskDropped,
    Woken,
)
from warren.model.job import Job


class PendingEvents:
    """Arrivals and wake-ups to come, and events known already."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._arrivals = deque(sorted(jobs, key=lambda job: (job.arrival_ns, job.index)))
        self._to_arrive = {job.index for job in jobs}
        self._wakes: list[int] = []
        self._heap: list[tuple[int, int, int, AnyEvent]] = []
        self._pushed = 0
        self._latest: dict[tuple[str, int], tuple[int, int]] = {}
        self.last_ns = 0
        """The time of what was handed out last."""

    def resume(self, now_ns: int, arrived: Collection[int], wakes_ns: Iterable[int]) -> None:
        """Before the beginning: time goes on from here, and these jobs have arrived already."""
        self.last_ns = now_ns
        self._cancel_arrivals(arrived)
        for wake_ns in wakes_ns:
            self.wake_at(wake_ns)

    def arrived(self, job: int) -> bool:
        """Whether the arrival of a job is known."""
        return job not in self._to_arrive

    def wake_at(self, time_ns: int) -> None:
        """The policy wants to be woken."""
        heapq.heappush(self._wakes, time_ns)

    def advance(self, now_ns: int) -> None:
        """Jobs and wake-ups whose time has come become events."""
        while self._arrivals and self._arrivals[0].arrival_ns <= now_ns:
            job = self._arrivals.popleft()
            self._to_arrive.remove(job.index)
            self.push(JobArrived(job.arrival_ns, job.index))
        while self._wakes and self._wakes[0] <= now_ns:
            self.push(Woken(heapq.heappop(self._wakes)))

    def push(self, event: AnyEvent) -> int:
        """Add an event; gives its time.

        That is its own, or later: not before what has been handed out, nor, in the order of time
        and rank, before what was pushed earlier of the same job or of the same device.
        """
        rank = RANK[type(event)]
        after, at = _order_keys(event)
        time_ns = max(event.time_ns, self.last_ns)
        for key in after:
            before_ns, before_rank = self._latest.get(key, (0, 0))
            time_ns = max(time_ns, before_ns if rank >= before_rank else before_ns + 1)
        for key in at:
            self._latest[key] = max(self._latest.get(key, (0, 0)), (time_ns, rank))
        if time_ns != event.time_ns:
            event = msgspec.structs.replace(event, time_ns=time_ns)
        self._pushed += 1
        heapq.heappush(self._heap, (time_ns, rank, self._pushed, event))
        return time_ns

    def pop(self) -> tuple[AnyEvent, ...]:
        """All events of the earliest instant that is known."""
        events: list[AnyEvent] = []
        while self._heap and (not events or self._heap[0][0] == self.last_ns):
            self.last_ns, _, _, event = heapq.heappop(self._heap)
            events.append(event)
        return tuple(events)

    def after_known(self, job: int, time_ns: int) -> int:
        """``time_ns``, or just after the last event of the job that waits here."""
        known = [time + 1 for time, _, _, event in self._heap if getattr(event, "job", -1) == job]
        return max(time_ns, 0, *known)

    def returning(self, job: int) -> bool:
        """Whether the core is yet to hear that a job goes back."""
        return any(isinstance(event, RolledBack) and event.job == job for *_, event in self._heap)

    def passes_ns(self, job: int, round_no: int) -> int | None:
        """The time of a barrier that is known, and that the core is yet to hear of."""
        for time_ns, _, _, event in self._heap:
            if isinstance(event, RoundsDone) and (event.job, event.round) == (job, round_no):
                return time_ns
        return None

    def insert(self, event: AnyEvent) -> None:
        """Add an event at its time, which is to come, whatever of its job is known after it."""
        self._pushed += 1
        heapq.heappush(self._heap, (event.time_ns, RANK[type(event)], self._pushed, event))

    def cancel_arrival(self, job: int) -> None:
        """A job that failed before it arrived does not arrive."""
        self._cancel_arrivals({job})

    def _cancel_arrivals(self, jobs: Collection[int]) -> None:
        self._to_arrive.difference_update(jobs)
        self._arrivals = deque(one for one in self._arrivals if one.index in self._to_arrive)

    def next_due_ns(self) -> int | None:
        """When the next arrival or wake-up is due."""
        due = self._wakes[:1]
        if self._arrivals:
            due.append(self._arrivals[0].arrival_ns)
        return min(due, default=None)

    @property
    def settled(self) -> bool:
        """Whether no event is known that was not handed out, and no job is to come."""
        return not (self._heap or self._arrivals)

    @property
    def empty(self) -> bool:
        """Whether nothing will come of itself."""
        return not (self._heap or self._arrivals or self._wakes)


_Key = tuple[str, int]
_QUEUES: Final[_Key] = ("queues", 0)


def _order_keys(event: AnyEvent) -> tuple[list[_Key], list[_Key]]:
    """Where an event has an order: what it comes after, and what comes after it.

    That is its job and, for COMP, the queue of its device. An event that ends a job or takes it
    back empties places in all queues, so COMP that was told later ended later.
    """
    if isinstance(event, Woken):
        return [], []
    job = ("job", event.job)
    if isinstance(event, CompDone | TaskDropped):
        device = ("device", event.device)
        return [job, device, _QUEUES], [job, device]
    cleans = isinstance(event, JobFailed | JobCancelled | RolledBack)
    cleans = cleans or (isinstance(event, RoundsDone) and event.finished)
    return [job], [job, _QUEUES] if cleans else [job]
