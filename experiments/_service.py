"""A service for the experiments: started, killed, stopped and looked at from outside."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from warren.serve.agent import processes
from warren.serve.agent.command import mark
from warren.serve.client.client import Client

PATIENCE_S = 120.0
"""Seconds after which what has not come counts as lost."""
LOOK_S = 0.005
"""Seconds between two looks at what must come or go."""
# A shell lets what it starts in the background ignore SIGINT; an experiment saves what it has then.
signal.signal(signal.SIGINT, signal.default_int_handler)


class Service:
    """``warren serve`` with a home of its own."""

    def __init__(self, home: Path, environment: dict[str, str] | None = None) -> None:
        self.home = home
        self.environment = {**os.environ, **(environment or {})}
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the daemon, and wait until it answers."""
        with open(self.home.with_suffix(".log"), "ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "warren", "serve", "--home", str(self.home)],
                env=self.environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        until(self._answers, "the service does not answer")

    def _answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.home.with_suffix(".log").read_text()
        try:
            with self.client() as client:
                client.queue(limit=1)
        except Exception:
            return False
        return True

    def client(self) -> Client:
        """A client of it."""
        return Client(str(self.home / "socket"))

    def kill(self) -> None:
        """Kill the daemon."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        """End the daemon as an operator does."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(PATIENCE_S)

    def agents(self) -> list[int]:
        """The processes of its agents; runners have the same program, and are left out."""
        assert self.process is not None
        return [
            pid
            for pid in processes.children(self.process.pid)
            if b"warren.serve.agent" in _command(pid)
        ]

    def left(self) -> list[str]:
        """What is left of jobs: their processes, and their runners."""
        attempts = f"{self.home.resolve()}/agent/attempts/"
        begin = mark(attempts)
        found = []
        agents = self.agents()
        for pid in processes.all_pids():
            with contextlib.suppress(OSError):
                variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                command = _command(pid)
                own = any(one.startswith(begin) for one in variables)
                if pid in agents:
                    continue
                if own or (str(self.home).encode() in command and b"serve.agent" in command):
                    found.append(f"{pid} {command[:80]!r}")
        return found


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def until(holds: Callable[[], bool], what: str, patience_s: float = PATIENCE_S) -> float:
    """Wait until something holds; returns how long that took, in seconds."""
    begun = time.monotonic()
    while not holds():
        if time.monotonic() - begun > patience_s:
            raise AssertionError(what)
        time.sleep(LOOK_S)
    return time.monotonic() - begun


@contextlib.contextmanager
def running(home: Path, environment: dict[str, str] | None = None) -> Iterator[Service]:
    """A service until the block ends."""
    made = Service(home, environment)
    made.start()
    try:
        yield made
    finally:
        if made.process is not None and made.process.poll() is None:
            made.end()
