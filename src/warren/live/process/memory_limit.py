"""The most memory that one trainer or server may take: a cgroup of its own, or RLIMIT_DATA.

A cgroup counts what a process and its children touch, and the kernel kills what goes beyond. It is
made beside the cgroups of whoever started the run: under version 2 where the tree is delegated to
this user, else under version 1. Where neither is allowed, RLIMIT_DATA counts what one process
reserves, and an allocation beyond it fails inside the process.
"""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from warren.live.process.cleanup_guard import end_cgroup, end_cgroups
from warren.live.process.time_limit import OVER_MEMORY, size_text

_FIRST: Final = ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes")
_PEAK: Final = "memory.max_usage_in_bytes"
_NEAR_BYTES: Final = 2**22
"""A limit is met this much before it: what is asked for at once may be a huge page."""
FALLBACK: Final = "local.memory: no cgroup may be made here; RLIMIT_DATA limits each process"
_ENTER: Final = 'echo 0 > "$0"'


class MemoryLimit(msgspec.Struct, frozen=True, array_like=True):
    """Of each process of a run. ``cgroups``: their path but for ``.PID``; empty: RLIMIT_DATA."""

    limit_bytes: int
    cgroups: str

    def cgroup(self, pid: int) -> Path:
        """Of one process."""
        return Path(f"{self.cgroups}.{pid}")


def cgroups_of(limit_bytes: int | None, name: str, quotas: Sequence[str] = ()) -> tuple[str, ...]:
    """Paths, but for ``.PID``, that cgroups of a run may have; ``name`` is its own.

    None is in a tree of ``quotas``, cgroups that its processes are in: they would leave those.
    """
    if limit_bytes is None:
        return ()
    taken = [_tree(Path(one)) for one in quotas]
    return tuple(str(home / name) for home in cgroup_folders() if _tree(home) not in taken)


def _tree(cgroup: Path) -> int:
    """What tells the tree that a cgroup is in from others; -1: it is in none."""
    try:
        return cgroup.stat().st_dev
    except OSError:
        return -1


def memory_limit(
    limit_bytes: int | None, cgroups: tuple[str, ...], log: Path
) -> MemoryLimit | None:
    """What holds for all processes of a run: cgroups at the first path where they are allowed.

    Where no cgroup can be made, ``log`` gets a line that says so.
    """
    if limit_bytes is None:
        return None
    for path in cgroups:
        limit = MemoryLimit(limit_bytes, path)
        if _allowed(limit):
            return limit
    with log.open("a") as file:
        print(FALLBACK, file=file)
    return MemoryLimit(limit_bytes, "")


def enter(limit: MemoryLimit | None) -> None:
    """From now on this process and its children are limited."""
    if limit is None:
        return
    if limit.cgroups:
        cgroup = limit.cgroup(os.getpid())
        _make(cgroup, limit.limit_bytes)
        (cgroup / "cgroup.procs").write_text("0")
        return
    # What the zygote has loaded is not the app's.
    most = _data_bytes() + limit.limit_bytes
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def over_limit(limit: MemoryLimit, pid: int) -> str:
    """How a process that has ended was killed by its limit, in words; empty if it was not.

    Its cgroup goes, and what the process had left in there.
    """
    if not limit.cgroups:
        return ""
    cgroup = limit.cgroup(pid)
    over = _has_killed(cgroup)
    end_cgroup(str(cgroup))
    return f"{OVER_MEMORY} of {size_text(limit.limit_bytes)}" if over else ""


def cgroup_folders(proc: Path = Path("/proc/self")) -> Iterator[Path]:
    """Where cgroups with a limit on memory might be made, the best first."""
    at = dict(line.split(":", 2)[1:] for line in _lines(proc / "cgroup"))
    for line in sorted(_lines(proc / "mountinfo"), key=lambda line: " - cgroup2 " not in line):
        mount, _, kind = line.partition(" - ")
        root, point = mount.split()[3:5]
        if kind.startswith("cgroup2 ") and "" in at:
            own = _inside(point, root, at[""])
            yield from _delegating(own, Path(point))
        elif kind.startswith("cgroup ") and "memory" in kind.split()[2].split(","):
            own = next((_inside(point, root, at[k]) for k in at if "memory" in k.split(",")), None)
            if own is not None:
                yield own


def _delegating(own: Path | None, top: Path) -> Iterator[Path]:
    """Cgroups of version 2 that let their children limit memory: our own, or the one above.

    Ours has processes in it and then, but for the root, has no such children. A child of the one
    above escapes our own limits, so there must be none.
    """
    if own is None:
        return
    for home in (own, own.parent) if own != top and _unlimited(own) else (own,):
        if "memory" in " ".join(_lines(home / "cgroup.subtree_control")).split():
            yield home


def _unlimited(cgroup: Path) -> bool:
    return all(_lines(cgroup / name) in (["max"], []) for name in ("memory.max", "memory.high"))


def _inside(point: str, root: str, cgroup: str) -> Path | None:
    """Where a cgroup is seen whose file system is mounted from ``root`` on."""
    try:
        return Path(point) / Path(cgroup).relative_to(root)
    except ValueError:
        return None


def _allowed(limit: MemoryLimit) -> bool:
    """Whether a process can be limited so: one that does nothing tries it."""
    cgroup = Path(f"{limit.cgroups}.probe")
    try:
        _make(cgroup, limit.limit_bytes)
        tried = ["/bin/sh", "-c", _ENTER, str(cgroup / "cgroup.procs")]
        return subprocess.run(tried, capture_output=True, check=False).returncode == 0
    except OSError:
        return False
    finally:
        end_cgroups(limit.cgroups)


def _make(cgroup: Path, limit_bytes: int) -> None:
    """A cgroup of either version; swap does not add to the limit, where swap is counted."""
    cgroup.mkdir()
    second = (cgroup / "memory.max").exists()
    names = ("memory.max", "memory.swap.max") if second else _FIRST
    (cgroup / names[0]).write_text(str(limit_bytes))
    with contextlib.suppress(OSError):
        (cgroup / names[1]).write_text("0" if second else str(limit_bytes))


def _has_killed(cgroup: Path) -> bool:
    """Whether the limit itself was met, and the kernel killed something in there."""
    second = (cgroup / "memory.events").exists()
    events = _lines(cgroup / ("memory.events" if second else "memory.oom_control"))
    counts = {name: int(count) for name, count in (line.split() for line in events)}
    if second:
        met = counts.get("oom", 0) > 0
    else:  # not memory.failcnt, which stays 0 on some kernels
        most, limit = ("".join(_lines(cgroup / name)) or "0" for name in (_PEAK, _FIRST[0]))
        met = int(most) + _NEAR_BYTES >= int(limit)
    return met and counts.get("oom_kill", 0) > 0


def _data_bytes() -> int:
    status = dict(line.split(":", 1) for line in _lines(Path("/proc/self/status")))
    return int(status["VmData"].split()[0]) * 1024


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
