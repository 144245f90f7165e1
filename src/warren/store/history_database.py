"""The history database: one SQLite file whose transactions are on the disk once acknowledged.

``warren.model.history_rows`` describes its rows. A process may be killed at any moment:
acknowledged data are there afterwards, and nothing is half written.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final, Self

from warren.model.errors import SpecError
from warren.model.history_rows import (
    EndedJob,
    LiveRun,
    Profile,
    Row,
    row_of,
    select,
    upsert,
)
from warren.store.files import refused

APPLICATION_ID: Final = 0x5752454E
"""``PRAGMA application_id`` of a history database: the letters WREN."""
VERSION: Final = 2
"""``PRAGMA user_version``: of the tables below. A newer one is refused, never touched."""
_WITHOUT_LOAD: Final = 1
"""The version before, whose profiles have no load; it becomes the newer when it is written to."""
TABLE_STATEMENTS: Final = (
    """CREATE TABLE profiles (
        key TEXT NOT NULL, device_type TEXT NOT NULL,
        app TEXT NOT NULL, source_sha256 TEXT NOT NULL, params TEXT NOT NULL,
        batch INTEGER NOT NULL, sync TEXT NOT NULL, numerics TEXT NOT NULL, machine TEXT NOT NULL,
        job TEXT NOT NULL, model TEXT,
        model_bytes INTEGER NOT NULL, memory_bytes INTEGER NOT NULL,
        comp_s REAL, sync_s REAL, samples INTEGER NOT NULL,
        comp_avg_s REAL, sync_avg_s REAL, avg_tasks INTEGER NOT NULL,
        updated_at REAL NOT NULL, load REAL,
        PRIMARY KEY (key, device_type))""",
    """CREATE TABLE runs (
        id TEXT NOT NULL PRIMARY KEY, name TEXT NOT NULL, began_at REAL NOT NULL,
        until_ns INTEGER NOT NULL)""",
    """CREATE TABLE jobs (
        run TEXT NOT NULL REFERENCES runs (id), position INTEGER NOT NULL,
        run_name TEXT NOT NULL, began_at REAL NOT NULL, arrival_s REAL NOT NULL,
        name TEXT NOT NULL, "user" TEXT NOT NULL, "group" TEXT NOT NULL,
        model TEXT, app TEXT, batch INTEGER NOT NULL, scale INTEGER NOT NULL, sync TEXT NOT NULL,
        weight REAL NOT NULL, rounds INTEGER NOT NULL, status TEXT NOT NULL,
        model_bytes INTEGER NOT NULL, costs TEXT NOT NULL, ended_at REAL NOT NULL,
        PRIMARY KEY (run, position))""",
)

VARIABLE: Final = "WARREN_HISTORY"
"""The environment variable that names the file of the user's own database."""
BUSY_S: Final = 5.0
"""Longest wait for another process that writes, in s."""
_PAUSE_S: Final = 0.01
"""Pause between two tries to switch to a write-ahead log, in s."""


def default_file() -> Path:
    """Return where the database is: ``$WARREN_HISTORY``, else under ``$XDG_STATE_HOME``.

    That is ``$XDG_STATE_HOME/warren/history.db``; without the variable ``~/.local/state``. Raises
    OSError if there is no home folder.
    """
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named)
    # The XDG specification has relative paths ignored.
    state = os.environ.get("XDG_STATE_HOME")
    try:
        base = Path(state) if state and os.path.isabs(state) else Path.home() / ".local" / "state"
    except RuntimeError:
        raise OSError(f"there is no home folder; {VARIABLE} names the file") from None
    return base / "warren" / "history.db"


