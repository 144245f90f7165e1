"""Calls of Linux by which no process outlives its run, and each device has its core."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import select
import signal
import sys
import tempfile
import time
from collections.abc import Collection
from pathlib import Path
from typing import Final, NoReturn

from warren.live import run_clock
from warren.live.process.cleanup_guard import marked

# Options of ``prctl``, as in <linux/prctl.h>.
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_NAME: Final = 15
_PR_SET_TIMERSLACK: Final = 29
_PR_SET_CHILD_SUBREAPER: Final = 36
_SPIN_BELOW_NS: Final = 60_000
"""The last part of a wait, spent awake: a timer is usually up to 50 microseconds late."""
_LATER: Final = 10
"""Added niceness of an ending process: a tenth of the weight of a computing one."""
_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""The signals by which a user ends a run."""
_known_as = 0
# Parameters of ``mallopt``, as in <malloc.h>, and the number of mappings that it allows by default.
_M_MMAP_THRESHOLD: Final = -3
_M_MMAP_MAX: Final = -4
_MAPPINGS: Final = 65536
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


def _prctl(option: int, value: int | bytes) -> None:
    """Call ``prctl`` for this process."""
    if _LIBC.prctl(option, value, 0, 0, 0):
        raise OSError(ctypes.get_errno(), f"prctl {option}")


def die_with_parent(parent: int, signum: int = signal.SIGKILL) -> None:
    """Let the kernel send ``signum`` when the parent ends; leave at once if it has already."""
    _prctl(_PR_SET_PDEATHSIG, signum)
    # A parent that ended before the call sends nothing any more.
    if os.getppid() != parent:
        os._exit(1)


def adopt_orphans() -> None:
    """Become the parent of every descendant that loses its own."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def wake_precisely() -> None:
    """Let timers of this process fire within microseconds instead of the usual 50."""
    _prctl(_PR_SET_TIMERSLACK, 1)


def pin_to_core(core: int | None) -> None:
    """Run on this core alone from now on; None: wherever the system likes."""
    if core is not None:
        os.sched_setaffinity(0, {core})


def own_temporary_folder(path: str) -> None:
    """Set this folder as the one for temporary files; only this user may enter it."""
    Path(path).mkdir(mode=0o700, parents=True, exist_ok=True)
    os.environ["TMPDIR"] = path
    # Python remembers the folder that it found first; None lets it look again.
    tempfile.tempdir = None


def wait_for_end(lifeline: int) -> None:
    """Wait until the controller ends this process, so that sent messages are delivered."""
    select.select([lifeline], [], [])


def set_name(name: str) -> None:
    """Set the name that ``ps`` and ``top`` show; 15 bytes at most."""
    _prctl(_PR_SET_NAME, name.encode()[:15])


def sleep_until(at_ns: int) -> None:
    """Sleep until a time of the run's clock, and spend the last microseconds awake."""
    while (left := at_ns - run_clock.now_ns()) > 0:
        if left > _SPIN_BELOW_NS:
            time.sleep((left - _SPIN_BELOW_NS) / 1e9)


def direct_output(path: str) -> None:
    """Append standard output and error of this process to a file from now on."""
    # Buffered output belongs to the stream before this change.
    sys.stdout.flush()
    sys.stderr.flush()
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    os.dup2(fd, 1)
    os.dup2(fd, 2)
    os.close(fd)


def thread_names() -> tuple[str, ...]:
    """Return the names of this process's threads, in the order of their ids."""
    tasks = Path("/proc/self/task")
    return tuple((tasks / task / "comm").read_text().strip() for task in sorted(os.listdir(tasks)))


def children() -> list[int]:
    """Return the children of this process, adopted ones included."""
    me = os.getpid()
    return [pid for pid, parent in parents().items() if parent == me]


def parents() -> dict[int, int]:
    """Return the parent of every process of this machine, by process id."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                # The name, in parentheses, may hold spaces and parentheses itself; after the last
                # one come the state and the parent.
                stat = (entry / "stat").read_text()
                found[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
    return found


def kernel_lines(path: Path) -> list[str]:
    """Read the lines of a file of the kernel; none if it cannot be read."""
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


def return_freed_memory() -> None:
    """Return memory freed inside this process to the system, as far as possible."""
    if hasattr(_LIBC, "malloc_trim"):  # of glibc
        _LIBC.malloc_trim(0)


def map_large_memory(least_bytes: int) -> None:
    """Let allocations of this size and more go back to the system as soon as they are freed.

    In the heap those of one size, one after another, may leave a hole each.
    """
    if hasattr(_LIBC, "mallopt"):  # of glibc
        _LIBC.mallopt(_M_MMAP_MAX, _MAPPINGS)
        _LIBC.mallopt(_M_MMAP_THRESHOLD, least_bytes)


def child_controllers(cgroup: Path) -> list[str]:
    """Return the controllers that children of a cgroup of version 2 have."""
    return " ".join(kernel_lines(cgroup / "cgroup.subtree_control")).split()


def end_all_marked(mark: bytes, timeout_s: float = 3.0) -> None:
    """Kill every process whose environment has this entry, until none is left.

    They may be children of other processes, so this one cannot wait for them.
    """
    deadline = time.monotonic() + timeout_s
    while (found := marked(mark)) and time.monotonic() < deadline:
        for pid in found:
            kill(pid)
        time.sleep(0.005)


def kill(pid: int, *, group: bool = False) -> None:
    """Send SIGKILL to a process, or to a whole process group; do nothing if it has gone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        (os.killpg if group else os.kill)(pid, signal.SIGKILL)


