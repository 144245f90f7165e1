"""The history database keeps what it acknowledged, and says in one line what it cannot use."""

from __future__ import annotations

import os
import random
import sqlite3
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warren.model.errors import SpecError
from warren.model.history_rows import EndedJob, LiveRun, Profile
from warren.store import history_database as opened
from warren.store.history_database import Database, default_file, known_jobs, known_profiles

sys.path.insert(0, str(Path(__file__).parents[2] / "experiments"))
sys.path.insert(0, str(Path(__file__).parents[1] / "profile"))
import history_kill
from profile_rows import BLANK, drawn, ended, rows


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "new" / "history.db"


def known(path: Path) -> list[Profile | EndedJob]:
    return [*known_profiles(path), *known_jobs(path)]


def one_line(path: Path) -> str:
    """What is told when it is opened."""
    with pytest.raises(SpecError) as error:
        known(path)
    (line,) = str(error.value).splitlines()
    return line.removeprefix(f"{path}: ")


@settings(max_examples=25)
@given(st.lists(drawn(Profile), max_size=4), st.lists(drawn(EndedJob), max_size=4))
def test_rows_come_back_as_they_were_written(profiles: list[Profile], jobs: list[EndedJob]) -> None:
    path = Path(":memory:")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opened, "_make", lambda _: None)
        with Database(path) as database, database.transaction():
            database.put(
                [*profiles, *(LiveRun(id=j.run, name="", began_at=0, until_ns=0) for j in jobs)]
            )
            database.put(jobs)
            last = {(one.key, one.device_type): one for one in profiles}
            first = {(one.run, one.position): one for one in reversed(jobs)}
            assert {(one.key, one.device_type): one for one in database.profiles()} == last
            assert {(one.run, one.position): one for one in database.jobs()} == first


def test_a_new_database_is_the_users_alone_and_reading_makes_none(path: Path) -> None:
    assert known(path) == []
    assert not path.parent.exists()
    with Database(path) as database:
        assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
        beside = path.with_name("history.db-wal")
        assert beside.stat().st_mode & 0o777 == 0o600
        modes = [database._db.execute(f"PRAGMA {name}").fetchone()[0]
                 for name in ("journal_mode", "synchronous", "foreign_keys")]  # fmt: skip
    assert modes == ["wal", 2, 1]  # 2: FULL
    assert not beside.exists()


def test_what_a_transaction_did_before_it_failed_is_undone(path: Path) -> None:
    with Database(path) as database:
        with suppress(KeyboardInterrupt), database.transaction():
            database.put(rows())
            raise KeyboardInterrupt
        assert (database.profiles(), database.runs(), database.jobs()) == ([], [], [])
        with database.transaction():
            database.put(rows())
        with pytest.raises(SpecError, match="FOREIGN KEY"), database.transaction():
            database.put([BLANK, ended(run="of nothing")])
        assert len(database.jobs()) == 2


def test_a_transaction_that_another_holds_up_is_reported_and_changes_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opened, "BUSY_S", 0.01)
    with Database(path) as first, Database(path) as second, first.transaction():
        first.put(rows())
        with pytest.raises(SpecError, match="database is locked"), second.transaction():
            second.put([BLANK])
        assert second.profiles() == []  # readers see what was acknowledged


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("PRAGMA user_version = 3", "is of version 3, this Warren knows 2; allowed: another file"),
        ("PRAGMA application_id = 7", "is a database, but no history of Warren's"),
        ("UPDATE profiles SET batch = 'x'", "table profiles: column batch holds 'x'"),
        ("DROP TABLE jobs", "no such table: jobs"),
    ],
)
def test_a_database_of_another_kind_is_refused(path: Path, statement: str, told: str) -> None:
    with Database(path) as database, database.transaction():
        database.put(rows())
    with sqlite3.connect(path) as plain:
        plain.execute(statement)
    plain.close()
    before = path.read_bytes()
    assert told in one_line(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"x" * 5000, b"SQLite format 3\0" + b"\xff" * 4096])
