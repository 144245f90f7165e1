"""The processes of a live run, found from outside by the run's mark in their environment.

``warren run`` starts one zygote, from which all others are forked; all of them carry
``WARREN_RUN`` with the name of the run's folder for sockets.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

MARK: Final = b"WARREN_RUN="
KINDS: Final = {
    "controller": "controller",
    "zygote": "warren-zygote",
    "executor": "warren-exec-",
    "trainer": "warren-train-",
    "server": "warren-serve-",
    "rank": "warren-rank-",
    "parent": "warren-parent",
    "again": "warren-again-",
    "guard": "guard",
}
PROC: Final = Path("/proc")
_GUARD: Final = b"warren/live/process/cleanup_guard.py"


def mark_of(controller: int) -> str:
    """The mark of the run that this ``warren run`` process controls; empty: it has none yet."""
    for pid in _children(controller):
        mark = _mark(pid)
        if mark:
            return mark
    return ""


def marked(mark: str) -> dict[int, str]:
    """Living processes of a run and their names; zombies do not count."""
    return with_entry(MARK + mark.encode())


def with_entry(start: bytes) -> dict[int, str]:
    """Living processes whose environment, as they began, has an entry that starts with this."""
    found = {}
    for pid in _all():
        mine = any(entry.startswith(start) for entry in _environment(pid))
        if mine and _state(pid) not in ("", "Z", "X"):
            found[pid] = _name(pid)
    return found


def of_kind(names: Mapping[int, str], kind: str) -> list[int]:
    """Those of one kind among processes with these names, in order of name."""
    pids = [pid for pid, name in names.items() if name.startswith(KINDS[kind])]
    return sorted(pids, key=lambda pid: (names[pid], pid))


def guards(controller: int) -> list[int]:
    """The guard of the run of this controller; it has no mark, else it would end itself."""
    return [pid for pid in _children(controller) if _guarded(pid)]


def guards_of(folder: Path) -> list[int]:
    """Living guards of runs whose folder for sockets is below this one."""
    return [pid for pid in _all() if _guarded(pid).startswith(f"{folder}/".encode())]


def _guarded(pid: int) -> bytes:
    """The folder that a process is the guard of; empty for any other process."""
    with contextlib.suppress(OSError):
        said = (PROC / str(pid) / "cmdline").read_bytes().split(b"\0")
        at = next((at for at, one in enumerate(said) if one.endswith(_GUARD)), len(said))
        return b"".join(said[at + 3 : at + 4])
    return b""


def kind_of(name: str) -> str:
    """The kind of a process of this name; its name, where it is of none: what user code started."""
    return next((kind for kind, start in KINDS.items() if name.startswith(start)), name)


def running(pids: Iterable[int]) -> list[int]:
    """Those of these processes that compute, or wait for a processor, right now."""
    return [pid for pid in pids if _state(pid) == "R"]


def left_after(mark: str, limit_s: float) -> dict[int, str]:
    """What is still alive after at most ``limit_s``; empty as soon as nothing is."""
    end = time.monotonic() + limit_s
    while (found := marked(mark)) and time.monotonic() < end:
        time.sleep(0.05)
    return found


def _all() -> list[int]:
    return [int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit()]


def _children(parent: int) -> list[int]:
    return [pid for pid in _all() if _stat(pid)[1:2] == [str(parent)]]


def _mark(pid: int) -> str:
    marks = [entry for entry in _environment(pid) if entry.startswith(MARK)]
    return marks[0].removeprefix(MARK).decode() if marks else ""


def _environment(pid: int) -> list[bytes]:
    with contextlib.suppress(OSError):
        return (PROC / str(pid) / "environ").read_bytes().split(b"\0")
    return []


def _name(pid: int) -> str:
    with contextlib.suppress(OSError):
        return (PROC / str(pid) / "comm").read_text().strip()
    return ""


def _state(pid: int) -> str:
    return next(iter(_stat(pid)), "")


def _stat(pid: int) -> list[str]:
    """Fields of ``stat`` from the state on: state, parent, group, session, ..."""
    with contextlib.suppress(OSError):
        return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    return []
