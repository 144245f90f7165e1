"""The lock of a host on its machine: one agent at a time, and nothing left of earlier agents."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import time
from pathlib import Path
from typing import Final

from warren.live.process.linux import end_all_marked
from warren.live.process.process_pool import mark_of

_LOOK_S: Final = 0.02


class MachineLock:
    """Holds the lock until the process ends, however it ends.

    Waits for an agent that holds it, and then ends the processes that this agent has left.

    Parameters
    ----------
    path
        The file of the lock. It holds a random name of the machine, the number of agents so far and
        the folder of the last.
    folder
        The folder of this agent, whose name marks the processes that the agent starts.
    wait_s
        Longest wait in seconds for another agent to release the lock.

    Attributes
    ----------
    machine
        The name of the machine: the same for all agents that this file has kept apart.
    agent
        Number of agents that have had the lock before.

    Raises
    ------
    TimeoutError
        Another agent holds it.
    OSError
        The file is not this user's.
    """

    def __init__(self, path: Path, folder: Path, wait_s: float = 30.0) -> None:
        self._path = path
        self._file = self._locked(time.monotonic() + wait_s)
        known = os.read(self._file, 4096).decode().split(" ", 2)
        self.machine, self.agent = secrets.token_hex(16), 0
        if len(known) == len(("machine", "agent", "folder")):
            self.machine, self.agent = known[0], int(known[1])
            (entry,) = mark_of(Path(known[2])).items()
            end_all_marked("=".join(entry).encode())
        text = f"{self.machine} {self.agent + 1} {folder}".encode()
        os.pwrite(self._file, text, 0)
        os.ftruncate(self._file, len(text))

    def fileno(self) -> int:
        """Return the file descriptor: a process that has it open keeps the lock."""
        return self._file

    def _locked(self, until_s: float) -> int:
        """Open and lock the file, which its last holder may remove meanwhile."""
        while True:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            file = os.open(self._path, flags, 0o600)
            if os.fstat(file).st_uid != os.geteuid():
                os.close(file)
                raise PermissionError(errno.EPERM, "is another user's", str(self._path))
            with contextlib.suppress(BlockingIOError, FileNotFoundError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(file), self._path.stat()):
                    return file
            os.close(file)
            if time.monotonic() > until_s:
                raise TimeoutError(f"another agent holds {self._path}")
            time.sleep(_LOOK_S)
