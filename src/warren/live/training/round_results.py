"""The results of a round's tasks, and what of them may come later than the step.

A GPU that computes tasks in the process of their store has the update of a task before its loss and
its hashes. Such an update is added *ahead*. A round may be stepped by it, and loss and hashes are
confirmed afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from warren.live.training.app.app_contract import check_converges
from warren.live.training.block_ownership import Ranges
from warren.live.training.memory.device_bytes import DeviceBytes
from warren.live.training.task_hashes import MARK_BYTES, KnownHashes, TaskResult
from warren.live.training.tensor_layout import Layout
from warren.model.job import Job


class RoundResults:
    """The results of the round at hand by shard, and the losses of the round before it.

    ``round`` is the round at hand. ``loss`` is the mean loss of the last step until its round is
    concluded; None: there was none, or tasks of it are not confirmed.

    Parameters
    ----------
    job, layout
        The job, and the layout of its model.
    ranges
        The owned bytes (begin, end) of an update, which comes in one piece a range.
    tasks
        Number of results of a round.
    known
        The hashes with which a task that runs twice is compared.
    on_device
        An update may also come in one whole piece, which lies on the device.
    """

    def __init__(
        self,
        job: Job,
        layout: Layout,
        ranges: Ranges,
        tasks: int,
        known: KnownHashes,
        *,
        on_device: bool,
    ) -> None:
        self._job, self._layout, self._tasks, self._known = job, layout, tasks, known
        self._sizes = [[end - begin for begin, end in ranges]]
        if on_device and layout.total_bytes:
            self._sizes.append([layout.total_bytes])
        self.round = 0
        self.loss: float | None = None
        self._results: dict[int, TaskResult] = {}
        # Shards whose losses and hashes are still to come: of this round, and of the last step.
        self._ahead: set[int] = set()
        self._open: set[int] = set()
        self._losses: list[float] = []

    def add(self, shard: int, result: TaskResult) -> None:
        """Take the result of a task of this round.

        Raises
        ------
        SpecError
            The same task was computed before with another result.
        ValueError
            The result cannot belong to this round.
        """
        if not 0 <= shard < self._tasks:
            raise ValueError(f"no task {shard} is awaited in round {self.round}")
        self._check_layout(shard, result)
        self._known.check(self.round, shard, result.marks)
        self._known.add(self.round, shard, result.marks)
        # Of a task computed twice the first result stays; ``check`` has found both equal.
        self._results.setdefault(shard, result)
        if shard in self._ahead:
            self.confirm(self.round, shard, result.loss, result.marks)

    def _check_layout(self, shard: int, result: TaskResult) -> None:
        """Refuse a result of another layout."""
        sizes = [
            one.nbytes if isinstance(one, DeviceBytes) else memoryview(one).nbytes
            for one in result.update
        ]
        # One mark for loss and mask, then one for each entry of the layout.
        marks = MARK_BYTES * (1 + len(self._layout.entries))
        if (
            sizes not in self._sizes
            or len(result.present) != len(self._layout.params)
            or len(result.marks) != marks
        ):
            raise ValueError(f"task {shard} of round {self.round} has another layout")

    def add_ahead(self, shard: int, present: bytes, update: DeviceBytes) -> None:
        """Take the update of a task of this round before its loss and its hashes are known.

        ``confirm`` gives them, also after the step.
        """
        ahead = TaskResult(loss=math.nan, present=present, marks=b"", update=(update,))
        if self._results.setdefault(shard, ahead) is ahead:
            self._ahead.add(shard)

    def confirm(self, round_no: int, shard: int, loss: float, marks: bytes) -> None:
        """Take loss and hashes of a task that was added ahead, of the last round or of this one.

        Raises
        ------
        SpecError
            The same task was computed before with another result, or a round's mean loss is NaN.
        """
        self._known.check(round_no, shard, marks)
        waiting = self._ahead if round_no == self.round else self._open
        if shard not in waiting:
            return
        self._known.add(round_no, shard, marks)
        waiting.discard(shard)
        if round_no == self.round:
            found = self._results[shard]
            self._results[shard] = replace(found, loss=loss, marks=marks)
            return
        self._losses[shard] = loss
        if not self._open:
            self.loss = self._mean_loss(self._losses, round_no)

    def waits(self, round_no: int, shard: int) -> bool:
        """Tell whether loss and hashes of a task that was added ahead are still to come."""
        if round_no == self.round:
            return shard in self._ahead
        return round_no == self.round - 1 and shard in self._open

    @property
    def confirmed(self) -> bool:
        """Tell whether the losses and hashes of all tasks of the last step are known."""
        return not self._open

    def have(self, round_no: int) -> tuple[int, ...]:
        """Return the shards of a round whose result is in; all of them once its step was made."""
        return tuple(range(self._tasks) if round_no < self.round else self._results)

    @property
    def complete(self) -> bool:
        """Tell whether the results of all tasks of the round are in."""
        return len(self._results) == self._tasks

    def in_order(self) -> list[TaskResult]:
        """Return the results in shard order, in whatever order they came."""
        return [self._results[shard] for shard in range(self._tasks)]

    def check_converges(self) -> None:
        """Refuse a mean loss of NaN, unless the job says otherwise, if all losses are known.

        Raises
        ------
        SpecError
            The mean loss is NaN.
        """
        if not self._ahead:
            self._mean_loss([one.loss for one in self.in_order()], self.round)

    def step(self, *, concludes: bool) -> None:
        """Go on to the next round: the step by all results of this one was made.

        ``concludes``: this store concludes its rounds, which needs their mean loss.
        """
        self._losses = [one.loss for one in self.in_order()]
        open_ = self._ahead
        self.begin(self.round + 1)
        self._open = open_
        if concludes and not open_:
            self.loss = self._mean_loss(self._losses, self.round - 1)

    def begin(self, round_no: int) -> None:
        """Begin a round without results."""
        self.round, self.loss = round_no, None
        self._results, self._ahead, self._open = {}, set(), set()

    def _mean_loss(self, losses: Sequence[float], round_no: int) -> float:
        """Return the mean loss of a round; refuse NaN, unless the job says otherwise."""
        # In shard order, so that it has the same bits wherever tasks ran.
        loss = sum(losses) / self._tasks
        check_converges(loss, round_no, self._job)
        return loss
