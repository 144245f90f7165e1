"""The parts of testbeds that exist now, found by their names, and their removal."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from warren.live.process.cleanup_guard import end_cgroup
from warren.live.testbed.cpu_quota import cgroup_roots
from warren.live.testbed.iproute import remove_namespaces
from warren.live.testbed.names import HOSTS_FILES, NAMESPACES, owner

_HOSTS: Final = "hosts"
_ASKED_S: Final = 1.0
"""Seconds that processes have to end by themselves."""
_KILLED_S: Final = 5.0
"""Seconds of killing after that, before an error."""


class Orphans(NamedTuple):
    """Remains of testbeds: names of namespaces and of hosts files' folders, paths of cgroups."""

    namespaces: tuple[str, ...]
    folders: tuple[str, ...]
    cgroups: tuple[str, ...]

    def __bool__(self) -> bool:
        return any(self)


def found(name: str | None = None) -> Orphans:
    """Find all that bears the names of a testbed; without a name, of any testbed."""
    return Orphans(
        tuple(_owned(NAMESPACES, name)),
        tuple(_owned(HOSTS_FILES, name)),
        tuple(str(home / one) for home in cgroup_roots() for one in _owned(home, name)),
    )


def _owned(folder: Path, name: str | None) -> list[str]:
    """Return the entries of a folder that belong to a testbed, or to any, by their names."""
    try:
        entries = sorted(os.listdir(folder))
    except OSError:
        return []
    owners = {entry: owner(entry) for entry in entries}
    return [one for one, whose in owners.items() if whose is not None and name in (None, whose)]


def remove(what: Orphans, lock: int) -> int:
    """Remove these; return the number of processes that were ended for it."""
    # Processes first: a namespace stays, without a name, as long as one is in it.
    ended = end_processes(what.namespaces)
    remove_namespaces(what.namespaces, lock)
    for name in what.folders:
        with contextlib.suppress(OSError):
            (HOSTS_FILES / name / _HOSTS).unlink(missing_ok=True)
            (HOSTS_FILES / name).rmdir()  # a file of others keeps it
    with contextlib.suppress(OSError):
        HOSTS_FILES.rmdir()
    for cgroup in what.cgroups:
        end_cgroup(cgroup)
    return ended


def write_hosts(name: str, text: str) -> None:
    """Write the hosts file of a namespace."""
    folder = HOSTS_FILES / name
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    (folder / _HOSTS).write_text(text)


def processes(namespaces: Sequence[str]) -> list[int]:
    """Return the ids of other processes whose network is one of these namespaces."""
    inside = {mark for name in namespaces if (mark := _mark(NAMESPACES / name)) is not None}
    if not inside:
        return []
    every = (int(entry) for entry in os.listdir("/proc") if entry.isdigit())
    others = (pid for pid in every if pid != os.getpid())
    return [pid for pid in others if _mark(Path(f"/proc/{pid}/ns/net")) in inside]


def _mark(path: Path) -> tuple[int, int] | None:
    """Return the identity of a namespace, device and inode; None if it is not there."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def end_processes(namespaces: Sequence[str]) -> int:
    """End the processes in these namespaces: SIGTERM, 1 s later SIGKILL; return their number."""
    asked = processes(namespaces)
    _signal(asked, signal.SIGTERM)
    begin_s = time.monotonic()
    # Listed again each time: an ending process may have started others.
    while left := processes(namespaces):
        passed_s = time.monotonic() - begin_s
        if passed_s > _ASKED_S:
            _signal(left, signal.SIGKILL)
        if passed_s > _ASKED_S + _KILLED_S:
            break
        time.sleep(0.02)
    return len(asked)


def _signal(pids: Sequence[int], signum: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signum)
