"""The agent of the daemon's own machine: a child that is started again when it ends."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

_FIRST_WAIT_S: Final = 0.05
_LONGEST_WAIT_S: Final = 5.0
"""Longest wait before an agent is started again, in seconds."""
_WELL_S: Final = 10.0
"""Time after which an agent that ends has run well, in seconds."""


class LocalAgent:
    """Starts the agent, and starts it again when it ends.

    Parameters
    ----------
    home
        The agent's folder.
    socket
        The daemon's socket for agents.
    name
        Name of this machine.
    say
        Called with each line that an operator should read.
    self_test
        Command that tests a GPU; None: its own.
    """

    def __init__(
        self,
        home: Path,
        socket: Path,
        name: str,
        say: Callable[[str], None],
        self_test: str | None = None,
    ) -> None:
        self._command = [
            *(sys.executable, "-P", "-m", "warren.serve.agent", "--home", str(home)),
            *("--connect", f"unix:{socket}", "--name", name),
            *(() if self_test is None else ("--self-test", self_test)),
        ]
        self._say = say
        self._process: subprocess.Popen[bytes] | None = None
        self._pidfd = -1
        self._wait_s = _FIRST_WAIT_S
        self._begun_s = 0.0
        self._later: asyncio.TimerHandle | None = None

    @property
    def pid(self) -> int | None:
        """The agent's process; None while there is none."""
        return self._process.pid if self._process is not None else None

    def start(self) -> None:
        """Start the agent; this is called in the daemon's event loop."""
        self._later = None
        loop = asyncio.get_running_loop()
        try:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, start_new_session=True
            )
        except OSError as error:
            self._say(f"the agent of this machine does not start: {error}")
            self._again(loop)
            return
        self._begun_s = time.monotonic()
        self._pidfd = os.pidfd_open(self._process.pid)
        loop.add_reader(self._pidfd, self._ended)

    def stop(self) -> None:
        """Have the agent end, and wait for it; attempts run on."""
        if self._later is not None:
            self._later.cancel()
        process = self._forget()
        if process is not None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(timeout=2)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _ended(self) -> None:
        process = self._forget()
        code = process.wait() if process is not None else 0
        if time.monotonic() - self._begun_s > _WELL_S:
            self._wait_s = _FIRST_WAIT_S
        self._say(f"the agent of this machine ended (exit code {code}); it is started again")
        self._again(asyncio.get_running_loop())

    def _again(self, loop: asyncio.AbstractEventLoop) -> None:
        self._later = loop.call_later(self._wait_s, self.start)
        self._wait_s = min(2 * self._wait_s, _LONGEST_WAIT_S)

    def _forget(self) -> subprocess.Popen[bytes] | None:
        process, self._process = self._process, None
        if process is not None:
            asyncio.get_running_loop().remove_reader(self._pidfd)
            os.close(self._pidfd)
        return process
