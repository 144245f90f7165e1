"""Tasks that a live run computes again, and for how long their devices begin nothing else.

The rule is that of ``warren.model.draws``: a job has one second trainer, on the device of the
first task that it was assigned. The update of a task has been sent when it is computed again, so no
barrier waits, but its device does, for one more COMP of the task.

*Left out.* The second trainer moves where its job has no more tasks for long; it takes longer than
the first, having computed little; and the first task that it may take waits until it has built its
app. Of a stretch, whose tasks are not looked at one by one, as many tasks are taken as expected,
and all at its end.
"""

from __future__ import annotations

from collections import Counter

from warren.model.decision import Assignment
from warren.model.draws import FIRST, can_tell, is_taken
from warren.model.run import Run


class VerifiedTasks:
    """What was computed again so far, of each job."""

    __slots__ = ("_before", "_count_J", "_device_J", "_owed_J", "_share")

    def __init__(self, run: Run) -> None:
        self._share = run.verify
        self._device_J = [-1 for _ in run.workload.jobs]
        self._count_J = [0 for _ in run.workload.jobs]
        self._owed_J = [0.0 for _ in run.workload.jobs]  # of stretches: parts of a task
        self._before: Counter[tuple[int, int]] = Counter()

    def assigned(self, one: Assignment) -> None:
        """Note where a job has its first task, and so its second trainer."""
        if self._device_J[one.job] < 0:
            self._device_J[one.job] = one.device

    def taken(self, one: Assignment) -> int:
        """Count the tasks of an assignment that are computed again once they have been computed."""
        job, tasks = one.job, one.rounds * len(one.shards)
        before = self._before[one.device, job]
        self._before[one.device, job] += tasks
        if not self._share or self._device_J[job] != one.device:
            return 0
        had = self._count_J[job]
        if one.rounds > 1:
            first = min(max(0, FIRST - had), tasks)
            self._owed_J[job] += self._share * (tasks - first)
            whole = int(self._owed_J[job])
            self._owed_J[job] -= whole
            self._count_J[job] += first + whole
        else:
            for place, shard in enumerate(one.shards, before):
                count = self._count_J[job]
                if can_tell(place, count) and is_taken(job, one.round, shard, count, self._share):
                    self._count_J[job] += 1
        return self._count_J[job] - had