def end_all_children(timeout_s: float = 5.0, keep: Collection[int] = ()) -> None:
    """Kill and reap every descendant; orphans of a killed child become ours and are next.

    ``keep``: children that are left alone.
    """
    deadline = time.monotonic() + timeout_s
    while (found := [pid for pid in children() if pid not in keep]) and time.monotonic() < deadline:
        for pid in found:
            kill(pid, group=True)
            kill(pid)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.001)


def fork_below() -> None:
    """Go on in a child, while this process waits for it and then ends as it did.

    User code may kill its parent. Then it has killed a process that is there for it alone.
    """
    me = os.getpid()
    try:
        child = os.fork()
    except BlockingIOError:
        leave(FULL_CODE)
    if not child:
        global _known_as
        _known_as = me
        die_with_parent(me)
        return
    set_name("warren-parent")
    _, status = os.waitpid(child, 0)
    os.nice(_LATER)
    # A parent that waits for this process sees the child's exit code or signal.
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        # If a core dump is wanted, it is the child's, not one of this process too.
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        # The default action of SIGKILL cannot be set, and need not be.
        with contextlib.suppress(OSError):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(me, -code)
    os._exit(code)


def end_as_killed() -> NoReturn:
    """End this process as if killed: something that it needs is gone."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise SystemExit(1)  # not reached


def leave(code: int) -> NoReturn:
    """End this process at once, with a lower priority than processes that compute.

    To give back the memory of a fork takes milliseconds of a core, and all processes of a job end
    together: at the moment at which the job that waited for its devices begins.
    """
    os.nice(_LATER)
    os._exit(code)


def leave_short() -> NoReturn:
    """End this process since its device has too little memory; its log is kept."""
    sys.stdout.flush()
    sys.stderr.flush()
    leave(SHORT_CODE)


def known_as() -> int:
    """Return the id by which the zygote knows this process: that of its parent by ``fork_below``.

    Its own id if the zygote has forked it directly.
    """
    return _known_as or os.getpid()


def how_it_ended(status: int) -> str:
    """Say a wait status in words; empty for a clean end."""
    return in_words(os.waitstatus_to_exitcode(status))


FULL_CODE: Final = 113
"""Exit code of a process that could start no other one."""
SHORT_CODE: Final = 112
"""Exit code of a process whose device had too little memory."""
SHORT_OF_MEMORY: Final = "its device had too little memory"
"""The description of that end."""


def in_words(code: int) -> str:
    """Say an exit code, negative for a signal, in words; empty for a clean end."""
    if code == SHORT_CODE:
        return SHORT_OF_MEMORY
    if code == FULL_CODE:
        return no_more_processes()
    if code < 0:
        with contextlib.suppress(ValueError):
            return f"killed by {signal.Signals(-code).name}"
        return f"killed by signal {-code}"
    return f"exit status {code}" if code else ""


def no_more_processes() -> str:
    """Say that no process can be started, and name the lowest limit that holds for this one.

    Threads count as processes.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    found = [] if soft == resource.RLIM_INFINITY else [(soft, "of this user, `ulimit -u`")]
    files = [Path("/proc/sys/kernel/pid_max")]
    for line in kernel_lines(Path("/proc/self/cgroup")):
        _, controllers, path = line.split(":", 2)
        if controllers in ("", "pids"):
            group = Path("/sys/fs/cgroup", controllers, path.lstrip("/"))
            files += [one / "pids.max" for one in (group, *group.parents)]
    for file in files:
        found += [(int(text), str(file)) for text in kernel_lines(file)[:1] if text.isdigit()]
    limit, where = min(found, default=(0, "an unknown limit"))
    return f"no more processes can be started: {limit} are allowed ({where})"


class NoInterrupt:
    """A context in which signals that end a run wait until it is over: nothing is left half done.

    A process that is started in it begins with these signals blocked, and has to unblock them.
    """

    def __enter__(self) -> None:
        self._old = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)

    def __exit__(self, *_: object) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._old)


def core_of(device: int) -> int:
    """Return the core of a device: the i-th of this process's cores for device i, cyclically."""
    cores = sorted(os.sched_getaffinity(0))
    return cores[device % len(cores)]
