"""The only place that touches the disk for everybody else: input files and output folders."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

from warren.model.errors import Problem, SpecError

MAX_INPUT_BYTES: Final = 1 << 30
"""A larger input is refused rather than read into memory."""
DISK_ERRORS: Final = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO}
)
"""Errors of a disk that are no fault of the program, such as a full one."""
# The files of every run's folder. ``read_dir`` reads these, ``LINK_FILES``, and nothing else that
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
LINK_FILES: Final = ("links.parquet", "servers.csv")
"""Files that the folder of a run has besides whose bytes on links were counted."""


def read(path: str) -> bytes:
    """Return the content of an input file.

    Raises OSError if it cannot be read, is not a regular file, or is larger than
    ``MAX_INPUT_BYTES``; the text does not repeat the path.
    """
    file = Path(path)
    try:
        if not file.exists():
            raise FileNotFoundError("no such file")
        # A pipe or a device could be read for ever.
        if not file.is_file():
            raise OSError("not a file")
        if file.stat().st_size > MAX_INPUT_BYTES:
            raise OSError(f"larger than {MAX_INPUT_BYTES >> 20} MiB")
        return file.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a null byte in the name
        raise OSError(getattr(error, "strerror", None) or str(error)) from None


def write_atomic(path: Path, content: bytes | str) -> None:
    """Write a file beside its place and rename it, so that readers see the old one or the new one.

    Raises SpecError if it cannot be written; nothing is left beside.
    """
    data = content.encode() if isinstance(content, str) else content
    # In the same folder: a rename is atomic only within one file system.
    beside = path.with_name(f".{path.name}.part")
    try:
        beside.write_bytes(data)
        os.replace(beside, path)
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
    """Return the result files of a run's folder, by name; those that are missing are left out.

    Raises SpecError if it is no such folder, or a file of it cannot be read.
    """
    folder = Path(path)
    if not folder.exists():
        raise refused(folder, "no such folder")
    if not folder.is_dir():
        raise refused(folder, "is not a folder")
    files = {name: folder / name for name in (*OUTPUT_FILES, *LINK_FILES)}
    try:
        found = {name: file.read_bytes() for name, file in files.items() if file.is_file()}
    except OSError as error:
        raise refused(folder, f"cannot be read: {error.strerror or error}") from None
    if "journal" not in found and "jobs.csv" not in found:
        raise refused(folder, "is not the folder of a run (no journal and no jobs.csv)")
    return found
