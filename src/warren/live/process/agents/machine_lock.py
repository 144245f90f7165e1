"""The lock of a host on its machine: one agent at a time, and nothing of those before it left."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from pathlib import Path
from typing import Final

from warren.live.process.linux import end_all_marked
from warren.live.process.process_pool import mark_of

_LOOK_S: Final = 0.02
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")


class MachineLock:
    """Holds the lock until the process ends, however it does.

    Waits for an agent that has it, and then ends what that one has left.

    Parameters
    ----------
    path
        The file of the lock, which says how many agents there were and the folder of the last.
    folder
        The folder of this agent, whose name marks the processes that it starts.
    wait_s
        How long another agent may hold it.

    Attributes
    ----------
    agent
        How many agents have had the lock before.

    Raises
    ------
    TimeoutError
        Another agent holds it.
    """

    def __init__(self, path: Path, folder: Path, wait_s: float = 30.0) -> None:
        self._path = path
        self._file = self._locked(time.monotonic() + wait_s)
        count, _, former = os.read(self._file, 4096).decode().partition(" ")
        self.agent = int(count or 0)
        if former:
            (entry,) = mark_of(Path(former)).items()
            end_all_marked("=".join(entry).encode())
        os.pwrite(self._file, f"{self.agent + 1} {folder}".encode(), 0)
        os.ftruncate(self._file, len(f"{self.agent + 1} {folder}"))

    def remove(self) -> None:
        """Remove the file: nothing runs here any more, and no controller of this run is left."""
        with contextlib.suppress(FileNotFoundError):
            self._path.unlink()

    def _locked(self, until_s: float) -> int:
        """Open and lock the file, which may be removed meanwhile by who had it."""
        while True:
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            with contextlib.suppress(BlockingIOError, FileNotFoundError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(file), self._path.stat()):
                    return file
            os.close(file)
            if time.monotonic() > until_s:
                raise TimeoutError(f"another agent holds {self._path}")
            time.sleep(_LOOK_S)


def machine() -> str:
    """Return what this machine is called since it was started."""
    return _BOOT.read_text().strip()
