"""Two commands that take turns of a second on this machine, one stopped while the other runs.

A machine whose speed moves by a tenth within seconds is the same for both then, which no number of
whole runs one after another gives.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median
from typing import Final

_TURN_S: Final = 1.0
_LONG_S: Final = 0.3
"""A task that takes this much longer than others was stopped in its middle."""


def take_turns(commands: Sequence[Sequence[str]]) -> None:
    """Run all commands to their ends, each with its children stopped in the others' turns.

    Raises
    ------
    RuntimeError
        One failed; what it said is in the message.
    """
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    running = [subprocess.Popen(command, **pipes) for command in commands]  # type: ignore[call-overload]
    for one in running:
        _signal(one.pid, signal.SIGSTOP)
    while any(one.poll() is None for one in running):
        for one in running:
            if one.poll() is None:
                _signal(one.pid, signal.SIGCONT)
                _wait(one)
                _signal(one.pid, signal.SIGSTOP)
    for one, command in zip(running, commands, strict=True):
        said = one.communicate()[1]
        if one.returncode:
            raise RuntimeError(f"{' '.join(command)} failed:\n{said}")


def task_s(stamps: Path, first: int, tasks_a_round: int) -> float:
    """Mean seconds a task from the starts that a job noted, without rounds that a turn cut."""
    starts_ns = [int(line) for line in stamps.read_text().split()][first::tasks_a_round]
    rounds_s = [(b - a) / 1e9 for a, b in pairwise(starts_ns)]
    limit_s = median(rounds_s) + _LONG_S
    return fmean(one for one in rounds_s if one < limit_s) / tasks_a_round


def _wait(one: subprocess.Popen[str]) -> None:
    try:
        one.wait(_TURN_S)
    except subprocess.TimeoutExpired:
        return


def _signal(root: int, number: signal.Signals) -> None:
    for pid in _tree(root):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def _tree(root: int) -> list[int]:
    """A process and all that come from it."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                parent = int(Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            children.setdefault(parent, []).append(int(name))
    found = [root]
    for pid in found:
        found += children.get(pid, [])
    return found