def test_a_file_that_is_no_database_is_refused_and_stays(path: Path, content: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    assert one_line(path).startswith("is no usable history database: ")
    assert path.read_bytes() == content


def test_a_damaged_database_is_reported_in_one_line_or_gives_whole_rows(path: Path) -> None:
    with Database(path) as database, database.transaction():
        database.put(rows())
    whole, draw = path.read_bytes(), random.Random(1)
    told: list[str] = []
    for _ in range(60):
        data = bytearray(whole)
        for _ in range(20):
            data[draw.randrange(len(data))] = draw.randrange(256)
        path.write_bytes(data)
        try:
            known(path)
        except SpecError as error:
            told.append(str(error))
    assert len(told) > 5
    assert all(len(text.splitlines()) == 1 for text in told)


def test_a_log_cut_off_anywhere_leaves_the_transactions_before_the_cut_and_no_halves(
    path: Path, tmp_path: Path
) -> None:
    """What a kill, or a power cut, at any write may leave: a beginning of the log."""
    copy = tmp_path / "copy.db"
    log, ends = path.with_name("history.db-wal"), []
    with Database(path) as database:
        for number in range(8):
            with database.transaction():
                database.put(history_kill.entries(f"{number}", database.profiles()))
            ends.append(log.stat().st_size)
        main, written = path.read_bytes(), log.read_bytes()
    assert sorted(set(ends)) == ends
    draw = random.Random(1)
    cuts = {0, *ends, *(end - 1 for end in ends), *(draw.randrange(ends[-1]) for _ in range(30))}
    for cut in sorted(cuts):
        copy.write_bytes(main)
        copy.with_name("copy.db-wal").write_bytes(written[:cut])
        there = {f"{number}" for number, end in enumerate(ends) if end <= cut}
        assert history_kill.faults(copy, there) == []
        assert {one.run for one in known_jobs(copy)} == there
        for left in tmp_path.glob("copy.db*"):
            left.unlink()


def test_a_checkpoint_cut_off_anywhere_loses_nothing(path: Path, tmp_path: Path) -> None:
    """The log is written into the file when the last writer leaves; until then it is whole."""
    log, copy = path.with_name("history.db-wal"), tmp_path / "copy.db"
    with Database(path) as database:
        for number in range(5):
            with database.transaction():
                database.put(history_kill.entries(f"{number}", database.profiles()))
        before, written = path.read_bytes(), log.read_bytes()
    after, there = path.read_bytes(), {f"{number}" for number in range(5)}
    assert len(after) > len(before)
    for cut in range(0, len(after), 1000):
        copy.write_bytes(after[:cut] + before[cut:])
        copy.with_name("copy.db-wal").write_bytes(written)
        assert history_kill.faults(copy, there) == []
        for left in tmp_path.glob("copy.db*"):
            left.unlink()


def test_the_kill_program_sees_what_is_lost_and_what_is_there_by_halves(path: Path) -> None:
    with Database(path) as database, database.transaction():
        database.put(history_kill.entries("0", ()))
    assert history_kill.faults(path, {"0"}) == []
    assert history_kill.faults(path, {"0", "1"}) == ["1 was acknowledged and is not there"]
    with sqlite3.connect(path) as plain:
        plain.execute("DELETE FROM jobs WHERE position = 1")
    plain.close()
    assert "0 is there by halves" in history_kill.faults(path, {"0"})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"WARREN_HISTORY": "/a/b.db", "XDG_STATE_HOME": "/s"}, "/a/b.db"),
        ({"XDG_STATE_HOME": "/s"}, "/s/warren/history.db"),
        ({"HOME": "/h"}, "/h/.local/state/warren/history.db"),
    ],
)
def test_where_the_database_is(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], expected: str
) -> None:
    for name in ("WARREN_HISTORY", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    assert default_file() == Path(expected)


def test_no_test_writes_to_the_history_of_whoever_runs_it() -> None:
    assert default_file() == Path(os.environ["WARREN_HISTORY"])
    assert "pytest" in str(default_file())
