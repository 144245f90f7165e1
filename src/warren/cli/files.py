"""The only place that touches the disk for everybody else: input files and output folders."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

from warren.model.errors import Problem, SpecError

MAX_INPUT_BYTES: Final = 1 << 30
OUTPUT_FILES: Final = (
    "run.yaml", "summary.json", "report.html", "trace.json", "journal", "devices.csv",
    "profile.csv", "jobs.csv", "timeline.parquet",
)  # fmt: skip


def read(path: str) -> bytes:
    """The content of an input file.

    Raises
    ------
    OSError
        If it cannot be read, is not a regular file, or is larger than ``MAX_INPUT_BYTES``.
    """
    file = Path(path)
    if not file.is_file():
        raise FileNotFoundError(
            f"no such file: {path}" if not file.exists() else f"not a file: {path}"
        )
    if file.stat().st_size > MAX_INPUT_BYTES:
        raise OSError(f"larger than {MAX_INPUT_BYTES >> 20} MiB: {path}")
    return file.read_bytes()


def write_atomic(path: Path, content: bytes | str) -> None:
    """Write beside and rename, so that a reader sees the old file or the new one."""
    data = content.encode() if isinstance(content, str) else content
    beside = path.with_name(f".{path.name}.part")
    beside.write_bytes(data)
    os.replace(beside, path)


class OutputDir:
    """A new folder for one run's results, with the journal open for appending.

    If the run fails before ``keep`` was called and the folder did not exist before, leaving the
    context removes it again: wrong input leaves nothing behind.
    """

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self._made = False
        self._keep = False

    def __enter__(self) -> Self:
        try:
            if self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir())):
                raise _refused(self.path, "exists already and is not an empty folder")
            self._made = not self.path.exists()
            self.path.mkdir(parents=True, exist_ok=True)
            self._journal = (self.path / "journal").open("wb", buffering=1 << 20)
        except OSError as error:
            raise _refused(self.path, f"cannot be written: {error.strerror or error}") from None
        return self

    def __exit__(self, *_: object) -> None:
        self._journal.close()
        if self._keep:
            return
        if self._made:
            shutil.rmtree(self.path, ignore_errors=True)
        else:
            (self.path / "journal").unlink(missing_ok=True)

    def keep(self) -> None:
        """From now on the folder stays, whatever happens: a run has begun."""
        self._keep = True

    def journal(self, data: bytes) -> None:
        """Append to the journal."""
        self._journal.write(data)

    def journal_bytes(self) -> bytes:
        """All of the journal so far."""
        self._journal.flush()
        return (self.path / "journal").read_bytes()

    def write(self, files: Mapping[str, bytes | str]) -> None:
        """Write result files, each by rename."""
        for name, content in files.items():
            write_atomic(self.path / name, content)


def free_dir(stem: str) -> str:
    """``stem``, or ``stem-2``, ``stem-3``, ...: the first that is not there yet."""
    path, number = Path(stem), 1
    while path.exists():
        number += 1
        path = Path(f"{stem}-{number}")
    return str(path)


def read_dir(path: str) -> dict[str, bytes]:
    """The result files of a run's folder, by name; those that are missing are left out."""
    folder = Path(path)
    if not folder.is_dir():
        raise _refused(folder, "is not a folder")
    files = {name: folder / name for name in OUTPUT_FILES}
    found = {name: file.read_bytes() for name, file in files.items() if file.is_file()}
    if "journal" not in found and "jobs.csv" not in found:
        raise _refused(folder, "is not the folder of a run (no journal and no jobs.csv)")
    return found


def _refused(path: Path, message: str) -> SpecError:
    return SpecError(Problem(file=str(path), message=message))
