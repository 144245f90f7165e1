"""Temporary folders that are removed with the process that made them, however it ends.

A kill may come at any moment, so the guard that removes a folder is started before the folder
exists: it gets an unused name, and then the folder is made. Where the guard was killed together
with that process, the next run removes the folder: nothing holds its lock any more.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import shutil
import tempfile
import time
from pathlib import Path
from typing import Final

from warren.live.process.cleanup_guard import marked
from warren.live.process.linux import NoInterrupt
from warren.live.process.process_pool import CleanupGuard, mark_of

_PATH_MAX: Final = 60
"""Longest path of a folder for sockets: a socket's path, with its name, has 107 bytes at most."""
_LEFT_S: Final = 3600.0
"""Age from which on a folder that nothing holds is removed, in seconds."""
_NAME: Final = re.compile(r"warren-([a-z]+-)?[0-9a-f]{12}")


def free_path(prefix: str = "warren-", *, short: bool = False) -> Path:
    """Return a path for a new temporary folder, by a name that cannot be guessed.

    Parameters
    ----------
    prefix : str
        The beginning of the name.
    short : bool
        Whether sockets will be in the folder; their paths have a limited length.
    """
    name = prefix + secrets.token_hex(6)
    folder = Path(tempfile.gettempdir()) / name
    if short and len(str(folder)) > _PATH_MAX:
        return Path("/tmp") / name  # noqa: S108
    return folder


def hold(folder: Path) -> int:
    """Lock a folder until this process ends or closes the file; returns the open folder."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(fd)
        raise
    return fd


def remove_left_folders() -> None:
    """Remove temporary folders that runs of this user have left, killed together with their guards.

    A folder is left alone if it is younger than an hour, a link, or of a run that lives.
    """
    for base in {free_path().parent, free_path(short=True).parent}:
        with contextlib.suppress(OSError), os.scandir(base) as entries:
            for entry in entries:
                if _NAME.fullmatch(entry.name):
                    with contextlib.suppress(OSError):
                        _remove_left(Path(entry.path))


def _remove_left(folder: Path) -> None:
    """Remove a folder if its run has left it; raises OSError if it is none, or is held."""
    found = folder.lstat()
    if found.st_uid != os.geteuid() or time.time() - found.st_mtime < _LEFT_S:
        return
    fd = hold(folder)
    try:
        (entry,) = mark_of(folder).items()
        # A run of an earlier version holds no lock, but its processes have its mark.
        if not marked("=".join(entry).encode()):
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(fd)


class ScratchFolder:
    """A context with a temporary folder that only this user may enter."""

    def __init__(self, prefix: str = "warren-") -> None:
        self.path = free_path(prefix)

    def __enter__(self) -> Path:
        # Between guard and folder no signal may end the process: ``__exit__`` would not be called.
        with NoInterrupt():
            self._guard = CleanupGuard(self.path)
            try:
                self.path.mkdir(mode=0o700)
                self._held = hold(self.path)
            except BaseException:
                self._guard.close()
                raise
        return self.path

    def __exit__(self, *_: object) -> None:
        with NoInterrupt():
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._held)
            # The guard removes files that were still being written.
            self._guard.close()
