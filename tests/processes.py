"""Which processes descend from this one, read from /proc; used to find those left behind."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Callable, Set
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

PATIENCE_S = 120.0
"""Seconds that a test waits for what must come: no busy machine takes so long, a fault does."""
_PR_SET_CHILD_SUBREAPER = 36
_HELPERS = ("multiprocessing.resource_tracker",)


@dataclass(frozen=True, order=True)
class Process:
    """One process; ``started`` (clock ticks since boot) tells a reused pid from the old one.

    It stays the same when its ``command`` changes: one that was just started has none for a moment.
    """

    pid: int
    started: int
    command: str = field(compare=False)


@cache
def are_started_by(tests: Path) -> bool:
    """Tell whether a file of tests has some that are marked ``live``."""
    return "pytest.mark.live" in tests.read_text()


@cache
def look_at_the_machine(tests: Path) -> bool:
    """Tell whether a file of tests has some that are marked ``machine``."""
    return "pytest.mark.machine" in tests.read_text()


@cache
def rank(tests: Path) -> int:
    """When a file of tests is given out: live ones first, then slow ones, then the others."""
    return 0 if are_started_by(tests) else 1 if "pytest.mark.slow" in tests.read_text() else 2


def adopt_orphans() -> None:
    """Orphans of this process become its children, so that a double fork cannot hide."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


def descendants(root: int) -> frozenset[Process]:
    """All living processes below ``root``; the dead that nobody has waited for do not count."""
    table = _table()
    children: dict[int, list[int]] = {}
    for pid, stat in table.items():
        children.setdefault(_parent(stat), []).append(pid)
    found: set[Process | None] = set()
    todo = children.get(root, [])
    while todo:
        pid = todo.pop()
        todo += children.get(pid, [])
        found.add(_living(pid, table[pid]))
    return frozenset(process for process in found if process is not None)


def children(parent: int) -> frozenset[int]:
    """The processes whose parent this is, also the dead that nobody has waited for."""
    return frozenset(pid for pid, stat in _table().items() if _parent(stat) == parent)


def wait_until(holds: Callable[[], object], timeout_s: float = PATIENCE_S) -> bool:
    """Wait until something holds; False if it does not in time."""
    deadline = time.monotonic() + timeout_s
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def wait_until_gone(before: Set[Process], timeout_s: float = PATIENCE_S) -> list[Process]:
    """The processes below this one that were not there ``before``, after up to ``timeout_s``."""
    left: Set[Process] = frozenset()

    def are_gone() -> bool:
        nonlocal left
        left = descendants(os.getpid()) - before
        return not left

    wait_until(are_gone, timeout_s)
    return sorted(left)


def kill(process: Process) -> None:
    """End it, unless it has gone."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGKILL)


def _table() -> dict[int, str]:
    """What the kernel says of each process, by its pid."""
    table = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with (
                contextlib.suppress(FileNotFoundError, ProcessLookupError),
                open(f"/proc/{name}/stat") as file,
            ):
                table[int(name)] = file.read()
    return table


def _parent(stat: str) -> int:
    return int(stat[stat.rindex(")") :].split(maxsplit=3)[2])


def _living(pid: int, stat: str) -> Process | None:
    """The process; None for a zombie or a helper of the library."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    except (FileNotFoundError, ProcessLookupError):
        return None
    state, *fields = stat[stat.rindex(")") + 1 :].split()
    if state in "ZX" or any(helper in command for helper in _HELPERS):
        return None
    name = f"{pid} {command or stat.partition('(')[2].rpartition(')')[0]}"
    return Process(pid, int(fields[18]), name)