class Database:
    """The open database; use as a context manager. ``uri``: how SQLite opens it, else to write.

    Raises SpecError if the file cannot be opened, is not Warren's, of a newer version, or damaged.
    So does every method.
    """

    def __init__(self, path: Path, *, uri: str | None = None) -> None:
        self.path = path
        self._fixed = uri is not None
        with self._plain_errors():
            if uri is None:
                _make(path)
            self._db = sqlite3.connect(
                uri or path, timeout=BUSY_S, isolation_level=None, uri=uri is not None
            )
            try:
                self._prepare()
            except BaseException:
                self._db.close()
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._plain_errors():
            self._db.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Read and write as one: after the block all of it is on the disk, or none of it.

        No other process may write from its beginning on.
        """
        with self._plain_errors():
            # IMMEDIATE takes the write lock at once: a later upgrade from a reader could fail.
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    def profiles(self) -> list[Profile]:
        """Return all profiles, by key and device type."""
        return self._all(Profile, "key, device_type")

    def runs(self) -> list[LiveRun]:
        """Return all live runs, in the order in which they began."""
        return self._all(LiveRun, "began_at, id")

    def jobs(self) -> list[EndedJob]:
        """Return all jobs that have ended, in the order in which they did."""
        return self._all(EndedJob, "ended_at, run, position")

    def put(self, rows: Iterable[Profile | LiveRun | EndedJob]) -> None:
        """Write rows as ``warren.model.history_rows.upsert`` says; within a transaction."""
        with self._plain_errors():
            for row in rows:
                values = [getattr(row, name) for name in type(row).__slots__]
                self._db.execute(upsert(type(row)), values)

    def touch(self) -> None:
        """Rewrite the version number within a transaction, to check that the file is writable."""
        with self._plain_errors():
            self._db.execute(f"PRAGMA user_version = {VERSION}")

    def forget(self, key: str) -> None:
        """Remove the profiles of a key; within a transaction."""
        with self._plain_errors():
            self._db.execute("DELETE FROM profiles WHERE key = ?", (key,))

    def _all(self, kind: type[Row], order: str) -> list[Row]:
        """Return all rows of a kind, ordered by these columns."""
        statement = select(kind, order)
        if kind is Profile and not self._has_load():
            statement = statement.replace('"load"', "NULL")
        with self._plain_errors(), closing(self._db.execute(statement)) as found:
            return [row_of(kind, values) for values in found]

    def _prepare(self) -> None:
        """Make the tables of a new database, and refuse files of other programs."""
        # FULL: every commit is on the disk before it is acknowledged.
        self._db.execute("PRAGMA synchronous = FULL")
        self._db.execute("PRAGMA foreign_keys = ON")
        if self._version() is None:
            self._to_wal()
            self._db.execute("BEGIN IMMEDIATE")
            if self._version() is None:  # another process may have been faster
                for statement in TABLE_STATEMENTS:
                    self._db.execute(statement)
                self._db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                self._db.execute(f"PRAGMA user_version = {VERSION}")
            self._db.execute("COMMIT")
        elif not self._fixed and not self._has_load():
            self._db.execute("BEGIN IMMEDIATE")
            if not self._has_load():  # another process may have been faster
                self._db.execute("ALTER TABLE profiles ADD COLUMN load REAL")
                self._db.execute(f"PRAGMA user_version = {VERSION}")
            self._db.execute("COMMIT")

    def _has_load(self) -> bool:
        """Tell whether profiles have the column ``load``, which those of earlier versions lack."""
        columns = self._db.execute("PRAGMA table_info(profiles)")
        return "load" in [name for _, name, *_ in columns]

    def _version(self) -> int | None:
        """Return the version of the database's tables; None: it is empty."""
        if self._db.in_transaction:
            return self._known_version()
        self._db.execute("BEGIN")  # all is read of one moment
        version = self._known_version()
        self._db.execute("COMMIT")
        return version

    def _known_version(self) -> int | None:
        """Read the version within a transaction; refuse a newer one and files of other programs."""
        (tables,) = self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        (application,) = self._db.execute("PRAGMA application_id").fetchone()
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        if not (application or version or tables):
            return None
        if application != APPLICATION_ID:
            raise refused(self.path, "is a database, but no history of Warren's")
        if version not in (_WITHOUT_LOAD, VERSION):
            message = f"is of version {version}, this Warren knows {VERSION}; allowed: another file"
            raise refused(self.path, message)
        return int(version)

    def _to_wal(self) -> None:
        """Switch to a write-ahead log, which lasts, and wait for others that use the database.

        SQLite's own time limit does not hold for this statement.
        """
        until = time.monotonic() + BUSY_S
        while True:
            try:
                self._db.execute("PRAGMA journal_mode = WAL").fetchone()
                return
            except sqlite3.OperationalError:
                if time.monotonic() > until:
                    raise
                time.sleep(_PAUSE_S)

    @contextmanager
    def _plain_errors(self) -> Iterator[None]:
        """Report errors of SQLite, of the disk and of a row in one clear line."""
        try:
            yield
        except (sqlite3.Error, OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise refused(self.path, f"is no usable history database: {reason}") from None


def _make(path: Path) -> None:
    """Make the file and its folder where they are missing, for the user alone."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.exists():
        return
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    # Without a sync of the folder a crash could lose the name of the file.
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def known_profiles(path: Path) -> list[Profile]:
    """Return the profiles of a database; a file that is not there holds none, and is not made.

    The file may be read-only, or in a folder where nothing can be written. Raises SpecError as
    ``Database`` does.
    """
    return _known(path, Database.profiles)


def known_jobs(path: Path) -> list[EndedJob]:
    """Return the jobs of a database, as ``known_profiles`` does profiles."""
    return _known(path, Database.jobs)


def _known(path: Path, read: Callable[[Database], list[Row]]) -> list[Row]:
    """Read rows of a database, also of a read-only file; none where there is no file."""
    if not _is_there(path):
        return []
    if _may_write(path):
        with Database(path) as database:
            return read(database)
    # A read-only database without a log is read as a file that does not change. Afterwards it is
    # checked for writes in the meantime; if there were any, it is read again.
    while True:
        before = _written(path)
        shared = _log(path).exists()
        try:
            with Database(path, uri=_reading(path, shared=shared)) as database:
                found = read(database)
        except SpecError:
            if shared or _written(path) == before:
                raise
        else:
            if shared or _written(path) == before:
                return found


def _may_write(path: Path) -> bool:
    """Tell whether a database can be written, with what SQLite makes beside it for readers too."""
    file = path.resolve()
    return os.access(file, os.W_OK) and os.access(file.parent, os.W_OK)


def _reading(path: Path, *, shared: bool) -> str:
    """Return the URI that opens a database that cannot be written.

    ``shared``: there is a log, perhaps that of a process which writes.

    Without a log, the files that SQLite makes beside the database would be missing. They are not
    needed while no process writes: a reader checks afterwards whether one did.
    """
    return f"{path.resolve().as_uri()}?mode=ro{'' if shared else '&immutable=1'}"


def _log(path: Path) -> Path:
    """Return where SQLite has the write-ahead log of a database."""
    file = path.resolve()
    return file.with_name(f"{file.name}-wal")


def _written(path: Path) -> tuple[bool, int, int]:
    """Return a value that differs when another process has written meanwhile."""
    try:
        state = path.stat()
    except OSError:
        return _log(path).exists(), 0, 0
    return _log(path).exists(), state.st_mtime_ns, state.st_size


def check_writable(path: Path) -> None:
    """Refuse a database that cannot be written; a new one is made.

    Raises SpecError as ``Database`` does.
    """
    if _is_there(path) and not _may_write(path):
        raise refused(path, "cannot be written")
    with Database(path) as database, database.transaction():
        database.touch()


def _is_there(path: Path) -> bool:
    """Tell whether there is a database with anything in it."""
    try:
        return path.exists() and path.stat().st_size > 0
    except OSError as error:
        raise refused(path, f"cannot be read: {error.strerror or error}") from None
