"""The tables of the journal, as numbered steps; a file of an earlier version is taken along."""

from __future__ import annotations

import sqlite3
from typing import Final

from warren.model.errors import JournalError

APPLICATION_ID: Final = 0x57525356
"""``PRAGMA application_id`` of a service's journal: the letters WRSV."""
STEPS: Final = (
    (
        """CREATE TABLE events (
            seq INTEGER PRIMARY KEY,
            time_ns INTEGER NOT NULL,
            job TEXT,
            kind TEXT NOT NULL,
            "by" TEXT NOT NULL,
            data TEXT NOT NULL)""",
    ),
    # What users did is asked for by time; most events are the service's own.
    ("""CREATE INDEX events_of_users ON events (time_ns) WHERE "by" <> ''""",),
    # Forecasts (`foreseen`) are among the events, which an earlier Warren cannot read.
    (),
)
"""Statements that make version N + 1 of version N; a released step is never changed."""
VERSION: Final = len(STEPS)
"""``PRAGMA user_version`` of the tables that this Warren writes."""


def version_of(db: sqlite3.Connection) -> int:
    """Return the version of the tables of a file; 0: it is empty.

    Raises JournalError if the file holds something else, or was written by a later Warren.
    """
    (name,) = db.execute("PRAGMA application_id").fetchone()
    (version,) = db.execute("PRAGMA user_version").fetchone()
    (tables,) = db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if (name, version, tables) == (0, 0, 0):
        return 0
    if name != APPLICATION_ID or version < 1:
        raise JournalError("is no journal of warren serve")
    if version > VERSION:
        raise JournalError(
            f"was written by a later Warren (version {version}; this one knows {VERSION})"
        )
    return int(version)


def upgrade(db: sqlite3.Connection) -> None:
    """Bring the tables of a file to ``VERSION``, in one transaction.

    Raises JournalError as ``version_of`` does, and sqlite3.Error if it cannot be written.
    """
    db.execute("BEGIN IMMEDIATE")
    try:
        old = version_of(db)
        for step in STEPS[old:]:
            for statement in step:
                db.execute(statement)
        if old < VERSION:
            db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            db.execute(f"PRAGMA user_version = {VERSION}")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
