"""The file of the secret that a coordinator shares with its agents."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path
from typing import Final

from warren.live.enforcement.requests import wrong
from warren.live.transport.tls import SECRET_BYTES

_MOST_SECRET: Final = 4096


def read_secret(path: Path, make: bool = False) -> bytes:
    """Read the secret of a file; ``make``: draw one first if there is none.

    Raises
    ------
    SpecError
        If it cannot be read, others may read it, or it is too short to be one.
    """
    if make:
        _make(path)
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            text = file.read(_MOST_SECRET + 1)
    except OSError as error:
        raise wrong("--token-file", f"{path}: {error.strerror}") from None
    if not stat.S_ISREG(status.st_mode) or status.st_mode & 0o077:
        raise wrong("--token-file", f"{path}: others may read or change it; try chmod 600")
    found = text.strip()
    if not SECRET_BYTES <= len(found) <= _MOST_SECRET:
        allowed = f"{SECRET_BYTES} to {_MOST_SECRET}"
        raise wrong("--token-file", f"{path}: has {len(found)} bytes; allowed: {allowed}")
    return found


def _make(path: Path) -> None:
    """Write a new secret for its owner alone, unless the file is there."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        with open(os.open(path, flags, 0o600), "w") as file:
            file.write(f"{secrets.token_hex(SECRET_BYTES)}\n")
    except FileExistsError:
        return
    except OSError as error:
        raise wrong("--token-file", f"{path}: {error.strerror}") from None
