"""The journal of the service: what it acknowledged is there, and no wrong file is read."""

from __future__ import annotations

import os
import resource
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random

import pytest

from warren.model.errors import JournalError
from warren.serve.journal import schema
from warren.serve.journal.journal import Journal, JournalWriteError
from warren.serve.records.events import (
    AnyEvent,
    AttemptBegun,
    AttemptEnded,
    JobHeld,
    JobSubmitted,
    MachineJoined,
    Refused,
)
from warren.serve.records.jobs import CommandSpec
from warren.serve.records.machines import HostDevice, Machine


def submitted(job: str, *, by: str = "ana", time_ns: int = 1) -> JobSubmitted:
    spec = CommandSpec(command=("echo", "ä"), folder="/x", environment={"A": "1"})
    return JobSubmitted(time_ns=time_ns, by=by, job=job, user=by, spec=spec)


EVENTS: list[AnyEvent] = [
    MachineJoined(
        time_ns=5,
        machine=Machine("h", (HostDevice("cpu:0", "cpu", "CPU"),), "b", 1, 2, "rlimit", "0"),
    ),
    submitted("1", time_ns=10),
    AttemptBegun(time_ns=11, job="1", attempt=1, host="h", devices=("cpu:0",)),
    AttemptEnded(time_ns=12, job="1", attempt=1, cause="exit", exit_code=3),
    submitted("2", by="ben", time_ns=20),
    Refused(time_ns=30, by="ben", action="cancel", reason="not yours"),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "queue.db"


def test_events_are_read_back_in_order_by_the_next_daemon(path: Path) -> None:
    with Journal(path) as journal:
        journal.append(EVENTS[:2])
        journal.append([])
        journal.append(EVENTS[2:])
    with Journal(path) as journal:
        assert list(journal.events()) == EVENTS
        assert [entry.seq for entry in journal.entries(4)] == [5, 6]
        journal.append(EVENTS[:1])
        assert journal.last == 7


def test_a_reader_beside_the_daemon_sees_what_was_acknowledged(path: Path) -> None:
    with Journal(path) as writer:
        writer.append(EVENTS)
        with Journal(path, read_only=True) as reader:
            assert list(reader.events()) == EVENTS
            with pytest.raises(JournalWriteError):
                reader.append(EVENTS)
        writer.append(EVENTS)


def test_only_the_owner_may_read_any_file_of_the_journal(path: Path) -> None:
    old = os.umask(0)
    try:
        with Journal(path) as journal:
            journal.append(EVENTS)
            modes = {stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    finally:
        os.umask(old)
    assert modes == {0o600}


def test_the_audit_log_has_what_users_did_by_user_and_time(path: Path) -> None:
    with Journal(path) as journal:
        journal.append(EVENTS)

        def seen(**wanted: object) -> list[int]:
            return [entry.seq for entry in journal.audit(**wanted)]  # type: ignore[arg-type]

        assert seen() == [2, 5, 6]
        assert seen(user="ben") == [5, 6]
        assert seen(since_ns=20) == [5, 6]
        assert seen(limit=1) == [6]
        assert seen(user="cem") == []


@contextmanager
def disk_of(free_bytes: int, path: Path) -> Iterator[None]:
    """No file of this process grows by more than this beyond what ``path`` has."""
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    wal = Path(f"{path}-wal")
    limit = max(path.stat().st_size, wal.stat().st_size) + free_bytes
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, old[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)


def test_a_full_disk_keeps_none_of_the_events_and_says_so(path: Path) -> None:
    many = [submitted(str(i)) for i in range(3000)]
    with Journal(path) as journal:
        journal.append(EVENTS)
        with disk_of(20_000, path):
            with pytest.raises(JournalWriteError, match=r"queue\.db: cannot be written: .*nothing"):
                journal.append(many)
            assert list(journal.events()) == EVENTS
            assert journal.last == len(EVENTS)
            journal.append(EVENTS[:1])  # a small one has place
        journal.append(many)
    with Journal(path) as journal:
        assert list(journal.events()) == [*EVENTS, EVENTS[0], *many]


def test_an_event_that_no_row_can_hold_keeps_no_later_one_out(path: Path) -> None:
    with Journal(path) as journal:
        with pytest.raises(OverflowError):
            journal.append([*EVENTS, JobHeld(time_ns=1 << 70, job="1")])
        journal.append(EVENTS)
        assert list(journal.events()) == EVENTS


def first_version(path: Path) -> None:
    """A journal as the first version of the tables has it."""
    with Journal(path.with_name("new")) as journal:
        journal.append(EVENTS)
        rows = journal._db.execute("SELECT * FROM events").fetchall()
    with closing(sqlite3.connect(path)) as db, db:
        for statement in schema.STEPS[0]:
            db.execute(statement)
        db.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
        db.execute("PRAGMA user_version = 1")
        db.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)", rows)


def test_a_journal_of_the_first_version_is_taken_along(path: Path) -> None:
    first_version(path)
    with Journal(path) as journal:
        assert list(journal.events()) == EVENTS
        assert journal._db.execute("PRAGMA user_version").fetchone() == (schema.VERSION,)
        plan = journal._db.execute(
            """EXPLAIN QUERY PLAN SELECT * FROM events WHERE "by" <> '' AND time_ns >= 1"""
        ).fetchall()
        assert "events_of_users" in str(plan)
    with Journal(path) as journal:
        assert journal.last == len(EVENTS)


def test_a_step_that_fails_leaves_the_earlier_version(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first_version(path)
    with monkeypatch.context() as patch:
        patch.setattr(schema, "STEPS", (*schema.STEPS[:2], ("CREATE TABLE more (x)", "nonsense")))
        patch.setattr(schema, "VERSION", 3)
        with pytest.raises(JournalError, match="nonsense"):
            Journal(path)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (1,)
        assert db.execute("SELECT count(*) FROM sqlite_schema").fetchone() == (1,)


def test_the_first_step_is_as_released() -> None:
    """Files of users have these columns; a change is a further step."""
    assert len(schema.STEPS) >= 2
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute(schema.STEPS[0][0])
        columns = [row[1:3] for row in db.execute("PRAGMA table_info(events)")]
    assert columns == [
        ("seq", "INTEGER"),
        ("time_ns", "INTEGER"),
        ("job", "TEXT"),
        ("kind", "TEXT"),
        ("by", "TEXT"),
        ("data", "TEXT"),
    ]


def _text(path: Path) -> None:
    path.write_text("no database " * 1000)


def _foreign(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE events (x)")


def _later(path: Path) -> None:
    with Journal(path) as journal:
        journal._db.execute(f"PRAGMA user_version = {schema.VERSION + 1}")


def _folder(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (_text, "damaged, or no journal of warren serve"),
        (_foreign, "is no journal of warren serve"),
        (_later, "was written by a later Warren"),
        (_folder, "directory"),
    ],
)
def test_a_file_that_is_no_journal_is_refused_in_one_line_and_left_alone(
    path: Path, make: object, message: str
) -> None:
    make(path)  # type: ignore[operator]
    before = path.read_bytes() if path.is_file() else b""
    with pytest.raises(JournalError) as refused:
        Journal(path)
    assert message in str(refused.value)
    assert str(refused.value).startswith(str(path))
    assert "\n" not in str(refused.value)
    assert (path.read_bytes() if path.is_file() else b"") == before


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("DELETE FROM events WHERE seq = 3", "event 3 is missing"),
        ("UPDATE events SET data = '{}' WHERE seq = 4", "event 4"),
        ("UPDATE events SET data = x'ff' WHERE seq = 4", "event 4"),
        ("UPDATE events SET data = 7 WHERE seq = 4", "event 4"),
    ],
)
def test_a_damaged_event_is_named(path: Path, statement: str, message: str) -> None:
    with Journal(path) as journal:
        journal.append(EVENTS)
        journal._db.execute(statement)
        with pytest.raises(JournalError, match=message):
            list(journal.events())


