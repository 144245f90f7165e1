"""One run that is struck again and again, and goes on each time until it has finished."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import _disturb
import _processes
from _struck_plan import ENDS, Strike

ATTEMPTS: Final = 10
END_S: Final = 60.0
CLEAN_S: Final = 10.0
_STEP_S: Final = 0.005
_FIND_S: Final = 0.3
"""How long to look for a process of the kind that was drawn, before an executor is taken."""


@dataclass(slots=True, kw_only=True)
class Struck:
    """What became of a run; ``wrong`` is empty if it finished by itself."""

    strikes: list[dict[str, object]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    resumed: int = 0
    again: int = 0


def run_struck(run: Path, out: Path, own: Path, strikes: Sequence[Strike]) -> Struck:
    """Run, strike, and resume until it is done; ``own`` is its folder for temporary files."""
    told, left = Struck(), list(strikes)
    errors = out.with_suffix(".err")
    for _ in range(ATTEMPTS):
        resumes = all((out / name).exists() for name in _disturb.BEGUN)
        what = ["--resume", str(out)] if resumes else [str(run), "--out", str(out)]
        if not resumes:
            shutil.rmtree(out, ignore_errors=True)
        with errors.open("a") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "warren", "run", *what, "--no-history"],
                env=os.environ | {"TMPDIR": str(own)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=file,
            )
        told.resumed += resumes
        told.again += 1
        struck = Attempt(process, own, "resume" if resumes else "start").strike(left)
        told.strikes += struck
        code, there = _wait(process, own)
        if code == 0:
            return told
        if code is None:
            told.wrong.append(f"still ran {END_S:g} s after the last strike: {there}")
            return told
        if not any(one["kind"] in ENDS for one in struck):
            told.wrong.append(f"exit code {code}: {errors.read_text()[-800:]}")
            return told
    told.wrong.append(f"not finished after {ATTEMPTS} attempts: {errors.read_text()[-800:]}")
    return told


class Attempt:
    """One command, from its start to its end; its processes are found by what they inherit."""

    def __init__(self, process: subprocess.Popen[bytes], own: Path, phase: str) -> None:
        self._process, self._own, self._phase = process, own, phase
        self._begun = time.monotonic()

    def strike(self, left: list[Strike]) -> list[dict[str, object]]:
        """Take strikes from the front of ``left`` until the command ends; gives those made."""
        made: list[dict[str, object]] = []
        while left and self._await(left[0]):
            strike = left.pop(0)
            victim = self._send(strike)
            if victim:
                made.append(
                    {
                        "kind": _processes.kind_of(victim),
                        "victim": victim,
                        "signal": strike.signum.name,
                        "when": self._phase if strike.early else "training",
                        "at_s": round(time.monotonic() - self._begun, 2),
                    }
                )
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(0.05)  # what was to end by this has
        return made

    def _await(self, strike: Strike) -> bool:
        """Wait for the moment of a strike; False: the command ended before."""
        known = strike.kind if strike.early else "executor"
        while not _processes.of_kind(self._names(), known):
            if not self._sleep(0.02) or time.monotonic() > self._begun + END_S:
                return False  # it hangs, or there never is such a process
        return self._sleep(strike.delay_s)

    def _sleep(self, seconds: float) -> bool:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(max(seconds, _STEP_S))
        return self._process.poll() is None

    def _send(self, strike: Strike) -> str:
        """Send the signal, and SIGCONT after a stop; gives the name of who got it."""
        end = time.monotonic() + _FIND_S
        while not (pids := _processes.of_kind(names := self._names(), strike.kind)):
            if not self._sleep(0.01) or time.monotonic() > end:
                break
        pids = pids or _processes.of_kind(names, "executor") or [self._process.pid]
        pid = pids[strike.draw % len(pids)]
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, strike.signum)
            if strike.signum == signal.SIGSTOP:
                time.sleep(strike.pause_s)
                os.kill(pid, signal.SIGCONT)
            return names[pid]
        return ""

    def _names(self) -> dict[int, str]:
        """Processes of this command: a controller that was killed may have left some."""
        mark = _processes.mark_of(self._process.pid)
        children = _processes.marked(mark) if mark else {}
        guards = dict.fromkeys(_processes.guards(self._process.pid), "guard")
        return {self._process.pid: "controller"} | guards | children


def _wait(process: subprocess.Popen[bytes], own: Path) -> tuple[int | None, list[str]]:
    """Its exit code; None: it hangs, and is ended, with the processes that were there then."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        return process.wait(END_S), []
    there = sorted(_alive(own).values())
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(CLEAN_S)
    process.kill()
    process.wait()
    return None, there


def left_by(own: Path) -> list[str]:
    """Processes and files of a run that are there ``CLEAN_S`` after its end; all are removed."""
    end = time.monotonic() + CLEAN_S
    while (_alive(own) or _files(own)) and time.monotonic() < end:
        time.sleep(0.05)
    alive = _alive(own)
    for pid in alive:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return [f"process {name}" for name in alive.values()] + _files(own)


def _alive(own: Path) -> dict[int, str]:
    guards = dict.fromkeys(_processes.guards_of(own), "guard")
    return _processes.with_entry(f"TMPDIR={own}".encode()) | guards


def _files(own: Path) -> list[str]:
    walked = os.walk(own)
    return [os.path.join(at, name) for at, folders, files in walked for name in folders + files]
