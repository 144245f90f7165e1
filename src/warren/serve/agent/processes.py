"""Processes of Linux: who descends from whom, and how a whole tree is killed for sure."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from collections.abc import Collection, Iterator
from functools import cache
from typing import Final

# Options of ``prctl``, as in <linux/prctl.h>.
_PR_SET_NAME: Final = 15
_PR_SET_CHILD_SUBREAPER: Final = 36
_SLOW_AFTER: Final = 3
"""Rounds of killing after which what is left is made slow, so that it cannot outrun its killer."""
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


def _prctl(option: int, value: int | bytes) -> None:
    if _LIBC.prctl(option, value, 0, 0, 0):
        raise OSError(ctypes.get_errno(), f"prctl {option}")


def adopt_orphans() -> None:
    """Become the parent of every descendant that loses its own."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def set_name(name: str) -> None:
    """Set the name that ``ps -o comm`` and ``top`` show; 15 bytes at most."""
    _prctl(_PR_SET_NAME, name.encode()[:15])


@cache
def boot_id() -> str:
    """Return what changes when the machine starts again."""
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()


def _stat(pid: int) -> list[str] | None:
    """Return the fields of a process from its state on; None if there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name, in parentheses, may hold spaces and parentheses itself.
            return file.read().rpartition(b")")[2].decode().split()
    except (FileNotFoundError, ProcessLookupError):
        return None


def start_ticks(pid: int) -> int | None:
    """Return when a process began, in ticks since boot; None if there is no such process."""
    fields = _stat(pid)
    return int(fields[19]) if fields else None


def parent(pid: int) -> int | None:
    """Return the parent of a process; None if there is no such process."""
    fields = _stat(pid)
    return int(fields[1]) if fields else None


def used_s(pid: int) -> float | None:
    """Return the processor time of a process and of the children it has waited for, in seconds.

    None if there is no such process.
    """
    fields = _stat(pid)
    return sum(map(int, fields[11:15])) / _ticks_per_s() if fields else None


@cache
def _ticks_per_s() -> int:
    return os.sysconf("SC_CLK_TCK")


def name_of(pid: int) -> str:
    """Return the name of a process; empty if there is no such process."""
    try:
        with open(f"/proc/{pid}/comm") as file:
            return file.read().strip()
    except OSError:
        return ""


def all_pids() -> list[int]:
    """Return all processes that this one can see."""
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]


def children(pid: int) -> list[int]:
    """Return the children of a process, dead ones that were not waited for included."""
    found: list[int] = []
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return found
    for task in tasks:
        try:
            with open(f"/proc/{pid}/task/{task}/children", "rb") as file:
                found += map(int, file.read().split())
        except FileNotFoundError:
            if not _kernel_lists_children():
                return [one for one in all_pids() if parent(one) == pid]
        except OSError:
            continue
    return found


@cache
def _kernel_lists_children() -> bool:
    return os.path.exists(f"/proc/self/task/{os.getpid()}/children")


def descendants(pid: int) -> Iterator[int]:
    """Yield the descendants of a process, parents before their children."""
    seen = {pid}
    waiting = [pid]
    while waiting:
        for child in children(waiting.pop(0)):
            if child not in seen:
                seen.add(child)
                waiting.append(child)
                yield child


def descends_from(pid: int, ancestors: Collection[int]) -> bool:
    """Tell whether one of ``ancestors`` is a process itself or above it."""
    for _ in range(1000):
        if pid in ancestors:
            return True
        above = parent(pid)
        if not above:
            return False
        pid = above
    return False


def signal_if(pid: int, signum: int, ancestors: Collection[int]) -> None:
    """Send a signal to a process if it descends from one of ``ancestors``.

    The number of a process that has ended may be given to another one at any time: the process is
    held first and looked at after that.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        fd = os.pidfd_open(pid)
        try:
            if descends_from(pid, ancestors):
                signal.pidfd_send_signal(fd, signum)
        finally:
            os.close(fd)


def signal_descendants(signum: int) -> None:
    """Send a signal to all descendants of this process."""
    me = os.getpid()
    for pid in descendants(me):
        signal_if(pid, signum, (me,))


def kill_once(roots: Collection[int], rounds: int) -> None:
    """Kill processes and their descendants, as far as they are seen in one look.

    A process that forks while it is killed may be missed: call this again until none is left.
    After some rounds what is seen gets only the time that this process leaves on its processor,
    which its own children inherit. So a chain of forks cannot run away.
    """
    before = os.sched_getaffinity(0)
    processor = {min(before)} if rounds >= _SLOW_AFTER else None
    if processor:
        os.sched_setaffinity(0, processor)
    for root in roots:
        for pid in (root, *descendants(root)):
            if processor:
                with contextlib.suppress(OSError):
                    os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))
                    os.sched_setaffinity(pid, processor)
            signal_if(pid, signal.SIGKILL, (root,))
    if processor:
        os.sched_setaffinity(0, before)


def reap() -> tuple[dict[int, int], bool]:
    """Return the wait statuses of children that have ended, and whether children are left."""
    ended: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended, False
        if pid == 0:
            return ended, True
        ended[pid] = status


def marked(mark: bytes) -> list[int]:
    """Return the living processes whose environment holds ``mark``, but this process."""
    found = []
    me = os.getpid()
    for pid in all_pids():
        with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
            if pid != me and mark in file.read().split(b"\0"):
                found.append(pid)
    return found
