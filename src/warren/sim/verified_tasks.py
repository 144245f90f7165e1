"""Tasks that a live run computes again, and how long that keeps their devices busy.

The rule is that of ``warren.model.draws``: a job has one second trainer, on the device of the
first task that it was assigned. The update of a task has been sent when it is computed again, so no
barrier waits, but its device does, for one more COMP of the task.

*Left out.* The second trainer moves where its job has no more tasks for long; it takes longer than
the first, having computed little; and the first task that it may take waits until it has built its
app. Tasks of a stretch are not looked at one by one: as many tasks are taken as expected, all at
its end.
"""

from __future__ import annotations

from collections import Counter
from heapq import heappop, heappush

from warren.model.decision import Assignment
from warren.model.draws import FIRST, can_tell, is_taken
from warren.model.run import Run


class VerifiedTasks:
    """The tasks of each job that were computed again so far, and until when that keeps devices.

    ``blocked``: assignments that wait for nothing but such a device.
    """

    __slots__ = (
        "_before",
        "_count_J",
        "_device_J",
        "_over",
        "_owed_J",
        "_share",
        "_until_D",
        "blocked",
    )

    def __init__(self, run: Run) -> None:
        self._share = run.verify
        self._device_J = [-1 for _ in run.workload.jobs]
        self._count_J = [0 for _ in run.workload.jobs]
        # Parts of a task that stretches have left to compute again.
        self._owed_J = [0.0 for _ in run.workload.jobs]
        # By (device, job): tasks that the job's trainer on that device has computed.
        self._before: Counter[tuple[int, int]] = Counter()
        self._until_D = [0 for _ in run.cluster.devices]
        # A heap of the times, still to come, at which a device has computed a task again.
        self._over: list[int] = []
        self.blocked: list[Assignment] = []

    def assigned(self, one: Assignment) -> None:
        """Note where a job has its first task, and so its second trainer."""
        if self._device_J[one.job] < 0:
            self._device_J[one.job] = one.device

    def computed(self, one: Assignment, comp_end: int, busy: int) -> None:
        """Keep the device busy while tasks of an assignment that leaves COMP are computed again.

        ``comp_end`` is when it leaves COMP, ``busy`` its COMP time, ns.
        """
        again = self.taken(one)
        if again:
            # One more COMP a task, each as long as the mean of this assignment.
            until = comp_end + again * busy // (one.rounds * len(one.shards))
            self._until_D[one.device] = until
            heappush(self._over, until)

    def keeps(self, device: int, now: int) -> bool:
        """Tell whether the device still computes a task again."""
        return self._until_D[device] > now

    def next_over_ns(self, none_ns: int) -> int:
        """Return when the next device has computed a task again; ``none_ns`` if none does."""
        return self._over[0] if self._over else none_ns

    def release(self, now: int) -> list[Assignment]:
        """Forget expired entries, and return the blocked assignments, for another look."""
        while self._over and self._over[0] <= now:
            heappop(self._over)
        blocked, self.blocked = self.blocked, []
        return blocked

    def taken(self, one: Assignment) -> int:
        """Count the tasks of an assignment that are computed again once they have been computed."""
        job, tasks = one.job, one.rounds * len(one.shards)
        before = self._before[one.device, job]
        self._before[one.device, job] += tasks
        if not self._share or self._device_J[job] != one.device:
            return 0
        had = self._count_J[job]
        if one.rounds > 1:
            # A stretch: the first tasks that are always taken, as far as it has them, then the
            # expected share of the others. A remainder below a whole task is added to the next.
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
