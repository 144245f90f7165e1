"""The processes that build batches for a trainer: a parent of its workers, and the workers.

The parent is forked from the trainer when the app is built: it has the data set as it was built,
with the same attributes, and shares its memory. It has no CUDA context, since the trainer has none
yet then. It runs no user code and forks a worker whenever one is wanted. So a worker that ends is
replaced at any time, also when the trainer computes on a GPU and cannot be forked any more. Workers
end with their parent, and it ends with the trainer.
"""

from __future__ import annotations

import fcntl
import gc
import os
import select
import signal
import socket
import stat
import sys
import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final, Protocol, TypeAlias

import msgspec
import numpy as np
import torch

from warren.live.process.linux import (
    die_with_parent,
    how_it_ended,
    leave,
    no_more_processes,
    set_name,
)
from warren.live.training import numerics
from warren.live.training.app.app_errors import print_traceback, reason_of
from warren.live.training.input_data.batch_memory import store
from warren.live.training.input_data.input_reader import Task
from warren.model.costs import IntArray
from warren.model.errors import SpecError

MESSAGE_BYTES: Final = 1 << 16
"""Most bytes of a message; contents of batches and lists of samples travel beside it."""
_FD_BYTES: Final = 4
"""Bytes of a descriptor beside a message."""
NO_ITEM: Final = -1
"""Stands for a sample's number while a worker is in ``collate``."""


class BuildBatch(Protocol):
    """Builds the batch of a task by user code; see ``UserSamples.batch``."""

    def __call__(self, task: Task, picked: IntArray, begin: Callable[[int], None]) -> Any:
        """Return the batch; call ``begin`` before each sample."""


# Messages between a trainer, the parent of its workers, and the workers. A descriptor goes with
# ``Up`` (the trainer's end of the worker's socket), ``Ask`` (samples) and ``Built`` (the batch).


class Start(msgspec.Struct, frozen=True, tag="Start"):
    """Trainer to parent: fork the worker of a slot."""

    slot: int


class Up(msgspec.Struct, frozen=True, tag="Up"):
    """Parent to trainer: the worker of a slot has been forked."""

    slot: int
    pid: int


class Ended(msgspec.Struct, frozen=True, tag="Ended"):
    """Parent to trainer: the worker of a slot has ended, ``how`` in words."""

    slot: int
    how: str


class Ask(msgspec.Struct, frozen=True, tag="Ask"):
    """Trainer to worker: build the batch of a task."""

    task: Task


class Built(msgspec.Struct, frozen=True, tag="Built"):
    """Worker to trainer: the batch of a task."""

    task: Task


class Failed(msgspec.Struct, frozen=True, tag="Failed"):
    """Worker to trainer: user code has raised; ``field`` and ``text`` describe it."""

    task: Task
    field: str
    text: str


WorkerMessage: TypeAlias = Start | Up | Ended | Ask | Built | Failed
_DECODER: Final = msgspec.msgpack.Decoder(WorkerMessage)


def send(to: socket.socket, message: WorkerMessage, *fds: int) -> None:
    """Send a message with descriptors."""
    socket.send_fds(to, [msgspec.msgpack.encode(message)], fds)


def receive(at: socket.socket, flags: int = 0) -> tuple[WorkerMessage, list[int]] | None:
    """Return the next message and its descriptors; None: the other side has gone."""
    # Not ``recv_fds``, which takes flags and ignores them.
    try:
        data, beside, _, _ = at.recvmsg(
            MESSAGE_BYTES, socket.CMSG_LEN(_FD_BYTES), flags | socket.MSG_CMSG_CLOEXEC
        )
    except ConnectionResetError:
        return None
    fds = [int.from_bytes(one[:_FD_BYTES], sys.byteorder) for *_, one in beside]
    return (_DECODER.decode(data), fds) if data else None


