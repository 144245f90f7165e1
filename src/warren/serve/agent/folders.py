"""Files of an agent: its home, and a folder an attempt, in which its record and its log are.

::

    HOME/lock                   held by the one agent of this home
    HOME/id                     a random name, which is the agent's own
    HOME/live/12.1              this attempt has a record: it runs, or its end is not forgotten
    HOME/attempts/12.1/         made once; an attempt whose folder is there never starts again
        output                  what the command wrote; stays when the record is forgotten
        order.json              what to start
        lock                    held by the runner as long as it lives
        runner.json             written before the command may run: the runner's process
        started                 written when the command runs: the time
        stop                    asks the runner to end the attempt: the grace
        end.json                how the attempt ended
        attach                  socket of the runner, for shells in the allocation
    HOME/checkpoints/12/        a folder a job, the same for all its attempts

A file is written beside its place and renamed, so no reader sees half of it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from warren.serve.agent import processes
from warren.serve.hosts.port import CommandEnded, StartOrder

NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:+-]{0,99}")
"""Names of attempts, which are names of folders, too."""
_T = TypeVar("_T")
_RECORD: Final = ("order.json", "lock", "runner.json", "started", "stop", "end.json", "attach")


class RunnerProcess(msgspec.Struct, frozen=True):
    """Which process a runner is, and where the processes of its attempt are.

    ``start_ticks`` and ``boot_id`` tell it from a later process with the same ``pid``. ``cgroup``
    is the attempt's folder in the cgroup file system; empty if it has none.
    """

    pid: int
    start_ticks: int
    boot_id: str
    cgroup: str = ""


class AgentInUse(Exception):
    """Another agent has this home; the text is one line."""


class AttemptFolder:
    """The record and the log of one attempt."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.name = os.path.basename(path)

    def file(self, name: str) -> str:
        """Return the path of a file of the folder."""
        return f"{self.path}/{name}"

    def has(self, name: str) -> bool:
        """Tell whether a file is there."""
        return os.path.exists(self.file(name))

    def write(self, name: str, content: bytes, *, sync: bool = False) -> None:
        """Write a file as a whole; with ``sync`` it is on disk before the call returns.

        Raises OSError if the disk does not take it.
        """
        beside = self.file(f".{name}.part")
        fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            left = memoryview(content)
            while left:
                left = left[os.write(fd, left) :]
            if sync:
                os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(beside, self.file(name))

    def lock(self) -> int | None:
        """Return the open lock of the folder's runner, or None if another process holds it.

        Raises OSError if it cannot be opened.
        """
        fd = os.open(self.file("lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return None
        return fd

    def order(self) -> StartOrder | None:
        """Return what to start; None if that was never written."""
        return _decoded(self.file("order.json"), StartOrder)

    def runner(self) -> RunnerProcess | None:
        """Return which process the runner is; None before the command may run."""
        return _decoded(self.file("runner.json"), RunnerProcess)

    def started_ns(self) -> int | None:
        """Return when the command began to run, in nanoseconds since 1970; None before that."""
        return _decoded(self.file("started"), int)

    def stop_grace_s(self) -> float | None:
        """Return the grace of the order to end the attempt, in seconds; None without an order."""
        return _decoded(self.file("stop"), float)

    def end(self) -> CommandEnded | None:
        """Return how the attempt ended; None before that."""
        return _decoded(self.file("end.json"), CommandEnded)

    def write_end(self, end: CommandEnded) -> None:
        """Write how the attempt ended, on disk; raises OSError if the disk does not take it."""
        self.write("end.json", msgspec.json.encode(end), sync=True)

    def read_output(self, offset: int, limit: int) -> bytes:
        """Return up to ``limit`` bytes of the log from ``offset`` on; nothing if there is none."""
        try:
            fd = os.open(self.file("output"), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return b""
        try:
            return os.pread(fd, limit, offset)
        finally:
            os.close(fd)


class AgentHome:
    """The folder of one agent.

    Parameters
    ----------
    path
        The folder; made if it is missing. Accounts of jobs may go through it, not look into it.

    Raises
    ------
    AgentInUse
        Another agent has it.
    OSError
        It cannot be made or written.
    """

    def __init__(self, path: Path) -> None:
        self.path = os.path.realpath(path)
        for folder in ("", "attempts", "live", "checkpoints"):
            os.makedirs(os.path.join(self.path, folder), mode=0o711, exist_ok=True)
        self._lock = os.open(f"{self.path}/lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise AgentInUse(f"another agent uses {self.path}") from None
        self.id = self._own_id()

    def _own_id(self) -> str:
        path = f"{self.path}/id"
        with contextlib.suppress(OSError):
            known = Path(path).read_text()
            if re.fullmatch(r"[0-9a-f]{16}", known):
                return known
        made = os.urandom(8).hex()
        Path(f"{path}.part").write_text(made)
        os.rename(f"{path}.part", path)
        return made

    def folder(self, attempt: str) -> AttemptFolder:
        """Return the folder of an attempt, which need not be there.

        Raises ValueError if the name is none of an attempt.
        """
        return attempt_folder(self.path, attempt)

    def make(self, attempt: str) -> AttemptFolder | None:
        """Make the folder of an attempt, or return None if it was made before.

        Raises OSError if the disk does not take it.
        """
        folder = self.folder(attempt)
        if os.path.exists(folder.path):
            return None
        mark = f"{self.path}/live/{attempt}"
        os.close(os.open(mark, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        try:
            os.mkdir(folder.path, 0o711)
        except FileExistsError:
            return None
        except OSError:
            os.unlink(mark)
            raise
        return folder

    def live(self) -> list[AttemptFolder]:
        """Return the folders of all attempts that have a record."""
        found = []
        for name in os.listdir(f"{self.path}/live"):
            folder = self.folder(name) if NAME.fullmatch(name) else None
            if folder is not None and os.path.isdir(folder.path):
                found.append(folder)
            else:  # the agent was ended before it made the folder
                os.unlink(f"{self.path}/live/{name}")
        return sorted(found, key=lambda folder: folder.name)

    def forget(self, folder: AttemptFolder) -> None:
        """Delete the record of an attempt; its log stays, and it still never starts again."""
        for name in _RECORD:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(folder.file(name))
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{self.path}/live/{folder.name}")

    def sync_attempts(self) -> None:
        """Have the disk hold which attempts were made, before one of them may run."""
        fd = os.open(f"{self.path}/attempts", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def attempt_folder(home: str, attempt: str) -> AttemptFolder:
    """Return the folder of an attempt in an agent's home; it need not be there.

    Raises ValueError if the name is none of an attempt.
    """
    if not NAME.fullmatch(attempt):
        raise ValueError(f"{attempt[:100]!r} is no name of an attempt")
    return AttemptFolder(f"{home}/attempts/{attempt}")


def this_process(cgroup: str) -> RunnerProcess:
    """Return what tells this process from all others."""
    pid = os.getpid()
    ticks = processes.start_ticks(pid)
    assert ticks is not None
    return RunnerProcess(pid, ticks, processes.boot_id(), cgroup)


def _decoded(path: str, kind: type[_T]) -> _T | None:
    """Return the value in a file; None if the file is missing or holds something else."""
    try:
        with open(path, "rb") as file:
            return msgspec.json.decode(file.read(), type=kind)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in (errno.ENOTDIR, errno.ELOOP):
            return None
        raise
    except msgspec.MsgspecError:
        return None
