"""A daemon's side with one real agent, for tests that start commands."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import processes

from warren.serve.hosts.agents import AgentHosts
from warren.serve.hosts.messages import Welcome
from warren.serve.hosts.port import (
    AgentJoined,
    CommandEnded,
    CommandStarted,
    Report,
    StartOrder,
)

HOST = "here"
PYTHON = sys.executable
NOTHING_ASKED = Welcome()


class World:
    """Hosts with the agent of this machine, and all that was reported."""

    def __init__(
        self,
        home: Path,
        lost_s: float = 60.0,
        welcome: Welcome = NOTHING_ASKED,
        self_test: str | None = None,
    ) -> None:
        self.home = home
        self.reports: list[Report] = []
        self.lines: list[str] = []
        self._came = asyncio.Event()
        self.hosts = AgentHosts(
            home,
            name=HOST,
            lost_s=lost_s,
            welcome=welcome,
            self_test=self_test,
            say=self.lines.append,
        )

    async def open(self) -> None:
        await self.hosts.open(self.take)
        await self.joined(1)

    def take(self, report: Report) -> None:
        self.reports.append(report)
        self._came.set()

    async def until(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + processes.PATIENCE_S
        while not holds():
            assert time.monotonic() < deadline, f"nothing came: {self.reports}, {self.lines}"
            self._came.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._came.wait(), 0.02)

    async def joined(self, times: int) -> AgentJoined:
        def joins() -> list[AgentJoined]:
            return [one for one in self.reports if isinstance(one, AgentJoined)]

        await self.until(lambda: len(joins()) >= times)
        return joins()[-1]

    def start(self, attempt: str, *command: str, **fields: object) -> None:
        order = StartOrder(
            **{  # type: ignore[arg-type]
                "attempt": attempt,
                "command": command,
                "folder": "/",
                "environment": {"PATH": os.environ["PATH"], "MARK": str(self.home / "mark")},
                "devices": (),
                "grace_s": 0.3,
                **fields,
            }
        )
        self.hosts.start(HOST, order)

    def ends(self, attempt: str) -> list[CommandEnded]:
        return [
            one for one in self.reports if isinstance(one, CommandEnded) and one.attempt == attempt
        ]

    async def ended(self, attempt: str) -> CommandEnded:
        await self.until(lambda: bool(self.ends(attempt)))
        return self.ends(attempt)[0]

    async def started(self, attempt: str) -> None:
        def has_started() -> bool:
            return any(
                isinstance(one, CommandStarted) and one.attempt == attempt for one in self.reports
            )

        await self.until(has_started)

    async def run(self, attempt: str, *command: str, **fields: object) -> CommandEnded:
        self.start(attempt, *command, **fields)
        return await self.ended(attempt)

    async def log(self, attempt: str) -> str:
        return (await self.hosts.read_log(HOST, attempt, 0, 1 << 16)).decode()

    @property
    def agent(self) -> int:
        assert self.hosts.agent is not None
        pid = self.hosts.agent.pid
        assert pid is not None
        return pid

    def attempt_folder(self, attempt: str) -> Path:
        return self.home / "agent" / "attempts" / attempt


@contextlib.asynccontextmanager
async def world(
    home: Path,
    lost_s: float = 60.0,
    welcome: Welcome = NOTHING_ASKED,
    self_test: str | None = None,
) -> AsyncIterator[World]:
    """A world whose agent has joined; nothing of it is left afterwards."""
    processes.adopt_orphans()  # so that what a killed agent leaves is seen by the tests
    made = World(home, lost_s, welcome, self_test)
    await made.open()
    try:
        yield made
    finally:
        await made.hosts.close()


def pids_of(path: Path) -> list[int]:
    """The processes that wrote their numbers into a file."""
    return [int(word) for word in path.read_text().split()] if path.exists() else []


def living(pids: Sequence[int]) -> list[int]:
    """Those that run; what has ended and was not waited for does not count."""
    found = []
    for pid in pids:
        with contextlib.suppress(OSError):
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            if state != "Z":
                found.append(pid)
    return found