def serve(
    trainer: socket.socket,
    trainer_pid: int,
    build: BuildBatch,
    items: memoryview,
    forget: list[torch.Tensor],
    cores: set[int],
) -> None:
    """Fork workers for a trainer until it has gone. Runs in a fork of the trainer.

    Parameters
    ----------
    trainer
        The socket to the trainer.
    trainer_pid
        The process of the trainer.
    build
        Builds a batch.
    items
        For each slot the sample that its worker is at, shared with the trainer.
    forget
        Tensors of the model: a worker has none of the states of rounds, so it has no model.
    cores
        The cores on which workers may run.
    """
    set_name("warren-inputs")
    die_with_parent(trainer_pid)
    with suppress(OSError):
        os.sched_setaffinity(0, cores)
    for tensor in forget:
        tensor.data = torch.empty(0, dtype=tensor.dtype)
    # Collections in workers do not write to pages that all of them share.
    gc.freeze()
    wake_read, wake_write = os.pipe()
    for fd in (wake_read, wake_write):
        os.set_blocking(fd, False)
    signal.set_wakeup_fd(wake_write)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    poller = select.poll()
    poller.register(trainer, select.POLLIN)
    poller.register(wake_read, select.POLLIN)
    slots: dict[int, int] = {}
    while True:
        ready = {fd for fd, _ in poller.poll()}
        if wake_read in ready:
            with suppress(BlockingIOError):
                os.read(wake_read, 4096)
            for slot, how in _reaped(slots):
                send(trainer, Ended(slot, how))
        if trainer.fileno() in ready:
            match receive(trainer):
                case (Start(slot=slot), _):
                    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                    try:
                        pid = _forked(theirs, build, items[slot : slot + 1], (trainer, ours))
                    except BlockingIOError:
                        send(trainer, Ended(slot, no_more_processes()))
                    else:
                        slots[pid] = slot
                        send(trainer, Up(slot, pid), ours.fileno())
                    ours.close()
                    theirs.close()
                case _:
                    return


def _reaped(slots: dict[int, int]) -> list[tuple[int, str]]:
    """Reap all children that have ended; return their slots and ends."""
    found = []
    with suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                break
            if pid in slots:
                found.append((slots.pop(pid), how_it_ended(status) or "exit status 0"))
    return found


def _forked(
    trainer: socket.socket, build: BuildBatch, at: memoryview, others: Iterable[socket.socket]
) -> int:
    """Fork a worker, which closes the other sockets; return its process id."""
    parent = os.getpid()
    if pid := os.fork():
        return pid
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        die_with_parent(parent)
        for other in others:
            other.close()
        set_name("warren-input")
        _work(trainer, build, at)
        code = 0
    except BrokenPipeError:  # the trainer has gone
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        flush()
        leave(code)


def _work(trainer: socket.socket, build: BuildBatch, at: memoryview) -> None:
    """Build batches on request, one after another."""
    _own_positions()
    numerics.pin()

    def begin(item: int) -> None:
        """Tell the trainer where this process is."""
        at[0] = item

    while (asked := receive(trainer)) is not None:
        message, (samples,) = asked
        assert isinstance(message, Ask)
        with open(samples, "rb") as file:
            file.seek(0)
            picked = np.frombuffer(file.read(), dtype=np.int64)
        begin(int(picked[0]))
        try:
            fd = store(build(message.task, picked, begin))
        except BaseException as error:  # user code may raise anything, SystemExit too
            item = int(at[0])
            where = "collate()" if item == NO_ITEM else f"sample {item}"
            print(f"{where} of round {message.task[0]}, task {message.task[1]}:", file=sys.stderr)
            print_traceback(error)
            send(trainer, _failed(message.task, item, error))
        else:
            send(trainer, Built(message.task), fd)
            os.close(fd)
        flush()
        numerics.pin()  # user code may change any setting


def _failed(task: Task, item: int, error: BaseException) -> Failed:
    if isinstance(error, SpecError):
        return Failed(task, error.problems[0].field, error.problems[0].message)
    if item == NO_ITEM:
        return Failed(task, "collate()", reason_of(error))
    return Failed(task, "dataset()", f"sample {item}: {reason_of(error)}")


def _own_positions() -> None:
    """Open files that the trainer has open for reading once more, at the same place.

    A fork shares the place in a file: workers that seek and read would disturb each other.
    """
    for name in os.listdir("/proc/self/fd"):
        fd = int(name)
        with suppress(OSError):
            flags = fcntl.fcntl(fd, fcntl.F_GETFL)
            if flags & os.O_ACCMODE == os.O_RDONLY and stat.S_ISREG(os.fstat(fd).st_mode):
                own = os.open(f"/proc/self/fd/{fd}", flags | os.O_CLOEXEC)
                os.lseek(own, os.lseek(fd, 0, os.SEEK_CUR), os.SEEK_SET)
                os.dup2(own, fd, inheritable=False)
                os.close(own)


def flush() -> None:
    """Write what was printed to the log."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
