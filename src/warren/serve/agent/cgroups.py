"""Groups of processes in the kernel (cgroup v2): a job is killed at once, and its memory limited.

Where there is none that this account may write, a job is held together by its runner alone, and
its memory is limited process by process. What works is tried once, when the agent starts.
"""

from __future__ import annotations

import binascii
import contextlib
import errno
import os
import signal
import time
from typing import Final

import msgspec

from warren.serve.agent import processes

SWITCH: Final = "WARREN_CGROUPS"
"""Variable that keeps an agent from using cgroups, if its value is ``off``."""
_REMOVAL_S: Final = 0.002
"""Time between two tries to remove a group whose processes have just ended, in seconds."""


_ROUNDS: Final = 10
"""Looks for processes that a command has forked before it was put into its group."""


class Limits(msgspec.Struct, frozen=True):
    """How jobs are held together on this machine.

    ``base`` is the prefix of a job's folder in the cgroup file system; None where there is none.
    ``memory`` tells whether such a group limits memory.
    """

    base: str | None = None
    memory: bool = False

    @property
    def text(self) -> str:
        """What users read about it; ``Machine.limits`` says the same."""
        if self.base is None:
            return "rlimit"
        return "cgroup" if self.memory else "cgroup for processes, rlimit for memory"

    def group(self, attempt: str) -> str:
        """Return the folder of an attempt's group; empty where there is none."""
        return "" if self.base is None else f"{self.base}.{attempt}"


def find_limits(
    home: str, mounts: str = "/proc/self/mounts", own: str = "/proc/self/cgroup"
) -> Limits:
    """Try what works for the agent with this home: a group with a limit, one without, or none.

    None is tried where the variable ``WARREN_CGROUPS`` is ``off``.
    """
    if os.environ.get(SWITCH) == "off":
        return Limits()
    name = f"warren-{binascii.crc32(os.fsencode(home)):08x}"
    found = Limits()
    for folder in folders(mounts, own):
        base = f"{folder.rstrip('/')}/{name}"
        tried = _try(base)
        if tried is not None and (found.base is None or tried.memory):
            found = tried
        if found.memory:
            break
    return found


def folders(mounts: str, own: str) -> list[str]:
    """Return the folders in which groups may be: the one above this process's, and its own.

    A group whose processes are in it itself cannot limit the memory of groups in it, so the one
    above comes first.
    """
    try:
        with open(mounts) as file:
            lines = [line.split() for line in file]
        with open(own) as file:
            paths = [line.rstrip("\n")[3:] for line in file if line.startswith("0::")]
    except OSError:
        return []
    top = next((line[1] for line in lines if line[2] == "cgroup2"), None)
    if top is None or not paths:
        return []
    path = paths[0].rstrip("/")
    folders = [top + path]
    if path:
        folders.insert(0, top + os.path.dirname(path))
    return folders


def _try(base: str) -> Limits | None:
    """Make a group, kill a process in it, and set a limit; None if that does not work."""
    group = f"{base}.try"
    try:
        make(group, None)
    except OSError:
        return None
    child = os.fork()
    if child == 0:
        try:
            join(group)
            time.sleep(60)  # until it is killed
        finally:
            os._exit(0)
    killed = False
    with contextlib.suppress(OSError):
        deadline = time.monotonic() + 2
        while not killed and time.monotonic() < deadline and os.waitpid(child, os.WNOHANG)[0] == 0:
            with open(f"{group}/cgroup.procs") as file:
                killed = str(child) in file.read().split()
            time.sleep(0.001)
        kill(group)
    with contextlib.suppress(OSError):
        if not killed:
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    memory = False
    with contextlib.suppress(OSError):
        if not os.path.exists(f"{group}/memory.max"):
            _write(f"{os.path.dirname(base)}/cgroup.subtree_control", "+memory")
        memory = os.path.exists(f"{group}/memory.max")
    remove(group)
    return Limits(base, memory) if killed else None


def make(group: str, memory_bytes: int | None) -> None:
    """Make the group of an attempt, with a limit of its memory in bytes, if any.

    Raises OSError if the kernel does not take it.
    """
    with contextlib.suppress(FileExistsError):
        os.mkdir(group)
    if not os.path.exists(f"{group}/cgroup.kill"):
        os.rmdir(group)
        raise OSError(errno.ENOTSUP, "no cgroup.kill (Linux 5.14)")
    if memory_bytes is not None:
        _write(f"{group}/memory.max", str(memory_bytes))
        for name, value in (("memory.swap.max", "0"), ("memory.oom.group", "1")):
            with contextlib.suppress(OSError):
                _write(f"{group}/{name}", value)


def join(group: str) -> None:
    """Put this process into a group; raises OSError if the kernel does not take it."""
    _write(f"{group}/cgroup.procs", "0")


def take_in(group: str, pid: int) -> None:
    """Put a process that has just begun into a group, and what it has forked meanwhile.

    A process that the kernel does not take stays outside, where its runner finds it.
    """
    missing = [pid]
    for _ in range(_ROUNDS):
        for one in missing:
            with contextlib.suppress(OSError):
                _write(f"{group}/cgroup.procs", str(one))
        with contextlib.suppress(OSError), open(f"{group}/cgroup.procs") as file:
            inside = {int(line) for line in file}
            missing = [one for one in processes.descendants(pid) if one not in inside]
        if not missing:
            return


def kill(group: str) -> None:
    """Kill all processes of a group, those that fork meanwhile too; nothing if it is gone."""
    with contextlib.suppress(FileNotFoundError, OSError):
        _write(f"{group}/cgroup.kill", "1")


def ran_out_of_memory(group: str) -> bool:
    """Tell whether the kernel killed a process of a group for its memory limit."""
    with contextlib.suppress(OSError), open(f"{group}/memory.events") as file:
        for line in file:
            name, _, count = line.partition(" ")
            if name == "oom_kill" and int(count) > 0:
                return True
    return False


def remove(group: str, patience_s: float = 1.0) -> bool:
    """Kill what is in a group and remove it; tell whether it is gone."""
    deadline = time.monotonic() + patience_s
    while True:
        try:
            os.rmdir(group)
        except FileNotFoundError:
            return True
        except OSError:
            kill(group)
            if time.monotonic() > deadline:
                return False
            time.sleep(_REMOVAL_S)
        else:
            return True


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)
