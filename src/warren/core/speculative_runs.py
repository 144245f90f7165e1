"""Tasks that run twice: a copy of a late one was started on another device.

The first of both runs that is done counts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from warren.model.decision import Assignment
from warren.model.events import TaskDropped, TasksDone

Task = tuple[int, int, int]
"""(job, round, shard)."""


def task_of(one: Assignment) -> Task | None:
    """Return the one task of an assignment; None if it has several."""
    return (one.job, one.round, one.shards[0]) if one.rounds == len(one.shards) == 1 else None


@dataclass(slots=True)
class SpeculativeRuns:
    """Tasks that run twice: which run is the first one, which the copy, and which was beaten.

    ``pairs``: first run and copy of tasks that are not done. ``lost``: runs that were beaten. A
    lost run stays on its device until ``TaskDropped``: nothing is killed.
    """

    pairs: dict[Task, tuple[Assignment, Assignment]] = field(default_factory=dict)
    # A dict without values, not a set: its order is the same in every process.
    lost: dict[Assignment, None] = field(default_factory=dict)

    def head(self, queue: deque[Assignment]) -> Assignment | None:
        """Return the first assignment of a queue, apart from runs that have lost."""
        return next((one for one in queue if one not in self.lost), None)

    def first_run(self, queues: Iterable[deque[Assignment]], copy: Assignment) -> Assignment | None:
        """Return the run of a copy's task that stands first on its device, or None."""
        task = task_of(copy)
        heads = (self.head(queue) for queue in queues if task is not None)
        return next((one for one in heads if one is not None and task_of(one) == task), None)

    def begin(self, first: Assignment, copy: Assignment) -> None:
        """Note that the task of ``first`` runs once more, as ``copy``."""
        self.pairs[copy.job, copy.round, copy.shards[0]] = first, copy

    def done(self, event: TasksDone) -> None:
        """Note that a task is done: if it ran twice, the run on the other device has lost."""
        pair = self.pairs.pop((event.job, event.round, event.shards[0]), None)
        if pair is not None:
            first, copy = pair
            self.lost[copy if first.device == event.device else first] = None

    def take(self, event: TaskDropped) -> Assignment | None:
        """Remove and return the run that is over; None if it is its task's only one.

        The event may come before the other run, which counts, is done.
        """
        one = Assignment(event.device, event.job, event.round, 1, (event.shard,))
        task = (event.job, event.round, event.shard)
        if one in self.lost:
            del self.lost[one]
        elif one in self.pairs.get(task, ()):
            del self.pairs[task]
        else:
            return None
        return one

    def forget(self, job: int) -> list[Assignment]:
        """Forget all runs of a job that has failed or gone back; return those that had lost."""
        self.pairs = {task: pair for task, pair in self.pairs.items() if task[0] != job}
        return self.forget_lost([one for one in self.lost if one.job == job])

    def forget_lost(self, gone: list[Assignment]) -> list[Assignment]:
        """Forget these lost runs, which are gone with their processes, and return them."""
        for one in gone:
            del self.lost[one]
        return gone

    def counts(self, one: Assignment) -> bool:
        """Tell whether this is the run that stands for its task: not lost, and no copy."""
        pair = self.pairs.get((one.job, one.round, one.shards[0]))
        return one not in self.lost and (pair is None or pair[1] != one)
