"""The tasks of a round that are done for a server, and the time of the barrier behind them."""

from __future__ import annotations

from warren.live.transport.message import TaskStamp


class CommittedTasks:
    """The stamps of the round in progress, by shard.

    ``barrier_ns``: the end of the last task, or of the step if nothing is emulated; 0 before the
    first barrier. ``real``: a task was committed by its push, so that times are not emulated.
    """

    def __init__(self) -> None:
        self.barrier_ns = 0
        self.real = False
        self._stamps: dict[int, TaskStamp] = {}

    def __len__(self) -> int:
        """Return the number of tasks that are done."""
        return len(self._stamps)

    def add(self, stamp: TaskStamp) -> None:
        """Note that a task is done; if a task ran twice, the first result counts."""
        if stamp.shard not in self._stamps:
            self._stamps[stamp.shard] = stamp
            self.put_off(stamp.end_ns)

    def put_off(self, until_ns: int) -> None:
        """Let the barrier be at a time or later."""
        self.barrier_ns = max(self.barrier_ns, until_ns)

    def stamps(self) -> tuple[TaskStamp, ...]:
        """Return the stamps in the order in which tasks were committed."""
        return tuple(self._stamps.values())

    def clear(self) -> None:
        """Begin the next round, without tasks; the time of the last barrier stays."""
        self._stamps.clear()
