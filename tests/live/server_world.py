"""A real first server of a job; the test plays its partners, its executors and the controller."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Final

import pytest
from device_world import Peer
from processes import PATIENCE_S

from warren.live.process.specs import ServerRole
from warren.live.server import server
from warren.live.server.process import serve_alone
from warren.live.server.server import Server
from warren.live.training.app.app_loader import build_app
from warren.live.training.block_ownership import ranges_of, static_owners
from warren.live.training.parameter_store import ParameterStore
from warren.live.training.task_runner import TaskRunner
from warren.live.transport.message import TaskStamp
from warren.live.transport.server_messages import Open, PartDone, Push, RoundReport, ServerReady
from warren.live.transport.sockets import Hub, Link, controller_address, server_address
from warren.model.job import Job

PARTS: Final = 2


class ServerStage:
    """The first of two servers of a job of one task a round. ``second`` speaks for the other."""

    def __init__(self, folder: str, base: Path, job: Job) -> None:
        self.controller, self.store = Peer(Hub(controller_address(folder))), base / "store"
        self._read, self._write = os.pipe()
        role = ServerRole(
            folder=folder, base=str(base), job=job, log="", params=str(base / "params"),
            store=str(self.store), tmp="", part=0, homes=(0,) * PARTS, generation=0, round=0,
        )  # fmt: skip
        self._control = Link(controller_address(folder))
        self._server = Server(role, self._read, self._control)
        self._thread = threading.Thread(
            target=serve_alone, args=(self._server, self._read), daemon=True
        )
        self._thread.start()
        self.controller.hear(ServerReady)
        address = server_address(folder, 0, 0, 0)
        self.second, self._executor = Peer(Link(address)), Peer(Link(address))
        self._peers = [self.controller, self.second, self._executor]
        self.second.say(PartDone(1, -1))
        self.controller.say(Open(1))
        app = build_app(job, str(base))
        self._runner = TaskRunner(app, job)
        layout = self._runner.layout
        self._state = b"".join(map(bytes, ParameterStore(app, job).state()))
        self._own = ranges_of(layout, static_owners(layout, PARTS), 0)

    def compute(self, round_no: int) -> None:
        """The task of a round is done, and the other server has made its step."""
        update = bytearray(len(self._state))
        done = self._runner.run(self._state, round_no, 0, update)
        what = round_no, 0, done.loss, done.present, done.marks, True, TaskStamp(0, 1, 2, 3)
        self._executor.say(Push(*what), *(bytes(update[a:b]) for a, b in self._own))
        self.second.say(PartDone(1, round_no))

    def passed(self, round_no: int) -> bool:
        """Whether the barrier of this round, which is the next, is told of."""
        report: RoundReport = self.controller.hear(RoundReport)
        return report.round == round_no

    def close(self) -> None:
        """End it."""
        os.close(self._write)
        self._thread.join(PATIENCE_S)
        os.close(self._read)
        for end in (self._server._hub, self._server._marks, self._control, *self._peers):
            end.close()


@contextmanager
def first_server(base: Path, job: Job, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServerStage]:
    """It serves in a thread, so nothing limits the time of its barriers."""
    endless = SimpleNamespace(within=lambda _: nullcontext())
    monkeypatch.setattr(server, "Alarm", lambda: endless)
    with TemporaryDirectory(prefix="warren-stage-", dir="/tmp") as folder:
        stage = ServerStage(folder, base, job)
        try:
            yield stage
        finally:
            stage.close()
