"""Who waits, in the order of queues: a list for a policy to walk, and its jobs for a kernel."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import NamedTuple


class QueuePosition(NamedTuple):
    """A job's queue, its place in it, and the job itself: the least goes first in each."""

    queue: float
    place: float
    job: int


@dataclass(slots=True)
class WaitingJobs:
    """Holds jobs in the order of their ``spots``, and the ``jobs`` alone beside it.

    In a policy's memory nobody changes it: who decides takes a ``copy``.
    """

    spots: list[QueuePosition] = field(default_factory=list)
    jobs: array[int] = field(default_factory=lambda: array("q"))

    def __len__(self) -> int:
        return len(self.spots)

    def copy(self) -> WaitingJobs:
        """Give the same, to be changed."""
        return WaitingJobs(self.spots.copy(), self.jobs[:])

    def stand(self, spot: QueuePosition) -> None:
        """Put a job where it stands, once."""
        place = bisect_left(self.spots, spot)
        if place == len(self.spots) or self.spots[place] != spot:
            self.spots.insert(place, spot)
            self.jobs.insert(place, spot.job)

    def leave(self, job: int) -> None:
        """Take a job out, if it stands there."""
        if job in self.jobs:
            self.drop(self.jobs.index(job))

    def drop(self, place: int) -> None:
        """Take out who stands at a place."""
        del self.spots[place]
        del self.jobs[place]

    def first_of(self, queue: float) -> int:
        """The place of the first job of a queue, or of one that goes after it."""
        return bisect_left(self.spots, (queue,))
