"""Temporary folders that are removed with the process that made them, however it ends.

A kill may come at any moment, so the guard that removes a folder is started before the folder
exists: it gets an unused name, and then the folder is made.
"""

from __future__ import annotations

import secrets
import shutil
import tempfile
from pathlib import Path
from typing import Final

from warren.live.process.linux import NoInterrupt
from warren.live.process.process_pool import CleanupGuard

_PATH_MAX: Final = 60
"""Longest path of a folder for sockets: a socket's path, with its name, has 107 bytes at most."""


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
            except BaseException:
                self._guard.close()
                raise
        return self.path

    def __exit__(self, *_: object) -> None:
        with NoInterrupt():
            shutil.rmtree(self.path, ignore_errors=True)
            # The guard removes files that were still being written.
            self._guard.close()
