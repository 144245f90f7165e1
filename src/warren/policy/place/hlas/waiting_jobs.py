"""The jobs that wait, in the order of queues: a list for a policy, their indexes for a kernel."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import NamedTuple


class QueuePosition(NamedTuple):
    """A job's queue, its place in it, and the job itself, compared in this order, least first."""

    queue: float
    place: float
    job: int


@dataclass(slots=True)
class WaitingJobs:
    """Waiting jobs in the order of their ``spots``, and beside it the ``jobs`` alone.

    In a policy's memory it is never changed: a decision takes a ``copy``.
    """

    spots: list[QueuePosition] = field(default_factory=list)
    jobs: array[int] = field(default_factory=lambda: array("q"))

    def __len__(self) -> int:
        return len(self.spots)

    def copy(self) -> WaitingJobs:
        """Return a copy, to be changed."""
        return WaitingJobs(self.spots.copy(), self.jobs[:])

    def stand(self, spot: QueuePosition) -> None:
        """Put a job at its place, unless it stands there already."""
        place = bisect_left(self.spots, spot)
        if place == len(self.spots) or self.spots[place] != spot:
            self.spots.insert(place, spot)
            self.jobs.insert(place, spot.job)

    def leave(self, job: int) -> None:
        """Take a job out, if it waits."""
        # By its job, not by its position, which may be another by now than when it was put here.
        if job in self.jobs:
            self.drop(self.jobs.index(job))

    def drop(self, place: int) -> None:
        """Take out the job at a place."""
        del self.spots[place]
        del self.jobs[place]

    def first_of(self, queue: float) -> int:
        """Return the place of the first job of a queue, or of the first job that goes after it."""
        # A tuple of the queue alone is less than each position in that queue.
        return bisect_left(self.spots, (queue,))
