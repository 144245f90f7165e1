"""A limit on the memory of one trainer or server: a cgroup of its own, or RLIMIT_DATA.

A cgroup counts the memory that a process and its children touch, and the kernel kills a process
beyond the limit. The cgroup is made beside the cgroups of the user that started the run: under
version 2 where the tree is delegated to this user, otherwise under version 1. Where neither is
allowed, RLIMIT_DATA counts the memory that one process reserves, and an allocation beyond it fails
inside the process.
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
from warren.live.process.linux import child_controllers, kernel_lines
from warren.live.process.time_limit import OVER_MEMORY, size_text

# Files of a cgroup of version 1: its limits, without and with swap, and the most it has used.
_FIRST: Final = ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes")
_PEAK: Final = "memory.max_usage_in_bytes"
_NEAR_BYTES: Final = 2**22
"""Bytes below a limit that count as reaching it: one request may be for a huge page."""
FALLBACK: Final = "local.memory: no cgroup may be made here; RLIMIT_DATA limits each process"
_ENTER: Final = 'echo 0 > "$0"'
"""Shell command that moves its shell into the cgroup whose ``cgroup.procs`` is argument 0."""


class MemoryLimit(msgspec.Struct, frozen=True, array_like=True):
    """The memory limit of each process of a run that runs user code.

    ``cgroups`` is the path of their cgroups but for ``.PID``; empty: RLIMIT_DATA limits them.
    """

    limit_bytes: int
    cgroups: str

    def cgroup(self, pid: int) -> Path:
        """Return the path of the cgroup of one process."""
        return Path(f"{self.cgroups}.{pid}")


def cgroups_of(limit_bytes: int | None, name: str, quotas: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the paths, but for ``.PID``, that cgroups of a run may have, the best first.

    Parameters
    ----------
    limit_bytes : int or None
        The limit of each process; None: there is none, so no path either.
    name : str
        The run's own name.
    quotas : sequence of str
        Cgroups that processes of the run are in already. No path is in the tree of one of these: a
        process is in one cgroup of a tree, so it would leave its present one.
    """
    if limit_bytes is None:
        return ()
    taken = [_tree(Path(one)) for one in quotas]
    return tuple(str(home / name) for home in cgroup_folders() if _tree(home) not in taken)


def _tree(cgroup: Path) -> int:
    """Return a number that identifies the tree of a cgroup; -1: there is no such cgroup."""
    try:
        return cgroup.stat().st_dev
    except OSError:
        return -1


def memory_limit(
    limit_bytes: int | None, cgroups: tuple[str, ...], log: Path
) -> MemoryLimit | None:
    """Return the limit of all processes of a run: by cgroups at the first path that allows them.

    Where no cgroup can be made, RLIMIT_DATA is the limit, and ``log`` gets a line that says so.

    Parameters
    ----------
    limit_bytes : int or None
        The limit of each process; None: there is none.
    cgroups : tuple of str
        Paths to try, but for ``.PID``.
    log : Path
        The file that Warren's own processes print to.
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
    """Limit this process and its children from now on."""
    if limit is None:
        return
    if limit.cgroups:
        cgroup = limit.cgroup(os.getpid())
        _make(cgroup, limit.limit_bytes)
        # 0 means the process that writes it.
        (cgroup / "cgroup.procs").write_text("0")
        return
    # The memory that the zygote has loaded is not the app's.
    most = _data_bytes() + limit.limit_bytes
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))


@contextlib.contextmanager
def data_limited(more_bytes: int) -> Iterator[None]:
    """Let this process reserve ``more_bytes`` meanwhile; an allocation beyond them fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    known = [limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY]
    most = min([_data_bytes() + more_bytes, *known])
    resource.setrlimit(resource.RLIMIT_DATA, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def allow_more_data(more_bytes: int) -> None:
    """Raise the limit of ``data_limited`` until its end, as far as the process may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if soft != resource.RLIM_INFINITY:
        most = soft + more_bytes if hard == resource.RLIM_INFINITY else min(soft + more_bytes, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (most, hard))


def over_limit(limit: MemoryLimit, pid: int) -> str:
    """Say how a limit killed a process that has ended; empty if it did not.

    Its cgroup is removed, and processes left in there are killed.
    """
    if not limit.cgroups:
        return ""
    cgroup = limit.cgroup(pid)
    over = _has_killed(cgroup)
    end_cgroup(str(cgroup))
    return f"{OVER_MEMORY} of {size_text(limit.limit_bytes)}" if over else ""


def cgroup_folders(proc: Path = Path("/proc/self")) -> Iterator[Path]:
    """Yield the folders in which cgroups with a limit on memory might be made, the best first."""
    # Lines are ID:CONTROLLERS:PATH; those of version 2 name no controller.
    at = dict(line.split(":", 2)[1:] for line in kernel_lines(proc / "cgroup"))
    # Version 2 is sorted first.
    for line in sorted(
        kernel_lines(proc / "mountinfo"), key=lambda line: " - cgroup2 " not in line
    ):
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
    """Yield the cgroups of version 2 that let their children limit memory: ours, or its parent.

    Ours has processes in it, so unless it is the root it has no such children. A child of the
    parent escapes our own limits, so there must be none.
    """
    if own is None:
        return
    for home in (own, own.parent) if own != top and _unlimited(own) else (own,):
        if "memory" in child_controllers(home):
            yield home


def _unlimited(cgroup: Path) -> bool:
    """Tell whether a cgroup of version 2 sets no limit on memory itself."""
    return all(
        kernel_lines(cgroup / name) in (["max"], []) for name in ("memory.max", "memory.high")
    )


def _inside(point: str, root: str, cgroup: str) -> Path | None:
    """Return the path of a cgroup in a file system that is mounted at ``point`` from ``root`` on.

    None if the mount does not show it.
    """
    try:
        return Path(point) / Path(cgroup).relative_to(root)
    except ValueError:
        return None


def _allowed(limit: MemoryLimit) -> bool:
    """Try with a process that does nothing whether a process can be limited so."""
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
    """Make a cgroup of either version; swap does not add to the limit, where swap is counted."""
    cgroup.mkdir()
    # Version 2 limits swap by itself, version 1 the sum of memory and swap.
    second = (cgroup / "memory.max").exists()
    names = ("memory.max", "memory.swap.max") if second else _FIRST
    (cgroup / names[0]).write_text(str(limit_bytes))
    with contextlib.suppress(OSError):
        (cgroup / names[1]).write_text("0" if second else str(limit_bytes))


def _has_killed(cgroup: Path) -> bool:
    """Tell whether the limit itself was met, and the kernel killed something in the cgroup."""
    second = (cgroup / "memory.events").exists()
    events = kernel_lines(cgroup / ("memory.events" if second else "memory.oom_control"))
    counts = {name: int(count) for name, count in (line.split() for line in events)}
    if second:
        met = counts.get("oom", 0) > 0
    else:
        # The peak, not memory.failcnt, which stays 0 on some kernels.
        most, limit = ("".join(kernel_lines(cgroup / name)) or "0" for name in (_PEAK, _FIRST[0]))
        met = int(most) + _NEAR_BYTES >= int(limit)
    return met and counts.get("oom_kill", 0) > 0


def _data_bytes() -> int:
    """Return the bytes that RLIMIT_DATA counts of this process now."""
    status = dict(line.split(":", 1) for line in kernel_lines(Path("/proc/self/status")))
    return int(status["VmData"].split()[0]) * 1024
