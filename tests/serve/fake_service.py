"""A daemon over fake hosts in played time, for tests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

from warren.serve.daemon.daemon import Daemon
from warren.serve.hosts.fake import FakeHosts, Played, fake_machine
from warren.serve.hosts.played_time import PlayedTimeLoop
from warren.serve.hosts.port import StartOrder
from warren.serve.journal.journal import Journal, JournalWriteError
from warren.serve.queue.requests import cancel, submit
from warren.serve.records.events import AnyEvent
from warren.serve.records.jobs import CommandSpec, ServiceJob, Submission
from warren.serve.records.users import Caller

ANA = Caller("ana")
ADMIN = Caller("root", "admin")

T = TypeVar("T")


class TestJournal(Journal):
    """A journal without syncs, whose disk can be full. ``asked`` counts calls of ``append``."""

    __test__ = False

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._db.execute("PRAGMA synchronous = OFF")
        self.full = False
        self.asked = 0

    def append(self, events: Sequence[AnyEvent]) -> None:
        self.asked += 1
        if self.full:
            raise JournalWriteError("the disk is full")
        super().append(events)


def now_ns() -> int:
    """Time of the running loop of played time."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, PlayedTimeLoop)
    return loop.now_ns()


def fake_hosts(
    count: int = 1,
    devices: int = 2,
    plays: Callable[[StartOrder], Played] = lambda _: Played(1.0),
    **more: Any,
) -> FakeHosts:
    """Hosts ``h0``, ``h1`` and so on."""
    machines = [fake_machine(f"h{i}", devices) for i in range(count)]
    return FakeHosts(machines, plays, now_ns=now_ns, **more)


def daemon_of(journal: Journal, hosts: FakeHosts, **more: Any) -> Daemon:
    return Daemon(journal, hosts, now_ns=now_ns, **more)


def submit_one(daemon: Daemon, caller: Caller = ANA, **spec: Any) -> str:
    """Submit a job, and return its id."""
    wanted = {"command": ("true",), "folder": "/", **spec}
    made = Submission(CommandSpec(**wanted))
    return daemon.ask(lambda queue, now: submit(queue, [made], caller, now)).answers[0].id


def cancel_one(daemon: Daemon, job: str, caller: Caller = ANA) -> None:
    daemon.ask(lambda queue, now: cancel(queue, [job], caller, now))


async def until(daemon: Daemon, holds: Callable[[], bool]) -> None:
    """Wait, change by change, until something holds."""
    while not holds():
        await daemon.changed.wait(daemon.changed.count)


async def all_ended(daemon: Daemon) -> list[ServiceJob]:
    await until(daemon, lambda: all(job.state.ended for job in daemon.queue.jobs.values()))
    return list(daemon.queue.jobs.values())


def play(main: Coroutine[Any, Any, T], ignore: type[BaseException] = KeyboardInterrupt) -> T:
    """Run in played time; an error in a callback of the loop is an error of the test."""
    errors: list[Any] = []

    def note(_: object, found: dict[str, Any]) -> None:
        if not isinstance(found.get("exception"), ignore):
            errors.append(found)

    async def watched() -> T:
        asyncio.get_running_loop().set_exception_handler(note)
        return await main

    with asyncio.Runner(loop_factory=PlayedTimeLoop) as runner:
        value = runner.run(watched())
    assert not errors, errors
    return value
