"""Read batches of spilled data ahead of their tasks, in a thread that runs no user code.

While one task computes, the items of the next that are on disk are read (Harmony, Figure 4.8).
Which items these are is known: orders are permutations by seed. The thread draws no random number.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final

from warren.live.training.input_data.spilled_data import SpilledData
from warren.model.costs import IntArray

_TURN_S: Final = 0.1
"""Seconds that the thread waits for a batch to read before it checks the host's memory again."""
_NEW: Final = 0.125
"""The weight of the newest task in measured times."""
_KEPT: Final = 2
"""Batches that are read or waiting: of the task at hand, and of the next one."""
_TRIES: Final = 8
"""Tasks that pass after a wrong guess until the next one."""

Task = tuple[int, int]
"""Round and shard."""


@dataclass(slots=True)
class ReadTimes:
    """Number of tasks, and moving averages.

    The part of the time that tasks stop for data, in millionths; of an item the time from task to
    task, and the time to read it from disk, in ns.
    """

    tasks: int = 0
    stop_ppm: float = 0.0
    use_ns: float = 0.0
    load_ns: float = 0.0


class InputReader:
    """Gives the batches of tasks, read ahead if it knows the next task.

    Parameters
    ----------
    data : SpilledData
        The data. From now on only the thread uses it.
    turn : callable
        Called in the thread between batches. It may change which data are in memory, and tells
        whether it has more to do at once; otherwise it is called again in about a tenth of a
        second.
    """

    def __init__(self, data: SpilledData, turn: Callable[[ReadTimes], bool]) -> None:
        self._data = data
        self._turn = turn
        self.times = ReadTimes()
        self._asked: queue.SimpleQueue[tuple[IntArray, Future[Any]] | None] = queue.SimpleQueue()
        self._batches: dict[Task, Future[Any]] = {}
        self._guessed: Task | None = None
        self._untried = 0
        self._broken: BaseException | None = None
        self._given_ns = 0
        self._turned_s = 0.0
        self._thread = threading.Thread(target=self._serve, name="input reader", daemon=True)
        self._thread.start()

    def ahead(self, task: Task, items: IntArray) -> None:
        """Begin to read the batch of a task that is expected."""
        if task in self._batches:
            return
        # A task that was expected and did not come gives way.
        while len(self._batches) >= _KEPT:
            self._batches.pop(next(iter(self._batches))).cancel()
        batch: Future[Any] = Future()
        self._batches[task] = batch
        self._asked.put((items, batch))

    def guess(self, task: Task, items: IntArray) -> None:
        """Begin to read the batch of a task that may come, unless guesses were wrong lately."""
        if self._untried:
            self._untried -= 1
        elif not self._batches:
            self._guessed = task
            self.ahead(task, items)

    def take(self, task: Task, items: IntArray) -> Any:
        """Return the batch of a task, as soon as it is read.

        Raises
        ------
        InputDataError
            Data cannot be read back, or were changed.
        """
        began_ns = time.monotonic_ns()
        if self._guessed is not None:
            if task != self._guessed:
                self._untried = _TRIES
                if (wrong := self._batches.pop(self._guessed, None)) is not None:
                    wrong.cancel()
            self._guessed = None
        self.ahead(task, items)
        batch = self._batches.pop(task).result()
        # Tasks before this one come no more, but for those of a job that goes back.
        for passed in [one for one in self._batches if one < task]:
            self._batches.pop(passed).cancel()
        now_ns = time.monotonic_ns()
        if self._given_ns:
            period_ns = max(1, now_ns - self._given_ns)
            stop_ppm = 1e6 * (now_ns - began_ns) / period_ns
            self.times.stop_ppm = _moved(self.times.stop_ppm, stop_ppm)
            self.times.tasks += 1
            self.times.use_ns = _moved(self.times.use_ns, period_ns / len(items))
        self._given_ns = now_ns
        return batch

    def close(self) -> None:
        """End the thread; batches that were not taken are forgotten."""
        self._asked.put(None)
        self._thread.join()
        self._batches.clear()

    def _serve(self) -> None:
        """Read requested batches; in between, and while there is no request, take a turn."""
        wait_s = _TURN_S
        while True:
            try:
                asked = self._asked.get(timeout=wait_s)
            except queue.Empty:
                wait_s = 0.0 if self._turned() else _TURN_S
                if wait_s:
                    # A process without a task does not stop for data either.
                    self.times.stop_ppm *= 1 - _NEW
                continue
            if asked is None:
                return
            self._read(*asked)
            if self._asked.empty() and time.monotonic() - self._turned_s > _TURN_S:
                wait_s = 0.0 if self._turned() else _TURN_S

    def _turned(self) -> bool:
        """Take a turn; tell whether the next one is to follow at once."""
        self._turned_s = time.monotonic()
        if self._broken is not None:
            return False
        try:
            return self._turn(self.times)
        except BaseException as error:  # the next task tells it
            self._broken = error
            return False

    def _read(self, items: IntArray, batch: Future[Any]) -> None:
        if not batch.set_running_or_notify_cancel():
            return
        if self._broken is not None:
            batch.set_exception(self._broken)
            return
        began_ns = time.monotonic_ns()
        try:
            cold = self._data.share_on_disk(items)
            batch.set_result(self._data.gather(items))
        except BaseException as error:
            batch.set_exception(error)
        else:
            if cold:
                took_ns = time.monotonic_ns() - began_ns
                self.times.load_ns = _moved(self.times.load_ns, took_ns / cold)


def _moved(average: float, value: float) -> float:
    return value if average == 0.0 else (1 - _NEW) * average + _NEW * value
