"""A job's parameter server: adds updates, passes barriers, hands out states.

The barrier of a round needs all updates and all commits. The step is computed as soon as the
updates are here and the next state is sent ahead, so that only a short message is left to send
when the last commit comes.
"""

from __future__ import annotations

import faulthandler
import os
import select
import time
import traceback
from pathlib import Path

import zmq

from warren.live.messages import (
    Commit,
    JobBroke,
    Open,
    Passed,
    Pull,
    Push,
    Pushed,
    RoundReport,
    ServerReady,
    State,
)
from warren.live.processes import direct_output, set_name, sleep_until
from warren.live.roles import Role, ServerRole
from warren.live.trainer import one_line
from warren.live.training import numerics
from warren.live.training.load import build_app
from warren.live.training.result import RoundOutcome, TaskResult
from warren.live.training.store import ParameterStore
from warren.live.transport import Hub, Link, controller_address, server_address

_MS = 1_000_000


def main(role: Role, lifeline: int) -> None:
    """Serve one job until the zygote is gone."""
    assert isinstance(role, ServerRole)
    set_name(f"warren-serve-{role.job.index}")
    direct_output(role.log)
    faulthandler.enable()
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    control = Link(context, controller_address(role.folder))
    try:
        Server(role, lifeline, context, control).serve()
    except BaseException as error:  # user code may raise anything, SystemExit too
        traceback.print_exc()
        control.send(JobBroke(role.job.index, f"app failed in its server: {one_line(error)}"))
        wait_for_end(lifeline)


def wait_for_end(lifeline: int) -> None:
    """Stay, so that what was sent is delivered, until the controller ends this process."""
    select.select([lifeline], [], [])


def write_whole(path: str, data: bytes) -> None:
    """Write a file so that it is there whole or not at all."""
    part = Path(f"{path}.part")
    with part.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


class Server:
    """State machine of one job's rounds.

    ``store.version`` counts steps computed, ``_passed`` barriers passed; the first is ahead by
    one while commits are missing. A barrier has the time of its last commit, or of its step when
    nothing is emulated (``_real``).
    """

    def __init__(
        self,
        role: ServerRole,
        lifeline: int,
        context: zmq.Context[zmq.Socket[bytes]],
        control: Link,
    ) -> None:
        self._role, self._lifeline, self._control = role, lifeline, control
        self._job = role.job
        self._store = ParameterStore(build_app(role.job, role.base), role.job)
        if role.rehearse:
            self._store.warm()
        self._hub = Hub(context, server_address(role.folder, role.job.index))
        self._opens_ns: int | None = None
        self._passed = -1
        self._outcome: RoundOutcome | None = None
        self._sha256 = ""
        self._commits: set[int] = set()
        self._barrier_ns = 0
        self._real = False
        self._parked: list[tuple[bytes, int]] = []
        self._ahead: list[bytes] = []

    def serve(self) -> None:
        """Turn until the zygote closes the lifeline."""
        poller = zmq.Poller()
        for source in (self._hub.socket, self._control.socket, self._lifeline):
            poller.register(source, zmq.POLLIN)
        self._control.send(ServerReady(self._job.index))
        while True:
            ready = poller.poll(self._timeout_ms())
            if any(source == self._lifeline for source, _ in ready):
                return
            for message, _ in self._control.drain():
                assert isinstance(message, Open)
                self._opens_ns = message.at_ns
            self._open()
            self._hear()
            self._pass_barrier()
            self._answer_pulls()

    def _timeout_ms(self) -> int | None:
        if self._passed >= 0 or self._opens_ns is None:
            return None
        left_ns = self._opens_ns - time.monotonic_ns()
        if left_ns < _MS:
            sleep_until(self._opens_ns)
        return max(0, left_ns // _MS)

    def _open(self) -> None:
        if self._passed < 0 and self._opens_ns is not None:
            if time.monotonic_ns() < self._opens_ns:
                return
            self._passed, self._barrier_ns = 0, self._opens_ns
            self._release()

    def _hear(self) -> None:
        """Take everything that is here; updates before pulls, so that rounds end early."""
        for peer, message, buffers in self._hub.drain():
            match message:
                case Pull(round=round_no):
                    self._parked.append((peer, round_no))
                case Push():
                    self._take(peer, message, buffers)
                case Commit(round=round_no, shard=shard, at_ns=at_ns):
                    if round_no == self._passed:
                        self._commits.add(shard)
                        self._barrier_ns = max(self._barrier_ns, at_ns)
                case _:
                    raise ValueError(f"an executor does not send {message}")

    def _take(self, peer: bytes, push: Push, buffers: list[memoryview]) -> None:
        if push.round == self._store.version:
            result = TaskResult(
                loss=push.loss, update=buffers[0], present=bytes(buffers[1]), sha=push.sha
            )
            self._store.add(push.shard, result)
            if push.committed:
                self._commits.add(push.shard)
                self._real = True
        self._hub.send(peer, Pushed(push.round, push.shard))

    def _pass_barrier(self) -> None:
        if self._outcome is None and self._store.complete:
            numerics.pin()
            self._outcome = self._store.step()
            if self._real:
                self._barrier_ns = max(self._barrier_ns, time.monotonic_ns())
            self._ahead.clear()
            if self._outcome.finished:
                self._save()
            self._answer_pulls()
        if self._outcome is None or len(self._commits) < self._job.scale:
            return
        outcome, self._outcome = self._outcome, None
        self._passed = self._store.version
        self._commits.clear()
        self._report(outcome)
        if not outcome.finished:
            self._release()

    def _report(self, outcome: RoundOutcome) -> None:
        metrics = None if outcome.metrics is None else dict(outcome.metrics)
        self._control.send(
            RoundReport(
                self._job.index,
                outcome.round,
                outcome.loss,
                metrics,
                outcome.finished,
                self._barrier_ns,
                self._sha256,
            )
        )

    def _save(self) -> None:
        write_whole(self._role.params, self._store.save())
        self._sha256 = self._store.digest()

    def _release(self) -> None:
        """The barrier has passed: those who have the new state may use it."""
        for peer in self._ahead:
            self._hub.send(peer, Passed(self._passed, self._barrier_ns))
        self._ahead.clear()

    def _answer_pulls(self) -> None:
        """Send the newest state to all who asked for it; other pulls stay parked.

        After the last round every pull does: a policy may have assigned rounds that a stop rule
        made void.
        """
        if self._store.finished:
            return
        version = self._store.version
        asked = [peer for peer, wanted in self._parked if wanted == version]
        self._parked = [pull for pull in self._parked if pull[1] > version]
        passed_ns = self._barrier_ns if self._passed == version else None
        for peer in asked:
            self._hub.send(peer, State(version, passed_ns), self._store.state())
            if passed_ns is None:
                self._ahead.append(peer)
