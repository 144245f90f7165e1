"""Results of tasks that a trainer has computed before they were asked for.

The trainer of a job on a GPU does not wait for messages (``device.local_trainer``). Its result
waits here until the task is the head of the device's queue.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from warren.live.device.lanes import LaneTask
from warren.live.transport.messages import TaskComputed

MOST_UNASKED: Final = 2
"""Most tasks of a job that its trainer computes before they are asked for."""


def unasked(head: LaneTask, coming: Sequence[LaneTask]) -> int:
    """Return how many tasks after the head its trainer may compute before it is asked.

    None that follow the next task of another job in the queue: ``coming``, without the head.
    """
    others = [at for at, work in enumerate(coming[:MOST_UNASKED]) if work.job != head.job]
    return min(others, default=MOST_UNASKED)


class EarlyResults:
    """The results on one device that are not asked for yet, each with its trainer's process."""

    def __init__(self) -> None:
        # By job, round and shard.
        self._results: dict[tuple[int, int, int], tuple[TaskComputed, int]] = {}

    def keep(self, done: TaskComputed, pid: int) -> None:
        """Keep the result of a task that the trainer ``pid`` has computed; 0: that has ended."""
        if pid:
            self.forget(done.job, before=done.round - 1)
            self._results[done.job, done.round, done.shard] = done, pid

    def has(self, work: LaneTask) -> bool:
        """Tell whether the result of a task is here."""
        return (work.job, work.round, work.shard) in self._results

    def take(self, work: LaneTask) -> tuple[TaskComputed, int]:
        """Remove the result of a task; return it with the process of its trainer."""
        return self._results.pop((work.job, work.round, work.shard))

    def forget(self, job: int, before: int | None = None) -> None:
        """Forget the results of a job, of rounds before one; None: of all rounds."""
        for key in [one for one in self._results if one[0] == job]:
            if before is None or key[1] < before:
                del self._results[key]
