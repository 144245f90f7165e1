"""Processes that an agent forks and does not own: runners, and what cleans up after killed ones."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from typing import Final, NoReturn

from warren.serve.agent import cgroups, processes
from warren.serve.agent.command import mark
from warren.serve.agent.folders import AgentHome, AttemptFolder
from warren.serve.agent.runner import CANCEL_SIGNAL, Runner
from warren.serve.hosts.port import CommandEnded, StartOrder

_BLOCKED: Final = (
    *(signal.SIGTERM, signal.SIGCHLD, signal.SIGINT, signal.SIGHUP),
    CANCEL_SIGNAL,
)
"""Signals that wait from before the fork until the new process can take them."""
_DISK_RETRY_S: Final = 1.0
"""Time between two tries to write an end to a full disk, in seconds."""
_LOOK_S: Final = 0.01
"""Time between two looks for processes of a killed runner, in seconds."""
_LOOKS: Final = 2
"""Looks in a row that must find no process."""


def fork_runner(
    home: AgentHome,
    folder: AttemptFolder,
    order: StartOrder,
    limits: cgroups.Limits,
    notices: int,
    lock: int,
) -> int:
    """Fork the runner of an attempt, which takes over ``lock``; return its process id."""
    return _fork(
        folder, (lock, notices), lambda: Runner(home, folder, order, limits, notices).run()
    )


def fork_cleaner(folder: AttemptFolder, group: str, lock: int) -> int:
    """Fork what kills all processes of an attempt whose runner was killed, and writes its end.

    Parameters
    ----------
    folder
        The attempt's folder, which marks its processes.
    group
        Its cgroup; empty if it has none.
    lock
        The open lock of the folder, which the new process takes over.
    """
    return _fork(folder, (lock,), lambda: _clean(folder, group))


def _clean(folder: AttemptFolder, group: str) -> CommandEnded:
    processes.set_name(f"warren-clean {folder.name}")
    if group:
        cgroups.remove(group)
    empty = rounds = 0
    while empty < _LOOKS:
        found = processes.marked(mark(folder.path))
        processes.kill_once(found, rounds)
        empty, rounds = (0, rounds + 1) if found else (empty + 1, rounds)
        time.sleep(_LOOK_S)
    now_ns = time.time_ns()
    return CommandEnded("", folder.name, now_ns, "host", reason="its runner was killed")


def _fork(folder: AttemptFolder, keep: tuple[int, ...], work: Callable[[], CommandEnded]) -> int:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _BLOCKED)
    pid = os.fork()
    if pid == 0:
        _work(folder, keep, work)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return pid


def _work(
    folder: AttemptFolder, keep: tuple[int, ...], work: Callable[[], CommandEnded]
) -> NoReturn:
    """Do the work of a forked process, write the end, and leave."""
    try:
        _detach(keep)
        end = work()
        while True:
            try:
                folder.add(end, sync=True)
                break
            except OSError:  # the devices wait until the end is on disk
                time.sleep(_DISK_RETRY_S)
    except BaseException:
        import traceback  # which loads much

        with contextlib.suppress(OSError), open(folder.file("fault"), "w") as file:
            traceback.print_exc(file=file)
    finally:
        os._exit(0)


def _detach(keep: tuple[int, ...]) -> None:
    """Leave the agent: its session, its files, and its signals."""
    os.setsid()
    signal.set_wakeup_fd(-1)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in range(3):
        os.dup2(null, fd)
    last = 2
    for fd in sorted(keep):
        os.closerange(last + 1, fd)
        last = fd
    os.closerange(last + 1, 1 << 30)
