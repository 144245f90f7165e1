"""The queue of live events that were not handed out yet, in order; their times never go back."""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Collection, Iterable, Sequence
from typing import Final

import msgspec

from warren.model.events import (
    RANK,
    AnyEvent,
    CompDone,
    HostJoined,
    HostLeft,
    JobArrived,
    JobCancelled,
    JobFailed,
    RolledBack,
    RoundsDone,
    ServersMoved,
    TaskDropped,
    Woken,
)
from warren.model.job import Job


class PendingEvents:
    """Arrivals and wake-ups to come, and events that are known already.

    Parameters
    ----------
    jobs : sequence of Job
        All jobs of the run, none of which has arrived.
    """

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._arrivals = deque(sorted(jobs, key=lambda job: (job.arrival_ns, job.index)))
        self._to_arrive = {job.index for job in jobs}
        self._wakes: list[int] = []
        # Keys are (time, rank, number): of one instant the rank decides, then the order of coming,
        # so that events themselves are never compared.
        self._heap: list[tuple[int, int, int, AnyEvent]] = []
        self._pushed = 0
        # Time and rank of the last event pushed, by job and by device (``_order_keys``).
        self._latest: dict[tuple[str, int], tuple[int, int]] = {}
        # How many roll-backs of each job wait here: asked for each assignment.
        self._returns: Counter[int] = Counter()
        self.last_ns = 0
        """The cluster time of the events that were handed out last."""

    def resume(self, now_ns: int, arrived: Collection[int], wakes_ns: Iterable[int]) -> None:
        """Let time go on where a run was cut off. To be called before anything else.

        Parameters
        ----------
        now_ns : int
            The cluster time at which the run stood.
        arrived : collection of int
            Jobs that have arrived already, or will not any more.
        wakes_ns : iterable of int
            Wake-ups that policies have asked for, and that have not come.
        """
        self.last_ns = now_ns
        self._cancel_arrivals(arrived)
        for wake_ns in wakes_ns:
            self.wake_at(wake_ns)

    def arrived(self, job: int) -> bool:
        """Tell whether the arrival of a job is known."""
        return job not in self._to_arrive

    def wake_at(self, time_ns: int) -> None:
        """Add a wake-up of the policy at a cluster time."""
        heapq.heappush(self._wakes, time_ns)

    def advance(self, now_ns: int) -> None:
        """Turn arrivals and wake-ups that are due into events."""
        while self._arrivals and self._arrivals[0].arrival_ns <= now_ns:
            job = self._arrivals.popleft()
            self._to_arrive.remove(job.index)
            self.push(JobArrived(job.arrival_ns, job.index))
        while self._wakes and self._wakes[0] <= now_ns:
            self.push(Woken(heapq.heappop(self._wakes)))

    def push(self, event: AnyEvent) -> int:
        """Add an event, and return the time that it gets.

        That is its own time or a later one: not before the events handed out, nor, in the order of
        time and rank, before earlier events of the same job or device.
        """
        rank = RANK[type(event)]
        after, at = _order_keys(event)
        time_ns = max(event.time_ns, self.last_ns)
        # Of one instant the lower rank is handed out first: an event that must come after one of a
        # higher rank needs a later instant.
        for key in after:
            before_ns, before_rank = self._latest.get(key, (0, 0))
            time_ns = max(time_ns, before_ns if rank >= before_rank else before_ns + 1)
        for key in at:
            self._latest[key] = max(self._latest.get(key, (0, 0)), (time_ns, rank))
        if time_ns != event.time_ns:
            event = msgspec.structs.replace(event, time_ns=time_ns)
        self._pushed += 1
        heapq.heappush(self._heap, (time_ns, rank, self._pushed, event))
        if isinstance(event, RolledBack):
            self._returns[event.job] += 1
        return time_ns

    def pop(self) -> tuple[AnyEvent, ...]:
        """Take out all events of the earliest instant that is known; none if none is known."""
        events: list[AnyEvent] = []
        while self._heap and (not events or self._heap[0][0] == self.last_ns):
            self.last_ns, _, _, event = heapq.heappop(self._heap)
            events.append(event)
            if isinstance(event, RolledBack):
                self._returns[event.job] -= 1
        return tuple(events)

    def after_known(self, job: int, time_ns: int) -> int:
        """Return ``time_ns``, or a time just after the last event of the job that waits here."""
        known = [time + 1 for time, _, _, event in self._heap if getattr(event, "job", -1) == job]
        return max(time_ns, 0, *known)

    def returning(self, job: int) -> bool:
        """Tell whether the core is yet to hear that a job is rolled back."""
        return self._returns[job] > 0

    def take_back_void(self, job: int) -> None:
        """Take back that a shape of a job was void, since its servers are to move elsewhere now."""
        self._heap = [
            row
            for row in self._heap
            if not (isinstance(row[3], ServersMoved) and row[3].job == job and row[3].reason)
        ]
        heapq.heapify(self._heap)

    def passes_ns(self, job: int, round_no: int) -> int | None:
        """Return the time of a barrier that is known, and that the core is yet to hear of."""
        for time_ns, _, _, event in self._heap:
            if isinstance(event, RoundsDone) and (event.job, event.round) == (job, round_no):
                return time_ns
        return None

    def insert(self, event: AnyEvent) -> None:
        """Add an event at its own future time, whatever later events of its job are known."""
        self._pushed += 1
        heapq.heappush(self._heap, (event.time_ns, RANK[type(event)], self._pushed, event))

    def cancel_arrival(self, job: int) -> None:
        """Let a job that has failed before it arrived not arrive."""
        self._cancel_arrivals({job})

    def _cancel_arrivals(self, jobs: Collection[int]) -> None:
        """Take jobs out of the arrivals to come."""
        self._to_arrive.difference_update(jobs)
        self._arrivals = deque(one for one in self._arrivals if one.index in self._to_arrive)

    def next_due_ns(self) -> int | None:
        """Return when the next arrival or wake-up is due; None: there is none."""
        due = self._wakes[:1]
        if self._arrivals:
            due.append(self._arrivals[0].arrival_ns)
        return min(due, default=None)

    @property
    def settled(self) -> bool:
        """Tell whether every known event was handed out, and no job is still to arrive."""
        return not (self._heap or self._arrivals)

    @property
    def empty(self) -> bool:
        """Tell whether nothing will come of itself: no event, no arrival and no wake-up."""
        return not (self._heap or self._arrivals or self._wakes)


_Key = tuple[str, int]
"""A key by which events are ordered: ("job", its index), or of a device or a host."""
_QUEUES: Final[_Key] = ("queues", 0)
"""The key of the queues of all devices together."""


def _order_keys(event: AnyEvent) -> tuple[list[_Key], list[_Key]]:
    """Return the keys that an event comes after, and the keys whose later events come after it.

    The keys are its job and, for COMP, the queue of its device. An event that ends a job or rolls
    it back empties places in all queues, so a COMP reported later ended later.
    """
    if isinstance(event, Woken):
        return [], []
    if isinstance(event, HostLeft | HostJoined):
        host = [("host", event.host)]
        return host, host
    job = ("job", event.job)
    if isinstance(event, CompDone | TaskDropped):
        device = ("device", event.device)
        return [job, device, _QUEUES], [job, device]
    # Whether the event frees places in queues.
    cleans = isinstance(event, JobFailed | JobCancelled | RolledBack)
    cleans = cleans or (isinstance(event, RoundsDone) and event.finished)
    return [job], [job, _QUEUES] if cleans else [job]
