"""Temporary folders that are removed with the process that made them, however it ends.

A kill may come at any moment, so what removes a folder is there before the folder: a guard is
started with a name that nobody has, and then the folder is made.
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
"""A Unix socket's path is limited to 107 bytes, the socket's own name included."""


def free_path(prefix: str = "warren-", *, short: bool = False) -> Path:
    """Return a path at which a temporary folder can be made, by a name that cannot be guessed.

    Parameters
    ----------
    prefix : str
        How the name begins.
    short : bool
        Whether sockets are to be in the folder, whose paths have a limited length.
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
            # The guard removes what was still being written.
            self._guard.close()
