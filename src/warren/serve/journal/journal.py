"""The journal: all events of the service in one SQLite file, each on disk before it counts.

Events are appended and never changed. One process writes, the daemon; others may read beside it.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final, Self

import msgspec

from warren.model.errors import JournalError, WarrenError
from warren.serve.journal.schema import upgrade, version_of
from warren.serve.records.events import AnyEvent

_BATCH_ROWS: Final = 1000
"""Most rows that are decoded at once."""
_INSERT: Final = (
    'INSERT INTO events (seq, time_ns, job, kind, "by", data) VALUES (?, ?, ?, ?, ?, ?)'
)


class JournalWriteError(WarrenError):
    """The disk did not take events: it is full, for example. Nothing of them was kept."""


class Entry(msgspec.Struct, frozen=True):
    """An event with its place in the journal; the first one has ``seq`` 1."""

    seq: int
    event: AnyEvent


class Journal:
    """The open journal; use as a context manager.

    Parameters
    ----------
    path
        The file. It is made, readable by its owner alone, if it is missing.
    read_only
        Whether only to read, beside a daemon that writes.

    Raises
    ------
    JournalError
        If the file cannot be opened, is not a journal of the service, was written by a later
        Warren, or is damaged.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path
        self._encoder = msgspec.json.Encoder()
        self._decoder = msgspec.json.Decoder(AnyEvent)
        with self._read_errors():
            self._db = _opened(path, read_only)
            try:
                if read_only:
                    if not version_of(self._db):
                        raise JournalError("is empty")
                else:
                    # FULL: a commit is on the disk before it returns.
                    self._db.execute("PRAGMA synchronous = FULL")
                    upgrade(self._db)
                    self._db.execute("PRAGMA journal_mode = WAL")
                (self._last,) = self._db.execute(
                    "SELECT coalesce(max(seq), 0) FROM events"
                ).fetchone()
            except BaseException:
                self._db.close()
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        with suppress(sqlite3.Error):
            self._db.close()

    @property
    def last(self) -> int:
        """Place of the newest event; 0 if there is none."""
        return int(self._last)

    def append(self, events: Sequence[AnyEvent]) -> None:
        """Write events, all or none; they are on the disk when this returns.

        Raises JournalWriteError if the disk does not take them.
        """
        rows = [self._row(self._last + 1 + i, event) for i, event in enumerate(events)]
        if not rows:
            return
        try:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.executemany(_INSERT, rows)
            self._db.execute("COMMIT")
        except BaseException as error:
            with suppress(sqlite3.Error):
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
            if not isinstance(error, sqlite3.Error):
                raise
            raise JournalWriteError(
                f"{self.path}: cannot be written: {error}; nothing was changed"
            ) from None
        self._last += len(rows)

    def entries(self, after: int = 0) -> Iterator[Entry]:
        """Yield all events after a place, in order.

        Raises JournalError if one is missing or cannot be read.
        """
        decode, expected = self._decoder.decode, after + 1
        with (
            self._read_errors(),
            closing(
                self._db.execute(
                    "SELECT seq, data FROM events WHERE seq > ? ORDER BY seq", (after,)
                )
            ) as found,
        ):
            while rows := found.fetchmany(_BATCH_ROWS):
                for seq, data in rows:
                    if seq != expected:
                        raise JournalError(f"is damaged: event {expected} is missing")
                    try:
                        event = decode(data)
                    except (msgspec.MsgspecError, TypeError, UnicodeDecodeError) as error:
                        raise JournalError(f"is damaged: event {seq}: {error}") from None
                    expected = seq + 1
                    yield Entry(seq, event)

    def events(self, after: int = 0) -> Iterator[AnyEvent]:
        """Yield the events alone; as ``entries``."""
        return (entry.event for entry in self.entries(after))

    def audit(
        self, *, user: str | None = None, since_ns: int = 0, limit: int = 1000
    ) -> list[Entry]:
        """Return what users asked for, refusals too, oldest first.

        Parameters
        ----------
        user
            Only what this user asked for.
        since_ns
            Only events from then on, in nanoseconds since 1970.
        limit
            Most events; the newest ones are returned.
        """
        with self._read_errors():
            rows = self._db.execute(
                """SELECT seq, data FROM events
                WHERE "by" <> '' AND time_ns >= ? AND ("by" = ? OR ? IS NULL)
                ORDER BY time_ns DESC, seq DESC LIMIT ?""",
                (since_ns, user, user, limit),
            ).fetchall()
            return [Entry(seq, self._decoder.decode(data)) for seq, data in reversed(rows)]

    def _row(self, seq: int, event: AnyEvent) -> tuple[int, int, str | None, str, str, str]:
        """Return the row of an event."""
        kind = str(event.__struct_config__.tag)
        data = self._encoder.encode(event).decode()
        return seq, event.time_ns, getattr(event, "job", None), kind, event.by, data

    @contextmanager
    def _read_errors(self) -> Iterator[None]:
        """Turn errors of SQLite and of the file into JournalError, whose text names the file."""
        try:
            yield
        except JournalError as error:
            raise JournalError(f"{self.path}: {error}") from None
        except sqlite3.OperationalError as error:
            raise JournalError(f"{self.path}: cannot be read: {error}") from None
        except sqlite3.DatabaseError as error:
            raise JournalError(
                f"{self.path}: is damaged, or no journal of warren serve: {error}"
            ) from None
        except OSError as error:
            raise JournalError(f"{self.path}: {error.strerror}") from None


def _opened(path: Path, read_only: bool) -> sqlite3.Connection:
    """Return a connection to a file, which is made first if it may be written."""
    if read_only:
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))  # says plainly why it cannot
        return sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None
        )
    # SQLite gives its two files beside this one the same mode.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC, 0o600))
    return sqlite3.connect(path, isolation_level=None)
