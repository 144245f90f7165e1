"""One live run that loses a process at a drawn moment, and how it ended."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import _processes

import warren

RESUMED: Final = ("zygote", "controller")
"""Where a run may end by the loss of one of these, it is resumed."""
When: TypeAlias = Literal["start", "training", "resume"]
TASK, BARRIER, NOTHING = MET = ("a task", "a barrier", "nothing")
"""What a strike may meet."""
LEFT_S: Final = 10.0
HANGS: Final = 1000
"""Exit code of a run that did not end."""
BEGUN: Final = ("run.yaml", "profile.csv")
"""A folder without one of these is of a run that was killed before it began."""
_END_S: Final = 120.0
_WAIT_S: Final = 5.0
"""How long a strike waits for a process that it would meet at work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Kill a process of ``kind``; ``draw`` picks which.

    ``fraction`` is of the training time, and the process, or one that goes down with it, is met at
    work if that can be in five seconds from then. At the *start* ``fraction`` is of the first
    second after a process of that kind has appeared, which is before anything trains. At a
    *resume* it is of the first second of a run that goes on, after its controller was killed.
    """

    kind: str
    fraction: float
    draw: int
    when: When = "training"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of it. ``victim``: name of the process; empty: the run ended before.

    ``met``: whether a task or a barrier was computed by what went down, as the system says.
    """

    victim: str
    met: str
    exit_code: int
    stderr: str
    left: tuple[str, ...]


def drawn(kind: str, moment: int, moments: int, *salt: object, when: When = "training") -> Fault:
    """A fault that depends on its arguments alone: in part ``moment`` of ``moments`` of the run."""
    draw = random.Random("-".join(str(one) for one in (kind, moment, *salt)))
    fraction = 0.02 + 0.93 * (moment + draw.random()) / moments
    return Fault(kind=kind, fraction=fraction, draw=draw.randrange(2**30), when=when)


def disturbed(arguments: list[str], out: Path, train_s: float, fault: Fault) -> Outcome:
    """Run the command into ``out``, kill, resume if the run ended by that, and wait for its end."""
    first = ["run", *arguments, "--out", str(out)]
    with out.with_suffix(".err").open("w+") as errors:
        process = _start(first, errors.fileno())
        if fault.when == "resume":
            cut = replace(fault, kind="controller", when="training")
            _strike(process, out, train_s, cut)
            _wait(process)
            process = _start(_go_on(out, first), errors.fileno())
        victim, mark, met = _strike(process, out, train_s, fault)
        code = _wait(process)
        if victim and code not in (0, HANGS) and fault.kind in RESUMED:
            code = _wait(_start(_go_on(out, first), errors.fileno()))
        left = _processes.left_after(mark, LEFT_S) if mark else {}
        errors.seek(0)
        text = errors.read()
    return Outcome(victim=victim, met=met, exit_code=code, stderr=text, left=tuple(left.values()))


def _go_on(out: Path, first: list[str]) -> list[str]:
    """The command that goes on with a run, or starts it again if it had not begun."""
    if all((out / name).exists() for name in BEGUN):
        return ["run", "--resume", str(out)]
    shutil.rmtree(out, ignore_errors=True)
    return first


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
) -> tuple[str, str, str]:
    """Name of the victim, mark of the run, and what was met."""
    while not _has_begun(process, out, fault) and process.poll() is None:
        time.sleep(0.01)
    mark = _processes.mark_of(process.pid)
    early = fault.when != "training"
    time.sleep(fault.fraction * (1.0 if early else train_s))
    end = time.monotonic() + (0.0 if early else _WAIT_S)
    while process.poll() is None:
        names = {process.pid: "controller"} | _processes.marked(mark)
        pids = _processes.of_kind(names, fault.kind)
        pid, met = _at_work(names, pids, fault.draw, min(end, time.monotonic() + 0.5))
        if pid and (met != NOTHING or time.monotonic() >= end):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                return names[pid], mark, met
        time.sleep(0.001)
    return "", mark, ""


def _at_work(
    names: Mapping[int, str], pids: Sequence[int], draw: int, end: float
) -> tuple[int, str]:
    """One of ``pids``, and what of it is at work; looks until ``end`` for one of which any is."""
    order = [pids[(draw + at) % len(pids)] for at in range(len(pids))]
    found = {pid: _computing(names, names[pid]) for pid in order}
    before: set[int] = set()
    while True:
        now = {one for tasks, barriers in found.values() for one in (*tasks, *barriers)}
        now = set(_processes.running(now))
        for pid, (tasks, barriers) in found.items():
            if now & before & {*tasks, *barriers}:  # seen twice: it does not just take a message
                return pid, TASK if now & before & {*tasks} else BARRIER
        before = now
        time.sleep(0.0005)
        if time.monotonic() >= end:
            return next(iter(order), 0), NOTHING


def _computing(names: Mapping[int, str], victim: str) -> tuple[list[int], list[int]]:
    """The processes that compute tasks, and barriers, and go down with this one."""
    kinds = {kind: _processes.of_kind(names, kind) for kind in ("trainer", "server", "rank")}
    tasks, barriers = kinds["trainer"] + kinds["rank"], kinds["server"]
    if victim.startswith(("controller", _processes.KINDS["zygote"])):
        return tasks, barriers
    device = re.match(r"warren-exec-(\d+)", victim)
    if device:
        trainer = re.compile(rf"warren-train-{device[1]}(\D|$)")
        return [pid for pid in tasks if trainer.match(names[pid])], []
    mine = [pid for pid, name in names.items() if name == victim]
    return [pid for pid in mine if pid in tasks], [pid for pid in mine if pid in barriers]


def _has_begun(process: subprocess.Popen[bytes], out: Path, fault: Fault) -> bool:
    """Whether a first barrier has passed; else, for an early fault, its kind has a process."""
    if fault.when == "training":
        return any((out / "metrics").glob("*.csv"))
    mark = _processes.mark_of(process.pid)
    names = {process.pid: "controller"} | (_processes.marked(mark) if mark else {})
    return bool(_processes.of_kind(names, fault.kind))
