"""One live run that loses a process at a drawn moment, and how it ended."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import _processes

import warren

RESUMED: Final = ("zygote", "controller")
"""Where a run may end by the loss of one of these, it is resumed."""
LEFT_S: Final = 10.0
HANGS: Final = 1000
"""Exit code of a run that did not end."""
_END_S: Final = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Kill a process of ``kind``; ``draw`` picks which.

    ``fraction`` is of the training time; with ``early``, of the first second after a process of
    that kind has appeared, which is before anything trains.
    """

    kind: str
    fraction: float
    draw: int
    early: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of it. ``victim``: name of the process; empty: the run ended before."""

    victim: str
    exit_code: int
    stderr: str
    left: tuple[str, ...]


def drawn(kind: str, moment: int, moments: int, *salt: object, early: bool = False) -> Fault:
    """A fault that depends on its arguments alone: in part ``moment`` of ``moments`` of the run."""
    draw = random.Random("-".join(str(one) for one in (kind, moment, *salt)))
    fraction = 0.02 + 0.93 * (moment + draw.random()) / moments
    return Fault(kind=kind, fraction=fraction, draw=draw.randrange(2**30), early=early)


def disturbed(arguments: list[str], out: Path, train_s: float, fault: Fault) -> Outcome:
    """Run the command into ``out``, kill, resume if the run ended by that, and wait for its end."""
    with out.with_suffix(".err").open("w+") as errors:
        process = _start(["run", *arguments, "--out", str(out)], errors.fileno())
        victim, mark = _strike(process, out, train_s, fault)
        code = _wait(process)
        if victim and code not in (0, HANGS) and fault.kind in RESUMED:
            resumed = _start(["run", "--resume", str(out)], errors.fileno())
            code = _wait(resumed)
        left = _processes.left_after(mark, LEFT_S) if mark else {}
        errors.seek(0)
        text = errors.read()
    return Outcome(victim=victim, exit_code=code, stderr=text, left=tuple(left.values()))


def job_of(victim: str) -> int:
    """The job that a server or a rank belongs to, by its name."""
    found = re.match(r"warren-(?:serve|rank)-(\d+)", victim)
    return int(found[1]) if found else -1


def summary(out: Path) -> dict[str, Any]:
    """The numbers of a run."""
    found: dict[str, Any] = json.loads((out / "summary.json").read_text())
    return found


def hashes(out: Path) -> dict[str, str]:
    """The hash of every job that finished."""
    jobs = warren.load(out).jobs.items()
    return {
        name: str(job.row["params_sha256"]) for name, job in jobs if job.row["status"] == "finished"
    }


def _start(arguments: list[str], errors: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "warren", *arguments, "--json"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=errors,
    )


def _wait(process: subprocess.Popen[bytes]) -> int:
    """Its exit code; a run that hangs is ended, and has ``HANGS``."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        return process.wait(_END_S)
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(LEFT_S)
        return HANGS
    process.kill()
    process.wait()
    return HANGS


def _strike(
    process: subprocess.Popen[bytes], out: Path, train_s: float, fault: Fault
) -> tuple[str, str]:
    """Name of the victim and mark of the run."""
    while not _has_begun(process, out, fault) and process.poll() is None:
        time.sleep(0.01)
    mark = _processes.mark_of(process.pid)
    time.sleep(fault.fraction * (1.0 if fault.early else train_s))
    while process.poll() is None:
        names = {process.pid: "controller"} | _processes.marked(mark)
        pids = _processes.of_kind(names, fault.kind)
        if pids:
            pid = pids[fault.draw % len(pids)]
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                return names[pid], mark
        time.sleep(0.01)
    return "", mark


def _has_begun(process: subprocess.Popen[bytes], out: Path, fault: Fault) -> bool:
    """Whether a first barrier has passed; for an early fault, whether its kind has a process."""
    if not fault.early:
        return any((out / "metrics").glob("*.csv"))
    mark = _processes.mark_of(process.pid)
    return bool(mark) and bool(_processes.of_kind(_processes.marked(mark), fault.kind))
