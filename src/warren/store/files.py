"""Input files read and output folders written, with errors that name the path."""

from __future__ import annotations

import errno
import io
import json
import os
import stat
from pathlib import Path
from typing import Any, Final

from warren.model.errors import Problem, SpecError

MAX_INPUT_BYTES: Final = 1 << 30
"""A larger input is refused rather than read into memory."""
MAX_RESULT_BYTES: Final = 1 << 32
"""Largest file of a run's folder, in bytes, that is read into memory."""
DISK_ERRORS: Final = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO}
)
"""Errors of a disk that are not faults of the program: a full disk, for example."""
# The files of every run's folder. ``read_dir`` reads these, ``MORE_FILES``, and nothing else that
# may lie there.
OUTPUT_FILES: Final = (
    "run.yaml",
    "summary.json",
    "report.html",
    "trace.json",
    "journal",
    "devices.csv",
    "profile.csv",
    "jobs.csv",
    "timeline.parquet",
)
MORE_FILES: Final = ("links.parquet", "servers.csv", "users.csv")
"""Files of some runs: those that counted bytes on links, and those whose jobs have users."""


def read(path: str | Path, limit: int = MAX_INPUT_BYTES) -> bytes:
    """Return the content of a file that anybody may have put there.

    Raises OSError if it cannot be read, is not a regular file, or is larger than ``limit`` bytes;
    the text does not repeat the path.
    """
    try:
        with open_regular(path) as file:
            if os.fstat(file.fileno()).st_size > limit:
                raise OSError(f"larger than {limit:,} bytes")
            return file.readall()
    except FileNotFoundError:
        raise FileNotFoundError("no such file") from None
    except (OSError, ValueError) as error:  # ValueError: a null byte in the name
        raise OSError(getattr(error, "strerror", None) or str(error)) from None


def parsed_json(text: bytes | str) -> Any:
    """Return the value of a JSON text that anybody may have written.

    Raises ValueError if it is no JSON, or is nested too deeply to be read.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def open_regular(path: str | Path) -> io.FileIO:
    """Open a file for reading without a buffer; a pipe or a device could be read for ever.

    Raises OSError if it cannot be opened or is not a regular file.
    """
    # Without O_NONBLOCK opening a pipe waits for its other end.
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "not a file", str(path))
    return io.FileIO(fd)


def write_atomic(path: Path, content: bytes | str, *, replace: bool = True) -> None:
    """Write a file beside its place and rename it, so that readers see the old one or the new one.

    It is for pages, tables and other results that a command makes again from its input. They are
    not synced to the disk: after a loss of power one may be empty. What a run needs to go on, its
    checkpoints, is (``live/training/checkpoints/files.py``; decision 0011).

    Raises SpecError if it cannot be written, or without ``replace`` if there is one; nothing is
    left beside.
    """
    data = content.encode() if isinstance(content, str) else content
    # In the same folder: a rename is atomic only within one file system. The name is this
    # process's own, as another one may write the same file at the same time.
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        beside.write_bytes(data)
        if replace:
            os.replace(beside, path)
        else:
            os.link(beside, path)  # which fails where a rename would replace
            beside.unlink()
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise unwritable(path, error) from None


def unwritable(path: Path, error: OSError) -> SpecError:
    """Return the error for a place that cannot be written to."""
    return refused(path, f"cannot be written: {error.strerror or error}")


def refused(path: Path, message: str) -> SpecError:
    """Return the error for a file or folder that cannot be used."""
    return SpecError(Problem(file=str(path), message=message))


def read_dir(path: str) -> dict[str, bytes]:
    """Return the result files of a run's folder, by name; missing files are left out.

    Raises SpecError if it is not such a folder, or a file of it cannot be read.
    """
    folder = Path(path)
    if not folder.exists():
        raise refused(folder, "no such folder")
    if not folder.is_dir():
        raise refused(folder, "is not a folder")
    found = {}
    for file in (folder / name for name in (*OUTPUT_FILES, *MORE_FILES)):
        try:
            if file.is_file():
                found[file.name] = read(file, MAX_RESULT_BYTES)
        except OSError as error:
            raise refused(file, f"cannot be read: {error}") from None
    if "journal" not in found and "jobs.csv" not in found:
        raise refused(folder, "is not the folder of a run (no journal and no jobs.csv)")
    return found
