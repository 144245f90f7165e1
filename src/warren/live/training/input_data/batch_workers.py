"""Batches that worker processes build ahead of their tasks; the trainer's side."""

from __future__ import annotations

import mmap
import os
import select
import signal
import socket
import sys
import time
import warnings
import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from threading import RLock
from typing import Any, Final

import torch
from torch import Tensor

from warren.live.process.linux import leave
from warren.live.training.app.app_contract import refuse
from warren.live.training.input_data.batch_memory import load
from warren.live.training.input_data.input_reader import Task
from warren.live.training.input_data.worker_processes import (
    NO_ITEM,
    Ask,
    BuildBatch,
    Built,
    Ended,
    Failed,
    Start,
    Up,
    flush,
    receive,
    send,
    serve,
)
from warren.model.costs import IntArray
from warren.model.job import Job

_EACH: Final = 2
"""Batches that are built or ready for each worker, as many as torch's ``DataLoader`` has."""
_TRIES: Final = 3
"""Workers that may end while they build one batch, until the job fails."""
_LIMIT_SHARE: Final = 0.9
"""Share of a task's time limit that its batch may take: the rest is for saying where it is."""
_TURN_S: Final = 0.02
"""Seconds after which a thread looks whether another has read its batch."""


_MOST: Final = 8
"""Most workers of a trainer on a GPU, unless its job states a number."""


