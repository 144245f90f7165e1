"""The record of Warren's testbeds, made or about to be made, one file each, and the lock.

The file is written before the first part is made, so that a kill in between leaves a record of
everything that may exist. It is removed last.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from pathlib import Path
from typing import Final

import msgspec

from warren.live.testbed.iproute import refusal
from warren.model.testbed import Bed

FOLDER: Final = Path("/run/warren-testbed")
"""Folder of the records: one for the whole machine, as the names of namespaces are."""
_PATIENCE_S: Final = 30.0
"""Longest wait in seconds for the lock while another command holds it."""


class TestbedRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The record of one testbed: its shape, and all that was or may have been made for it.

    ``made`` False: the process that made it has not reported that it is done. ``namespaces`` also
    name the folders of hosts files; ``cgroups`` are paths.
    """

    format: int = 1
    bed: Bed
    namespaces: tuple[str, ...]
    cgroups: tuple[str, ...]
    made: bool = False


class TestbedRecords:
    """The folder of records, locked until the context ends; it goes when nothing is in it."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self.folder = folder
        self.lock = -1
        """The open file that holds the lock; see ``iproute.run_batch``."""

    def __enter__(self) -> TestbedRecords:
        deadline = time.monotonic() + _PATIENCE_S
        while self.lock < 0:
            if time.monotonic() > deadline:
                raise refusal(f"{self.folder} is in use by another command")
            self.lock = self._locked()
        return self

    def _locked(self) -> int:
        """Make the folder and lock it; return the open file, -1 if another command has the lock.

        Also -1 if the folder went meanwhile.
        """
        try:
            self.folder.mkdir(mode=0o755, exist_ok=True)
            fd = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            if not self.folder.parent.is_dir():
                raise refusal(f"{self.folder.parent} is not there") from None
            return -1
        except OSError as error:
            raise refusal(f"{self.folder} cannot be made: {error.strerror}") from None
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The last holder may have removed the folder that we have open.
            if os.fstat(fd).st_ino == self.folder.stat().st_ino:
                return fd
        except (BlockingIOError, FileNotFoundError):
            time.sleep(0.02)
        os.close(fd)
        return -1

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):  # not empty
            self.folder.rmdir()
        os.close(self.lock)
        self.lock = -1

    def names(self) -> list[str]:
        """Return the names of all testbeds with a record."""
        # Not those that begin with a dot: half-written ones, see ``write``.
        return sorted(path.stem for path in self.folder.glob("[!.]*.json"))

    def read(self, name: str) -> TestbedRecord | None:
        """Return the record of a testbed; None if there is none.

        Raises
        ------
        SpecError
            If it cannot be read.
        """
        path = self._path(name)
        try:
            return msgspec.json.decode(path.read_bytes(), type=TestbedRecord)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError) as error:
            down = f"`warren testbed down --name {name}` removes it and all it is about"
            raise refusal(f"{path} cannot be read: {error}; {down}") from None

    def write(self, record: TestbedRecord) -> None:
        """Write a record: beside its place and then renamed, so that it is whole at any moment."""
        path = self._path(record.bed.name)
        beside = self._beside(record.bed.name)
        beside.write_bytes(msgspec.json.encode(record) + b"\n")
        os.replace(beside, path)

    def remove(self, name: str) -> None:
        """Forget a testbed, and the remains of a killed ``write``."""
        for path in (self._beside(name), self._path(name)):
            path.unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.json"

    def _beside(self, name: str) -> Path:
        return self.folder / f".{name}.part"