def test_a_damaged_page_is_no_traceback(path: Path) -> None:
    with Journal(path) as journal:
        journal.append([submitted(str(i)) for i in range(2000)])
    content = bytearray(path.read_bytes())
    content[8192:40960] = bytes(32768)
    path.write_bytes(content)
    with pytest.raises(JournalError), Journal(path) as journal:
        list(journal.events())


WRITER = """
import sys
from pathlib import Path
from warren.serve.journal.journal import Journal
from warren.serve.records.events import JobHeld

with Journal(Path(sys.argv[1])) as journal:
    first = int(journal.last)
    for i in range(first, first + 100_000, 3):
        journal.append([JobHeld(time_ns=i + k, job=str(i + k)) for k in range(3)])
        print(i + 3, flush=True)
"""
"""Appends three events at a time, and says how many are acknowledged."""


def test_what_was_acknowledged_survives_sigkill_and_nothing_is_half_there(path: Path) -> None:
    random = Random(1)
    acknowledged = 0
    for _ in range(4):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
        ) as writer:
            assert writer.stdout is not None
            for _ in range(random.randrange(1, 40)):
                acknowledged = int(writer.stdout.readline())
            writer.send_signal(signal.SIGKILL)
            acknowledged = max([acknowledged, *map(int, writer.stdout.read().split())])
        with Journal(path) as journal:
            jobs = [event.job for event in journal.events() if isinstance(event, JobHeld)]
        assert len(jobs) >= acknowledged
        assert len(jobs) % 3 == 0
        assert jobs == [str(i) for i in range(len(jobs))]
