"""Tests of GPUs: a command in a process of its own, which the agent's loop waits for."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from warren.serve.agent import processes
from warren.serve.agent.care.activity import Clock
from warren.serve.agent.loop import Timer

TIMEOUT_S: Final = 120.0
"""Longest time that a test may take, in seconds; a GPU that needs longer does not pass."""
UNTESTED: Final = 75
"""Exit code of a test that could not be made: EX_TEMPFAIL of <sysexits.h>."""
OFF: Final = "off"
"""What stands for no test in place of a command."""
_TEXT: Final = 200
"""Most characters of a test's last line that are reported."""
_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
_PROGRAM: Final = Path(__file__).with_name("gpu_program.py")


def command_of(text: str | None) -> tuple[str, ...]:
    """Return the command that tests a GPU; nothing where there is none.

    Parameters
    ----------
    text
        A command line that exits with 0 if a GPU passes, or ``off``. None: the program that Warren
        brings, if this Python has PyTorch.

    Raises
    ------
    ValueError
        If the text is no command line.
    """
    if text is None:
        return (sys.executable, "-I", str(_PROGRAM)) if find_spec("torch") else ()
    return () if text == OFF else tuple(shlex.split(text))


class SelfTests:
    """Tests that run, at most one a device.

    Parameters
    ----------
    loop
        The agent's loop.
    command
        The command; nothing: no device can be tested. It gets the id of the device in
        WARREN_DEVICE and CUDA_VISIBLE_DEVICES, and few other variables.
    report
        Called with a device, whether it has passed (None: it could not be tested), and why not.
    """

    def __init__(
        self,
        loop: Clock,
        command: tuple[str, ...],
        report: Callable[[str, bool | None, str], None],
    ) -> None:
        self._loop, self._command, self._report = loop, command, report
        self._running: dict[int, _Test] = {}

    @property
    def works(self) -> bool:
        """Whether devices can be tested."""
        return bool(self._command)

    @property
    def pids(self) -> frozenset[int]:
        """The processes of tests."""
        return frozenset(self._running)

    def begin(self, device: str) -> None:
        """Test a device, unless its test runs already."""
        if any(test.device == device for test in self._running.values()):
            return
        output = os.memfd_create("warren-test")
        try:
            pid = self._spawn(device, output)
        except (OSError, IndexError, ValueError) as error:
            os.close(output)
            self._report(device, None, f"the test does not start: {error}")
            return
        timer = self._loop.call_later(TIMEOUT_S, lambda: self._too_long(pid))
        self._running[pid] = _Test(device, output, timer)

    def ended(self, statuses: Mapping[int, int]) -> None:
        """Take over the wait statuses of children of the agent that have ended."""
        for pid in self._running.keys() & statuses.keys():
            test = self._running.pop(pid)
            test.timer.cancel()
            text = _last_line(test.output)
            code = os.waitstatus_to_exitcode(statuses[pid])
            if test.is_late:
                code, text = 1, f"it did not end within {TIMEOUT_S:g} s"
            elif code and not text:
                text = f"exit code {code}" if code > 0 else f"signal {-code}"
            passed = None if code == UNTESTED else code == 0
            self._report(test.device, passed, "" if passed else text)

    def close(self) -> None:
        """End all tests."""
        for pid in self._running:
            _kill(pid)

    def _spawn(self, device: str, output: int) -> int:
        kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
        return os.posix_spawnp(
            self._command[0],
            self._command,
            {
                "PATH": _PATH,
                "LANG": "C.UTF-8",
                "HOME": "/",
                "CUDA_VISIBLE_DEVICES": device,
                "WARREN_DEVICE": device,
                **kept,
            },
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, output, 1),
                (os.POSIX_SPAWN_DUP2, output, 2),
            ],
            setsid=True,
            setsigmask=(),
            setsigdef=(signal.SIGPIPE, signal.SIGXFSZ),
        )

    def _too_long(self, pid: int) -> None:
        test = self._running.get(pid)
        if test is not None:
            test.is_late = True
            _kill(pid)


class _Test:
    """A test that runs; its output is a file in memory."""

    def __init__(self, device: str, output: int, timer: Timer) -> None:
        self.device, self.output, self.timer = device, output, timer
        self.is_late = False


def _kill(pid: int) -> None:
    processes.kill_once((pid,), 0)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _last_line(output: int) -> str:
    """Return the last line of an output that is not empty, and close it."""
    try:
        size = os.fstat(output).st_size
        text = os.pread(output, 4096, max(0, size - 4096)).decode(errors="replace")
    finally:
        os.close(output)
    lines = [" ".join(line.split()) for line in text.splitlines()]
    return next((line for line in reversed(lines) if line), "")[:_TEXT]
