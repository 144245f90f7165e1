"""The folder of one run's results, and its state however the run ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Final, Self

from warren.model.errors import SpecError
from warren.model.run import Run
from warren.store.files import MORE_FILES, OUTPUT_FILES, refused, unwritable, write_atomic
from warren.store.signals import held

_BUFFER_BYTES: Final = 1 << 20
"""Most bytes of a simulation's journal that wait in memory before they are written."""
_TRIES: Final = 100
"""Number of times a folder is made that another process removes."""


class RunFolder:
    """A new folder with the journal open for appending.

    Leaving the context before ``keep`` was called removes all of it again, with the folders made
    above it: wrong input and broken simulations leave nothing behind. ``durable``: the system has
    every record as soon as it was appended, so that a killed run loses none. ``numbered``: where
    the name is taken, ``path`` becomes the first of NAME-2, NAME-3, ... that is not.
    """

    def __init__(self, path: str, *, durable: bool = False, numbered: bool = False) -> None:
        self.path = Path(path)
        self._numbered = numbered
        self.kept = False
        self.whole = False
        """Whether the tables that belong to the journal are written too."""
        self._room = 0 if durable else _BUFFER_BYTES
        self._pending = bytearray()
        # Folders that were made for this run, which go again if it leaves nothing.
        self._made: list[Path] = []

    def __enter__(self) -> Self:
        names = numbered_paths(self.path)
        while True:
            if self._numbered:
                self.path = next(name for name in names if not os.path.lexists(name))
            check_free(self.path)
            try:
                self._claim()
                return self
            except FileExistsError:  # another run took the folder just now
                if not self._numbered:
                    raise refused(self.path, "exists already; give a new folder") from None
            except SpecError:  # another run holds the journal, and the folder is its own
                raise
            except OSError as error:
                self._remove()
                raise unwritable(self.path, error) from None
            except BaseException:
                self._remove()
                raise

    def _claim(self) -> None:
        """Make the folder and its journal, which one of several runs that begin at once can.

        Raises FileExistsError if another run, or anything else, came first.
        """
        journal = self.path / "journal"
        for left in reversed(range(_TRIES)):
            try:
                self._make()
                # A run that was killed before it began has left an empty journal.
                made = not _never_began(self.path)
                flags = os.O_WRONLY | os.O_CLOEXEC | (os.O_CREAT | os.O_EXCL if made else 0)
                self._journal = os.open(journal, flags, 0o666)
                break
            except FileNotFoundError:  # a run that ended removed a folder above, or this one
                if not left:
                    raise
        try:
            lock(self._journal, self.path)
            # Between the open and the lock another run may have used a journal that was there.
            if not made and not (_is_at(self._journal, journal) and _never_began(self.path)):
                raise FileExistsError
            if len(os.listdir(self.path)) > 1:
                journal.unlink()
                raise FileExistsError
        except BaseException:
            os.close(self._journal)
            raise

    def __exit__(self, *_: object) -> None:
        with held():
            with contextlib.suppress(OSError):
                os.close(self._journal)
            if not self.kept:
                self._remove()

    def keep(self) -> None:
        """Keep the folder from now on, whatever happens."""
        self.kept = True

    def journal(self, data: bytes) -> None:
        """Append to the journal.

        Raises SpecError if it cannot be written, such as on a full disk.
        """
        self._pending += data
        if len(self._pending) > self._room:
            self._flush()

    def journal_bytes(self) -> bytes:
        """Return all of the journal so far."""
        self._flush()
        return (self.path / "journal").read_bytes()

    def write(self, files: Mapping[str, bytes | str]) -> None:
        """Write result files, each by rename; ``FOLDER/NAME`` lies in a folder of its own.

        Raises SpecError if one cannot be written.
        """
        for name, content in files.items():
            path = self.path / name
            try:
                path.parent.mkdir(exist_ok=True)
            except OSError as error:
                raise unwritable(path.parent, error) from None
            write_atomic(path, content)

    def cut(self, size: int) -> None:
        """Cut the journal to ``size`` bytes; the next record follows there.

        Raises SpecError if it cannot be written.
        """
        try:
            os.ftruncate(self._journal, size)
            os.lseek(self._journal, 0, os.SEEK_END)
        except OSError as error:
            raise unwritable(self.path / "journal", error) from None

    def _flush(self) -> None:
        """Write the journal's bytes in memory to the file."""
        with held():  # between writing and forgetting, a signal would have it written twice
            try:
                while self._pending:
                    del self._pending[: os.write(self._journal, self._pending)]
            except OSError as error:
                raise unwritable(self.path / "journal", error) from None

    def _make(self) -> None:
        """Make the folder and those above it that are missing, and note which."""
        missing = [self.path, *self.path.parents]
        missing = missing[: next((i for i, p in enumerate(missing) if p.exists()), 0)]
        for folder in reversed(missing):
            # A numbered folder is this run's alone.
            folder.mkdir(exist_ok=not self._numbered or folder != self.path)
            self._made.append(folder)

    def _remove(self) -> None:
        """Remove the folder with all that is in it: it was empty or not there before."""
        if self.path.is_dir():
            for entry in self.path.iterdir():
                if entry.is_dir() and not entry.is_symlink():
                    shutil.rmtree(entry, ignore_errors=True)
                else:
                    entry.unlink(missing_ok=True)
        # Folders above may hold something of others by now; then they stay.
        for folder in reversed(self._made):
            with contextlib.suppress(OSError):
                folder.rmdir()