def workers_of(job: Job, gpu: int | None) -> int:
    """Return the number of workers of a trainer.

    Unless the job states it there are none on a processor. On a GPU it is its share of the
    processor cores, but for one.

    Parameters
    ----------
    job
        The job.
    gpu
        The GPU that it computes on; below 0 it is a stand-in for one, None: the CPU.
    """
    if job.workers is not None:
        return job.workers
    if gpu is None or gpu < 0:
        return 0
    # A trainer may be pinned to a core; its parent is not. To count GPUs begins no use of one.
    cores, gpus = len(os.sched_getaffinity(os.getppid())), torch.cuda.device_count()
    return max(0, min(_MOST, cores // max(1, gpus) - 1))


class WorkersLost(RuntimeError):
    """The parent of the workers has gone, so the trainer builds its batches itself."""


@dataclass(slots=True)
class _Worker:
    """A worker: its socket and process once it runs, and its tasks, the first one in progress."""

    started: bool = False
    to: socket.socket | None = None
    pid: int = 0
    asked: list[Task] = field(default_factory=list)


class BatchWorkers:
    """Worker processes of one trainer, each forked when there is a batch for it.

    Their parent is forked now: the app has just been built, and this process has no CUDA context
    yet (a fork of a process with one cannot use CUDA, and keeps its device open).

    Parameters
    ----------
    build
        Builds a batch; it runs in the workers.
    job
        The job.
    count
        Number of workers.
    forget
        Tensors that workers must not see: those of the model, whose values they would not have.
    """

    def __init__(
        self, build: BuildBatch, job: Job, count: int, forget: Iterable[Tensor] = ()
    ) -> None:
        self._job = job
        self._lock = RLock()
        self._workers = [_Worker() for _ in range(count)]
        # By task: its samples from when it is asked for, then its batch, or its error.
        self._samples: dict[Task, IntArray] = {}
        self._ready: dict[Task, Any] = {}
        self._failed: dict[Task, Failed] = {}
        self._ends: dict[Task, int] = {}
        self._sure: set[Task] = set()
        self._lost = False
        self._items = memoryview(mmap.mmap(-1, 8 * count)).cast("q")
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.parent = self._fork(build, theirs, list(forget))
        """Process id of the parent of the workers."""
        theirs.close()
        self._slot_of: dict[int, int] = {}
        self._poller = select.epoll()
        self._poller.register(self._control, select.EPOLLIN)
        open_files = self._control, self._poller, self._workers
        self.close = weakref.finalize(self, _end, *open_files, self.parent)
        """End the workers."""
        self.close.atexit = False

    @property
    def pids(self) -> list[int]:
        """Return the process ids of the workers that run."""
        return [one.pid for one in self._workers if one.to is not None]

    def ask(self, task: Task, picked: IntArray) -> None:
        """Let a worker build the batch of a task that comes, unless one does already."""
        with self._lock:
            self._sure.add(task)
            self._ask(task, picked)

    def guess(self, tasks: Iterable[Task], picked: Callable[[Task], IntArray]) -> None:
        """Let workers build the batches of tasks that may come, and forget earlier guesses.

        ``tasks`` may be endless. As many are taken as there is room for; ``picked`` gives the
        samples of one.
        """
        with self._lock:
            room = _EACH * len(self._workers) - len(self._sure)
            coming = [one for one in islice(tasks, max(0, room)) if one not in self._sure]
            for task in self._samples.keys() - self._sure - set(coming):
                self._forget(task)
            for task in coming:
                self._ask(task, picked(task))

    def _ask(self, task: Task, picked: IntArray) -> None:
        if not self._lost and task not in self._samples:
            self._samples[task] = picked
            self._give(task)

    def take(self, task: Task, picked: IntArray) -> Any:
        """Return the batch of a task as soon as it is built. Any thread may call it.

        Raises
        ------
        SpecError
            User code has raised, has ended its process again and again, or hangs.
        WorkersLost
            There are no workers any more.
        """
        began_s = time.monotonic()
        while True:
            with self._lock:
                self.ask(task, picked)
                self._hear()
                if self._lost:
                    raise WorkersLost("the workers of the input have ended")
                if task in self._ready:
                    batch = self._ready[task]
                    # Tasks before this one come no more, but for those of a job that goes back.
                    for passed in [one for one in self._samples if one <= task]:
                        self._forget(passed)
                    return batch
                if (failed := self._failed.get(task)) is not None:
                    self._forget(task)
                    raise refuse(self._job, failed.field, failed.text)
                if time.monotonic() - began_s > _LIMIT_SHARE * self._job.task_limit_ns / 1e9:
                    self._end_slow(task)
            self._poller.poll(_TURN_S)

    def _fork(self, build: BuildBatch, theirs: socket.socket, forget: list[Tensor]) -> int:
        """Fork the parent of the workers; return its process id."""
        me = os.getpid()
        # A trainer may be pinned to a core; its parent is not.
        cores = os.sched_getaffinity(os.getppid())
        flush()  # or a child would print it once more
        with warnings.catch_warnings():
            # User code may have threads: as for a ``DataLoader``, a fork has to be allowed.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid:
            return pid
        try:
            self._control.close()
            serve(theirs, me, build, self._items, forget, cores)
        finally:
            flush()
            leave(0)

    def _give(self, task: Task) -> None:
        """Give a task to the worker with the fewest."""
        slot = min(range(len(self._workers)), key=lambda one: len(self._workers[one].asked))
        worker = self._workers[slot]
        worker.asked.append(task)
        if worker.to is not None:
            self._send(worker.to, task)
        elif not worker.started:
            worker.started = True
            with suppress(OSError):  # the end of the other side is heard
                send(self._control, Start(slot))

    def _send(self, to: socket.socket, task: Task) -> None:
        fd = os.memfd_create("warren-samples", os.MFD_CLOEXEC)
        try:
            with open(fd, "wb", closefd=False) as file:
                file.write(self._samples[task].tobytes())
            with suppress(OSError):  # the end of the other side is heard
                send(to, Ask(task), fd)
        finally:
            os.close(fd)

    def _forget(self, task: Task) -> None:
        """Forget a batch. A worker that has begun it builds it to its end, for nothing."""
        for known in (self._samples, self._ready, self._failed, self._ends):
            known.pop(task, None)
        self._sure.discard(task)
        for worker in self._workers:
            if worker.to is None and task in worker.asked:
                worker.asked.remove(task)

    def _hear(self) -> None:
        """Read all messages that are here."""
        for fd, _ in self._poller.poll(0):
            if fd in self._slot_of:
                self._hear_worker(self._slot_of[fd])
            elif not self._lost:
                self._hear_parent()

    def _hear_parent(self) -> None:
        with suppress(BlockingIOError):
            while True:
                match receive(self._control, socket.MSG_DONTWAIT):
                    case (Up(slot=slot, pid=pid), [fd]):
                        worker = self._workers[slot]
                        worker.to, worker.pid = socket.socket(fileno=fd), pid
                        self._slot_of[fd] = slot
                        self._poller.register(fd, select.EPOLLIN)
                        for task in worker.asked:
                            self._send(worker.to, task)
                    case (Ended(slot=slot, how=how), _):
                        self._ended(slot, how)
                    case _:
                        print(
                            "warren: the parent of the input's workers has ended", file=sys.stderr
                        )
                        self._poller.unregister(self._control)
                        self._lost = True
                        return

    def _hear_worker(self, slot: int) -> None:
        """Read what a worker has sent, up to its end if it has ended."""
        worker = self._workers[slot]
        assert worker.to is not None
        with suppress(BlockingIOError):
            while True:
                match receive(worker.to, socket.MSG_DONTWAIT):
                    case (Built(task=task), [fd]):
                        if task in self._samples and task not in self._ready:
                            self._ready[task] = load(fd)
                        else:
                            os.close(fd)
                        worker.asked.remove(task)
                    case (Failed(task=task) as failed, _):
                        if task in self._samples:
                            self._failed[task] = failed
                        worker.asked.remove(task)
                    case _:
                        # Its parent says how it has ended.
                        del self._slot_of[worker.to.fileno()]
                        self._poller.unregister(worker.to)
                        worker.to.close()
                        worker.to = None
                        return

    def _ended(self, slot: int, how: str) -> None:
        """Give the tasks of a worker that has ended to others."""
        worker = self._workers[slot]
        if worker.to is not None:
            self._hear_worker(slot)
        tasks = [one for one in worker.asked if one in self._samples]
        first = worker.asked[:1]
        self._workers[slot] = _Worker()
        if not tasks:
            return
        what = _place(self._items[slot])
        print(f"warren: a worker of the input ended in {what}: {how}", file=sys.stderr, flush=True)
        for task in tasks:
            if [task] == first:
                self._ends[task] = self._ends.get(task, 0) + 1
                if self._ends[task] >= _TRIES:
                    text = f"{what}: {_TRIES} worker processes ended there, the last: {how}"
                    self._failed[task] = Failed(task, "dataset()", text)
                    continue
            self._give(task)

    def _end_slow(self, task: Task) -> None:
        """End the worker that hangs, whose log then says where; refuse its batch."""
        found = [at for at, worker in enumerate(self._workers) if task in worker.asked]
        what = "a batch"
        for at in found[:1]:
            what = _place(self._items[at])
            if self._workers[at].to is not None:
                with suppress(ProcessLookupError):
                    os.kill(self._workers[at].pid, signal.SIGALRM)
        self._forget(task)
        limit = f"{self._job.task_limit_ns / 1e9:g} s (task_limit)"
        message = f"{what} did not end within its limit of {limit}; its log has where"
        raise refuse(self._job, "dataset()", message)


def _place(item: int) -> str:
    return "collate()" if item == NO_ITEM else f"sample {item}"


def _end(control: socket.socket, poller: select.epoll, workers: list[_Worker], parent: int) -> None:
    """Let the parent of workers leave, and its workers with it."""
    control.close()
    poller.close()
    for worker in workers:
        if worker.to is not None:
            worker.to.close()
    with suppress(ChildProcessError):
        os.waitpid(parent, 0)
