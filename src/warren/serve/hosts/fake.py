"""Hosts without processes: all that agents do, on paper, in the time of the event loop.

A loop whose time is played (``warren.serve.hosts.played_time``) makes days of a queue take
seconds. Hosts keep running when the daemon is gone, as agents do. They get lost and come back,
and their reports come late and twice, as the seed says.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Final

import msgspec

from warren.serve.hosts.port import (
    AgentJoined,
    AgentLost,
    CommandEnded,
    CommandStarted,
    DeviceTested,
    Report,
    StartOrder,
)
from warren.serve.records.jobs import EndCause
from warren.serve.records.machines import HostDevice, Machine

_REPEAT_S: Final = 2.0
"""Time after which the end of an attempt is reported again until it is forgotten, in seconds."""
_TEST_S: Final = 5.0
"""Time that the test of a GPU takes, in seconds."""
_BY_SIGNAL: Final = ("cancel", "time", "preempt")
"""Causes of ends that a signal has asked for."""


class Played(msgspec.Struct, frozen=True):
    """What a command would do: it runs for ``duration_s`` and leaves with ``exit_code``.

    After a signal it runs on for ``stop_s``, or until its grace is over. Then it leaves with
    ``stop_code``; None: by the signal. A preempted one has saved, or lost ``lost_s`` seconds.
    """

    duration_s: float
    exit_code: int = 0
    stop_s: float = 0.0
    stop_code: int | None = None
    lost_s: float | None = None


class Trouble(msgspec.Struct, frozen=True):
    """How bad connections are.

    ``delay_s`` is the longest way of a message; those of a host stay in order. ``repeated`` is the
    share of reports that come twice.
    """

    delay_s: float = 0.0
    repeated: float = 0.0


@dataclass(slots=True)
class _Run:
    """An attempt on its host; ``end`` is there from its end until it is forgotten."""

    order: StartOrder
    played: Played
    timer: asyncio.TimerHandle | None = None
    started: CommandStarted | None = None
    end: CommandEnded | None = None
    stopping: bool = False


@dataclass(slots=True)
class _Host:
    """A machine. ``link`` counts connections: what an earlier one had on its way never comes."""

    machine: Machine
    up: bool = True
    link: int = 0
    free_at: float = 0.0
    runs: dict[str, _Run] = field(default_factory=dict)


class FakeHosts:
    """The port to hosts that start no process.

    Parameters
    ----------
    machines
        The hosts.
    plays
        Returns what the command of an order would do.
    trouble
        How bad connections are.
    seed
        Of the drawn delays and repetitions.
    now_ns
        The clock of the reports, in nanoseconds since 1970.

    ``starts`` names each attempt as often as its command was started, ``clashes`` each attempt
    that was given a device of a running attempt. ``tested`` has each device as often as it was
    tested; ``faulty`` says of a device why it does not pass, or None: it cannot be tested.
    """

    def __init__(
        self,
        machines: Iterable[Machine],
        plays: Callable[[StartOrder], Played],
        *,
        trouble: Trouble = Trouble(),  # noqa: B008 - a frozen value
        seed: int = 0,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self.starts: list[str] = []
        self.clashes: list[str] = []
        self.tested: list[str] = []
        self.faulty: dict[str, str | None] = {}
        self._hosts = {machine.name: _Host(machine) for machine in machines}
        self._plays = plays
        self._trouble = trouble
        self._random = Random(seed)  # noqa: S311
        self._now_ns = now_ns
        self._report: Callable[[Report], None] | None = None
        self._boots = 0

    async def open(self, report: Callable[[Report], None]) -> None:
        """Connect all hosts that are up."""
        self._report = report
        for host in self._hosts.values():
            if host.up:
                self._connect(host)

    async def close(self) -> None:
        """End the connections; attempts run on."""
        self.cut()

    def cut(self) -> None:
        """End the connections at once, as a daemon that is killed does."""
        self._report = None
        for host in self._hosts.values():
            host.link += 1

    def start(self, host: str, order: StartOrder) -> None:
        """Have a host start an attempt."""
        self._send(host, lambda it: self._begin(it, order))

    def stop(self, host: str, attempt: str, grace_s: float, *, preempt: bool = False) -> None:
        """Have a host end an attempt."""
        self._send(host, lambda it: self._stop(it, attempt, grace_s, preempt))

    def test(self, host: str, device: str) -> None:
        """Have a host test a GPU; the answer comes some seconds later."""
        self.tested.append(device)
        text = self.faulty.get(device, "")
        passed = None if text is None else not text
        answer = DeviceTested(host, device, passed, text or "")

        def begin(it: _Host) -> None:
            asyncio.get_running_loop().call_later(_TEST_S, lambda: self._tell(it, answer))

        self._send(host, begin)

    def forget(self, host: str, attempt: str) -> None:
        """Let a host forget an attempt that has ended."""
        self._send(host, lambda it: self._forget(it, attempt))

    async def read_log(self, host: str, attempt: str, offset: int, limit: int) -> bytes:
        """Return part of a line that names the attempt: what its command would have written."""
        return f"output of {attempt} on {host}\n".encode()[offset : offset + limit]

    def lose(self, host: str) -> None:
        """Take a host's connection away; its attempts run on."""
        it = self._hosts[host]
        if it.up:
            it.up = False
            it.link += 1
            if self._report is not None:
                self._report(AgentLost(host=host, reason="its connection is gone"))

    def bring_back(self, host: str) -> None:
        """Connect a lost host again."""
        it = self._hosts[host]
        if not it.up:
            it.up = True
            self._connect(it)

    def restart(self, host: str) -> None:
        """Start a machine again: all that runs on it is gone; it stays lost until brought back."""
        self.lose(host)
        it = self._hosts[host]
        self._boots += 1
        it.machine = msgspec.structs.replace(it.machine, boot_id=f"boot {self._boots}")
        for run in it.runs.values():
            if run.end is None:
                self._end(it, run, "host", reason="its machine started again")

    @property
    def running(self) -> list[str]:
        """The attempts that run now, by host."""
        return [
            name
            for host in self._hosts.values()
            for name, run in host.runs.items()
            if run.end is None
        ]

    @property
    def known(self) -> list[str]:
        """The attempts that hosts have a record of, by host."""
        return [name for host in self._hosts.values() for name in host.runs]

    def _connect(self, host: _Host) -> None:
        """Say that a host is there, and report again all that it may not forget."""
        if self._report is None:
            return
        host.link += 1
        host.free_at = 0.0
        self._tell(host, AgentJoined(machine=host.machine, attempts=tuple(host.runs)))
        for run in host.runs.values():
            if run.started is not None:
                self._tell(host, run.started)
            if run.end is not None:
                self._tell_end(host, run)

    def _send(self, name: str, act: Callable[[_Host], None]) -> None:
        """Let an order arrive, unless its connection ends before."""
        host = self._hosts[name]
        if host.up and self._report is not None:
            self._deliver(host, lambda: act(host))

    def _tell(self, host: _Host, report: Report) -> None:
        """Let a report arrive, perhaps twice, unless its connection ends before."""
        if not host.up or self._report is None:
            return
        taken = self._report
        self._deliver(host, lambda: taken(report))
        if self._trouble.repeated and self._random.random() < self._trouble.repeated:
            self._deliver(host, lambda: taken(report))

    def _tell_end(self, host: _Host, run: _Run) -> None:
        """Report an end, and again while it may not be forgotten and the connection lasts."""
        if run.end is None or run.order.attempt not in host.runs:
            return
        self._tell(host, run.end)
        if host.up and self._report is not None:
            link = host.link
            asyncio.get_running_loop().call_later(
                _REPEAT_S, lambda: self._tell_end(host, run) if host.link == link else None
            )

    def _deliver(self, host: _Host, act: Callable[[], None]) -> None:
        """Call ``act`` after the way of a message; messages of a host stay in order."""
        loop, link = asyncio.get_running_loop(), host.link

        def arrive() -> None:
            if host.link == link:
                act()

        if not self._trouble.delay_s:
            loop.call_soon(arrive)
            return
        way_s = self._random.random() * self._trouble.delay_s
        host.free_at = max(loop.time() + way_s, host.free_at + 1e-6)
        loop.call_at(host.free_at, arrive)

    def _begin(self, host: _Host, order: StartOrder) -> None:
        """Start an attempt, unless the host has its name already."""
        if order.attempt in host.runs:
            return
        busy = {
            device for run in host.runs.values() if run.end is None for device in run.order.devices
        }
        if busy & set(order.devices):
            self.clashes.append(order.attempt)
        self.starts.append(order.attempt)
        run = _Run(order, self._plays(order))
        host.runs[order.attempt] = run
        run.started = CommandStarted(
            host=host.machine.name, attempt=order.attempt, time_ns=self._now_ns()
        )
        self._tell(host, run.started)
        after_s = run.played.duration_s
        cause: EndCause = "exit"
        if order.time_limit_s is not None and order.time_limit_s < after_s:
            after_s, cause = order.time_limit_s, "time"
        self._end_later(host, run, after_s, cause)

    def _stop(self, host: _Host, attempt: str, grace_s: float, preempt: bool) -> None:
        """Have an attempt end, at the latest after its grace; a preemption asks once."""
        run = host.runs.get(attempt)
        if run is not None and run.end is None and not (preempt and run.stopping):
            run.stopping = True
            after_s = min(grace_s, run.played.stop_s)
            self._end_later(host, run, after_s, "preempt" if preempt else "cancel")

    def _end_later(self, host: _Host, run: _Run, after_s: float, cause: EndCause) -> None:
        if run.timer is not None:
            run.timer.cancel()
        loop = asyncio.get_running_loop()
        run.timer = loop.call_later(after_s, lambda: self._end(host, run, cause))

    def _end(self, host: _Host, run: _Run, cause: EndCause, reason: str = "") -> None:
        """Note the end of an attempt, and report it."""
        if run.timer is not None:
            run.timer.cancel()
        played = run.played
        code = played.exit_code if cause == "exit" else None
        if cause in _BY_SIGNAL:
            code = played.stop_code
        run.end = CommandEnded(
            host=host.machine.name,
            attempt=run.order.attempt,
            time_ns=self._now_ns(),
            cause=cause,
            exit_code=code,
            signal=15 if cause in _BY_SIGNAL and code is None else None,
            reason=reason,
            saved=played.lost_s is None if cause == "preempt" else None,
            save_s=played.stop_s if cause == "preempt" and played.lost_s is None else None,
            lost_s=played.lost_s if cause == "preempt" else None,
        )
        self._tell_end(host, run)

    def _forget(self, host: _Host, attempt: str) -> None:
        """Delete the record of an attempt that has ended."""
        run = host.runs.get(attempt)
        if run is not None and run.end is not None:
            del host.runs[attempt]


def fake_machine(name: str, devices: int, type_name: str = "FAKE") -> Machine:
    """Return a host with GPUs of one type that are not there."""
    made = tuple(HostDevice(f"GPU-{name}-{i}", "gpu", type_name, 80 << 30) for i in range(devices))
    return Machine(
        name=name,
        devices=made,
        boot_id="boot 0",
        processors=devices,
        memory_bytes=1 << 40,
        limits="rlimit",
        version="0",
    )