class ReopenedFolder(RunFolder):
    """The folder of a live run that goes on; it stays whatever happens."""

    def __init__(self, path: str) -> None:
        super().__init__(path, durable=True)

    def __enter__(self) -> Self:
        journal = self.path / "journal"
        if not self.path.is_dir():
            raise refused(self.path, "is not a folder" if self.path.exists() else "no such folder")
        if not journal.is_file():
            raise refused(self.path, "is not the folder of a run (no journal)")
        try:
            self._journal = os.open(journal, os.O_WRONLY)
        except OSError as error:
            raise unwritable(journal, error) from None
        try:
            lock(self._journal, self.path)
        except BaseException:
            os.close(self._journal)
            raise
        return self

    def set_aside(self) -> dict[Path, Path]:
        """Rename files of another kind, such as a pipe, where the run will write.

        Returns
        -------
        dict of Path to Path
            The old and the new path of each.

        Raises
        ------
        SpecError
            If it cannot be renamed.
        """
        folders = [self.path / name for name in ("checkpoints", "logs", "metrics", "params", "ema")]
        stores = _entries(folders[0])
        files = [self.path / name for name in (*OUTPUT_FILES, *MORE_FILES, "run.log")]
        files += [file for folder in (*stores, *folders[1:]) for file in _entries(folder)]
        wrong = [one for one in (*folders, *stores) if os.path.lexists(one) and not one.is_dir()]
        wrong += [one for one in files if os.path.lexists(one) and not one.is_file()]
        moved = {}
        for one in wrong:
            free = (one.with_name(f"{one.name}.damaged{n or ''}") for n in count())
            moved[one] = next(new for new in free if not os.path.lexists(new))
            try:
                one.rename(moved[one])
            except OSError as error:
                raise unwritable(one, error) from None
        return moved

    def _remove(self) -> None:
        """Remove nothing: all that is in the folder was there before."""


def _entries(folder: Path) -> list[Path]:
    """Return the entries of a folder, by name; none if it is not a folder."""
    return sorted(folder.iterdir()) if folder.is_dir() else []


def lock(journal: int, folder: Path) -> None:
    """Hold the journal until this process closes it or ends.

    Raises SpecError if a run holds it.
    """
    try:
        fcntl.flock(journal, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise refused(folder, "is in use by a run that goes on") from None
    except OSError:
        return  # a file system without locks


def check_free(path: Path) -> None:
    """Refuse a place that is taken.

    Raises SpecError if something is there that is not an empty folder, nor that of a run that was
    killed before it began.
    """
    try:
        if path.exists() and not path.is_dir():
            raise refused(path, "exists already and is not a folder; give a new one")
        if path.is_dir() and any(path.iterdir()) and not _never_began(path):
            # The summary of a run is written at its end.
            cut = (path / "journal").is_file() and not (path / "summary.json").exists()
            more = f", or go on with its run: warren run --resume {path}" if cut else ""
            raise refused(path, f"exists already and is not empty; give a new folder{more}")
    except OSError as error:
        raise unwritable(path, error) from None


def _is_at(file: int, path: Path) -> bool:
    """Tell whether an open file is the one at a path."""
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except OSError:
        return False


def _never_began(path: Path) -> bool:
    """Tell whether a folder holds the empty journal of a run, and nothing else."""
    journal = path / "journal"
    try:
        return os.listdir(path) == ["journal"] and journal.is_file() and not journal.stat().st_size
    except OSError:
        return False


def numbered_paths(path: Path) -> Iterator[Path]:
    """Yield a path, then the same with -2, -3, ... behind its name."""
    yield path
    yield from (path.with_name(f"{path.name}-{number}") for number in count(2))


def default_dir(run: Run) -> str:
    """Return ``out/NAME-PLACE``, where a run goes that names no folder; see ``numbered``."""
    # For a policy in a file of the user's, only the class goes into the name.
    place = run.live_place.rpartition(":")[2]
    return "out/" + re.sub(r"[^\w.-]+", "-", f"{run.name}-{place}").strip(".-")
