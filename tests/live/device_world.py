"""A real executor, and all it talks to played by the test: controller, servers and trainers."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import TypeVar

from live_worlds import virtual
from processes import PATIENCE_S

from warren.live.device.executor import Executor
from warren.live.emulated_times import Pads, PadTable
from warren.live.process.specs import ExecutorRole
from warren.live.transport.message import TaskStamp
from warren.live.transport.messages import (
    AnyMessage,
    Assign,
    ExecutorReady,
    Prepared,
    TrainerReady,
    Verify,
)
from warren.live.transport.ring_messages import AssignRank, RankReady
from warren.live.transport.server_messages import Pull, StateSent
from warren.live.transport.sockets import (
    Hub,
    Link,
    Poller,
    controller_address,
    executor_address,
    server_address,
)
from warren.model.job import Job

SIZE = 8
_M = TypeVar("_M")


class Peer:
    """One that talks to the executor; ``said`` are messages it got and was not asked for."""

    def __init__(self, end: Hub | Link) -> None:
        self.end, self.said, self._id = end, [], b""  # type: ignore[var-annotated]
        self._poller = Poller()
        self._poller.register(end)

    def hear(self, kind: type[_M]) -> _M:
        """The next message of a type; others before it are forgotten."""
        end_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < end_s:
            self._take(50)
            while self.said:
                message = self.said.pop(0)
                if isinstance(message, kind):
                    return message
        raise AssertionError(f"no {kind.__name__} came")

    def hears_none(self, kind: type[AnyMessage], within_s: float = 0.1) -> bool:
        """Whether no message of a type comes for a while."""
        end_s = time.monotonic() + within_s
        while time.monotonic() < end_s:
            self._take(10)
        return not any(isinstance(message, kind) for message in self.said)

    def say(self, message: AnyMessage, *buffers: bytes) -> None:
        """Send to the executor."""
        if isinstance(self.end, Link):
            self.end.send(message, *buffers)
        else:
            assert self.end.send(self._id, message, *buffers)

    def close(self) -> None:
        """Say no more."""
        self.end.close()
        self._poller.close()

    def _take(self, timeout_ms: int) -> None:
        self._poller.poll(timeout_ms)
        if isinstance(self.end, Link):
            self.said += [message for message, _ in self.end.drain()]
            return
        for peer, message, _ in self.end.drain():
            self._id = peer
            self.said.append(message)


class Stage:
    """An executor at work, emulated if it has ``pads``; ``servers`` are those of job 0."""

    def __init__(
        self,
        folder: str,
        jobs: tuple[Job, ...],
        servers: int,
        verify: float,
        pads: PadTable | None = None,
        gpu: int | None = None,
        spill: bool = False,
    ) -> None:
        self._folder, self._jobs, self._servers = folder, jobs, servers
        self.controller = Peer(Hub(controller_address(folder)))
        addresses = [server_address(folder, 0, 0, part) for part in range(servers)]
        self.servers = [Peer(Hub(address)) for address in addresses]
        self._trainers: list[Peer] = []
        self._others: list[Peer] = []
        self._read, self._write = os.pipe()
        pads = pads or Pads(*virtual(jobs, 1)).table(0)
        role = ExecutorRole(
            device=0,
            incarnation=0,
            folder=folder,
            log="",
            pads=pads,
            look_ahead=1,
            verify=verify,
            gpu=gpu,
            spill=spill,
        )
        self._executor = Executor(role, self._read)
        self._thread = threading.Thread(target=self._executor.serve, daemon=True)
        self._thread.start()
        self.controller.hear(ExecutorReady)

    def server_of(self, job: int) -> Peer:
        """The only server of another job."""
        peer = Peer(Hub(server_address(self._folder, job, 0, 0)))
        self._others.append(peer)
        return peer

    def trainer(self, pid: int, job: int = 0, *, verifies: bool = False) -> Peer:
        """A trainer comes and builds its app."""
        peer = self.building_trainer(pid, job, verifies=verifies)
        peer.say(Prepared(job))
        return peer

    def building_trainer(self, pid: int, job: int = 0, *, verifies: bool = False) -> Peer:
        """A trainer comes, and builds its app for now."""
        peer = Peer(Link(executor_address(self._folder, 0, 0)))
        self._trainers.append(peer)
        if verifies:
            self.controller.say(Verify(job))
        peer.say(TrainerReady(job, pid, verifies))
        return peer

    def rank(self, said: RankReady) -> Peer:
        """A rank of a ring comes."""
        peer = Peer(Link(executor_address(self._folder, 0, 0)))
        self._trainers.append(peer)
        peer.say(said)
        return peer

    def assign_rank(self, seq: int, job: int, round_no: int, incarnation: int) -> None:
        """One round of a ring, for the rank of a gang."""
        limit_ns = self._jobs[job].task_limit_ns
        what = Assign(seq, job, round_no, 1, (0,), 0, 0, (), limit_ns, ring=True)
        self.controller.say(what)
        self.controller.say(AssignRank(job, round_no, incarnation, 0))

    def assign(
        self, seq: int, job: int, round_no: int, shards: tuple[int, ...], *, copy: bool = False
    ) -> None:
        """One round of a job's tasks; ``copy``: they are under way elsewhere."""
        one = self._jobs[job]
        limit_ns = one.task_limit_ns
        what = Assign(seq, job, round_no, 1, shards, 0, 0, (0,) * self._servers, limit_ns, copy)
        self.controller.say(what)

    def answer(self, server: Peer, round_no: int) -> None:
        """The only server of a job answers a pull."""
        assert server.hear(Pull).round == round_no
        server.say(StateSent(round_no, 1, SIZE, ((0, SIZE),)), bytes(SIZE))

    def state(
        self, round_no: int, done: tuple[TaskStamp, ...] = (), *have: tuple[int, ...]
    ) -> None:
        """All servers answer a pull; ``have``: of each but the first, the updates it has."""
        size = SIZE // self._servers
        for part, server in enumerate(self.servers):
            assert server.hear(Pull).round == round_no
            ranges = ((part * size, (part + 1) * size),)
            since_ns = None if part else 1
            first = (round_no, since_ns, SIZE, ranges)
            state = StateSent(*first, (), have[part - 1]) if part else StateSent(*first, done)
            server.say(state, bytes(size))

    def close(self) -> None:
        """End it."""
        os.close(self._write)
        self._thread.join(PATIENCE_S)
        os.close(self._read)
        inside = self._executor
        for job in range(len(self._jobs)):
            inside._client.drop(job, ended=True)
        for end in (inside._control, inside._trainers, inside._poller):
            end.close()
        for peer in (self.controller, *self.servers, *self._others, *self._trainers):
            peer.close()


@contextmanager
def stage(
    *jobs: Job,
    servers: int = 1,
    verify: float = 0.0,
    pads: PadTable | None = None,
    gpu: int | None = None,
    spill: bool = False,
) -> Iterator[Stage]:
    """An executor that works for these jobs; ``gpu``: its trainers say that they compute there.

    ``spill``: they read their data ahead.
    """
    with TemporaryDirectory(prefix="warren-stage-", dir="/tmp") as folder:
        one = Stage(folder, jobs, servers, verify, pads, gpu, spill)
        try:
            yield one
        finally:
            one.close()
