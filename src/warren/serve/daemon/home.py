"""The home of a service: a folder that one daemon has at a time."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from warren.model.errors import Problem, SpecError

DEFAULT: Final = "~/.warren/serve"
"""Home of a service where none is named."""
_LONGEST: Final = 107
"""Most bytes of the path of a Unix socket."""


@contextmanager
def home_of_service(home: Path, *, as_root: bool) -> Iterator[Path]:
    """Make a folder the home of a service, and keep other daemons out until the block ends.

    Parameters
    ----------
    home
        The folder; made if it is missing.
    as_root
        Whether users of other accounts shall reach the socket in it.

    Raises
    ------
    SpecError
        If the folder cannot be used, belongs to another account, or has a daemon.
    """
    home = home.absolute()
    if len(os.fsencode(home / "agent.sock")) > _LONGEST:
        most = _LONGEST - len("/agent.sock")
        raise _refused(home, f"the path is too long for a socket in it; at most {most} bytes")
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        state = home.stat()
        if state.st_uid != os.geteuid():
            raise _refused(home, f"belongs to another account (uid {state.st_uid})")
        # Users go through the folder to the socket, and read nothing else.
        os.chmod(home, 0o711 if as_root else 0o700)
        lock = os.open(home / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _refused(home, error.strerror or str(error)) from None
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            process = os.pread(lock, 20, 0).decode(errors="replace").strip() or "?"
            raise _refused(home, f"another warren serve runs here (process {process})") from None
        with suppress(OSError):  # a full disk; the number is for people alone
            os.ftruncate(lock, 0)
            os.pwrite(lock, str(os.getpid()).encode(), 0)
        yield home
    finally:
        os.close(lock)


def remove_socket(path: Path) -> None:
    """Remove a socket that an earlier daemon has left; raises SpecError if it is something else."""
    try:
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            raise _refused(path, "is there and is no socket")
        path.unlink()
    except FileNotFoundError:
        return


def _refused(path: Path, message: str) -> SpecError:
    return SpecError(Problem(file=str(path), message=message))
