"""Files of an agent: its home, and a folder an attempt, in which its record and its log are.

::

    HOME/lock                   held by the one agent of this home
    HOME/id                     a random name, which is the agent's own
    HOME/live/12.1              the order of an attempt that runs, or whose end is not forgotten
    HOME/attempts/12.1/         made once; an attempt whose folder is there never starts again;
                                the folder is locked by the runner as long as it lives
        output                  what the command wrote; stays when the record is forgotten
        record                  a line each: the runner's process, before the command may run; the
                                start of the command; the end of the attempt
        stop                    asks the runner to end the attempt: the grace
        preempt                 beside it where the job is preempted
        requeue                 what ``scontrol requeue`` of the command wrote
        attach                  socket of the runner, for shells in the allocation
    HOME/checkpoints/12/        a folder a job, the same for all its attempts
    HOME/slurm/scontrol         the program that jobs for Slurm find on their PATH

Each file that is made and deleted costs a job a part of a millisecond, so there are few.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import stat
from pathlib import Path
from typing import Final

import msgspec

from warren.serve.agent import processes
from warren.serve.hosts.port import CommandEnded, CommandStarted, StartOrder

NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:+-]{0,99}")
"""Names of attempts, which are names of folders, too."""
_RECORD: Final = ("attach", "stop", "preempt", "requeue", "record")
"""Files of an attempt that are deleted when it is forgotten."""


class RunnerProcess(msgspec.Struct, frozen=True, tag="runner"):
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


class AttemptRecord(msgspec.Struct):
    """What the record of an attempt says: its runner, when its command began, how it ended.

    Without a runner the command never ran.
    """

    runner: RunnerProcess | None = None
    started_ns: int | None = None
    end: CommandEnded | None = None


_LINE: Final = msgspec.json.Decoder(RunnerProcess | CommandStarted | CommandEnded)


class AttemptFolder:
    """The record and the log of one attempt."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.name = os.path.basename(path)

    def file(self, name: str) -> str:
        """Return the path of a file of the folder."""
        return f"{self.path}/{name}"

    def lock(self) -> int | None:
        """Return the open folder, locked; None if its runner lives and holds the lock.

        Raises OSError if it cannot be opened.
        """
        fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return None
        return fd

    def add(
        self, line: RunnerProcess | CommandStarted | CommandEnded, *, sync: bool = False
    ) -> None:
        """Add a line to the record; with ``sync`` it is on disk before the call returns.

        Raises OSError if the disk does not take it.
        """
        # The end of a line comes first, too: the one before may be broken by a full disk.
        content = b"\n" + msgspec.json.encode(line) + b"\n"
        _write(self.file("record"), os.O_APPEND, content, sync=sync)

    def record(self) -> AttemptRecord:
        """Return what the record says; raises OSError if it cannot be read."""
        found = AttemptRecord()
        for line in _content(self.file("record")).split(b"\n")[:-1]:
            with contextlib.suppress(msgspec.MsgspecError):
                match _LINE.decode(line):
                    case RunnerProcess() as runner:
                        found.runner = runner
                    case CommandStarted() as start:
                        found.started_ns = start.time_ns
                    case end:
                        found.end = end
        return found

    def ask_to_stop(self, grace_s: float, *, preempt: bool = False) -> None:
        """Write the order to end the attempt; raises OSError if the disk does not take it.

        That its job is preempted is beside it, where a runner of an earlier version does not look.
        """
        if preempt:
            _write(self.file("preempt"), os.O_TRUNC, b"1")
        else:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.file("preempt"))
        beside = self.file("stop.part")
        _write(beside, os.O_TRUNC, str(float(grace_s)).encode())
        os.rename(beside, self.file("stop"))

    def stop_grace_s(self) -> float | None:
        """Return the grace of the order to end the attempt, in seconds; None without an order."""
        content = _content(self.file("stop"))
        return float(content) if content else None

    def is_preempted(self) -> bool:
        """Tell whether the order to end the attempt asks its job to come back."""
        return bool(_content(self.file("preempt")))

    def is_requeued(self) -> bool:
        """Tell whether the command has called ``scontrol requeue``."""
        with contextlib.suppress(FileNotFoundError):
            return os.path.getsize(self.file("requeue")) > 0  # the command may write much
        return False

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

    def make(self, attempt: str, order: StartOrder | None) -> AttemptFolder | None:
        """Make the folder of an attempt, or return None if it was made before.

        Raises OSError if the disk does not take it.
        """
        folder = self.folder(attempt)
        if os.path.exists(folder.path):
            return None
        _write(self._order(attempt), os.O_TRUNC, msgspec.json.encode(order))
        try:
            os.mkdir(folder.path, 0o711)
        except OSError:
            os.unlink(self._order(attempt))
            raise
        return folder

    def order(self, attempt: str) -> StartOrder | None:
        """Return what an attempt that has a record shall start; None if that is not known."""
        try:
            return msgspec.json.decode(_content(self._order(attempt)), type=StartOrder | None)
        except msgspec.MsgspecError:
            return None

    def _order(self, attempt: str) -> str:
        return f"{self.path}/live/{attempt}"

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
        for path in (*map(folder.file, _RECORD), self._order(folder.name)):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)


def closed_folders(path: str) -> list[str]:
    """Return the folders on the way to a path, and the path, that other accounts may not enter."""
    way = (*reversed(Path(path).parents), Path(path))
    return [str(folder) for folder in way if not folder.stat().st_mode & stat.S_IXOTH]


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


def _write(path: str, flags: int, content: bytes, *, sync: bool = False) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | flags, 0o600)
    try:
        left = memoryview(content)
        while left:
            left = left[os.write(fd, left) :]
        if sync:
            os.fsync(fd)
    finally:
        os.close(fd)


def _content(path: str) -> bytes:
    """Return what is in a file; nothing if it is missing."""
    try:
        with open(path, "rb", buffering=0) as file:
            return file.readall()
    except FileNotFoundError:
        return b""
