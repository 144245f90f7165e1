"""Tasks that a process computes twice, with two builds of the app, to see if they differ.

As where another process computes tasks again (decision 0029) the second build has globals and
classes of its own, and has computed fewer tasks. So what an app keeps between its tasks, or draws
from elsewhere, gives another result. Memory that nothing has initialized is filled.
"""

from __future__ import annotations

from collections.abc import Callable

from warren.live.training import numerics
from warren.live.training.app.app_contract import refuse
from warren.live.training.memory.device_bytes import DeviceBytes
from warren.live.training.task_hashes import TaskResult, nondeterministic
from warren.live.training.task_runner import StartedTask, TaskRunner
from warren.model.draws import can_tell, is_taken
from warren.model.job import Job


class RepeatedTasks:
    """Computes a share of a job's tasks again.

    Parameters
    ----------
    job
        The job.
    share
        The share of its tasks, in [0, 1]; the first ones are computed again in any case.
    build
        Builds the app again, on the same device.
    """

    def __init__(self, job: Job, share: float, build: Callable[[], TaskRunner]) -> None:
        self._job = job
        self._share = share
        self._build = build
        self._runner: TaskRunner | None = None
        # Tasks that the first build has computed, and the second.
        self._before = self._count = 0

    def prepare(self) -> None:
        """Build the app."""
        self._runner = self._build()

    def start(
        self, state: DeviceBytes, round_no: int, shard: int, update: Callable[[], DeviceBytes]
    ) -> StartedTask | None:
        """Begin to compute a task again that the first build has begun; None: it is not one.

        ``update``: gives a place for the second result.
        """
        before, self._before = self._before, self._before + 1
        taken = is_taken(self._job.index, round_no, shard, self._count, self._share)
        if self._runner is None or not (taken and can_tell(before, self._count)):
            return None
        self._count += 1
        with numerics.filled():
            return self._runner.start(state, round_no, shard, update())

    def check(self, round_no: int, shard: int, first: TaskResult, again: TaskResult) -> None:
        """Refuse the app if a task had two results.

        Raises
        ------
        SpecError
            It had; the message names a tensor that differs.
        """
        if first.marks != again.marks and self._runner is not None:
            layout = self._runner.layout
            what = nondeterministic(layout, round_no, shard, first.marks, again.marks)
            raise refuse(self._job, "", what)

    def evict(self) -> None:
        """Give the memory of the device back until the next task that is computed again."""
        if self._runner is not None:
            self._runner.evict()
