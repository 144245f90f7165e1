"""A history database that may be read and not written, by somebody who is not root."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import pytest
from cli_runs import Warren

from warren.model.errors import SpecError
from warren.runs.history_source import recorded
from warren.store import history_database as opened
from warren.store.history_database import Database, check_writable, known_jobs, known_profiles

sys.path.insert(0, str(Path(__file__).parents[1] / "profile"))
from profile_rows import BLANK, rows

_NOBODY = 65534


@pytest.fixture
def db() -> Iterator[Path]:
    """A database where anybody may look."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="warren-test-") as folder:
        path = Path(folder) / "history.db"
        with Database(path) as database, database.transaction():
            database.put(rows())
        path.parent.chmod(0o755)
        path.chmod(0o444)
        try:
            yield path
        finally:
            path.parent.chmod(0o700)


def by_nobody(action: Callable[[Path], str], path: Path) -> str:
    """What a process without root's rights is answered."""
    context = get_context("fork")
    with ProcessPoolExecutor(1, mp_context=context, initializer=_drop) as pool:
        return pool.submit(action, path).result()


def _drop() -> None:
    if os.geteuid() == 0:
        os.setuid(_NOBODY)


def counted(path: Path) -> str:
    try:
        return f"{len(known_profiles(path))} profiles, {len(known_jobs(path))} jobs"
    except SpecError as error:
        return str(error)


def tried(path: Path) -> str:
    try:
        check_writable(path)
    except SpecError as error:
        return str(error)
    return "can be written"


@pytest.mark.parametrize(("folder", "file"), [(0o555, 0o444), (0o777, 0o444), (0o555, 0o666)])
def test_what_may_only_be_read_is_read_and_nothing_is_left_beside(
    db: Path, folder: int, file: int
) -> None:
    db.chmod(file)
    db.parent.chmod(folder)
    assert by_nobody(counted, db) == "1 profiles, 2 jobs"
    assert [one.name for one in db.parent.iterdir()] == ["history.db"]
    assert by_nobody(tried, db) == f"{db}: cannot be written"
    assert [one.name for one in db.parent.iterdir()] == ["history.db"]


def test_a_reader_who_may_not_write_sees_what_a_living_writer_acknowledged(db: Path) -> None:
    with Database(db) as database:
        with database.transaction():
            database.put([replace(BLANK, key="f" * 64)])
        for beside in db.parent.glob("history.db-*"):
            beside.chmod(0o444)
        assert by_nobody(counted, db) == "2 profiles, 2 jobs"  # the second is in the log alone
        with database.transaction():
            database.put([replace(BLANK, key="e" * 64)])
        assert by_nobody(counted, db) == "3 profiles, 2 jobs"
    assert by_nobody(counted, db) == "3 profiles, 2 jobs"


def test_what_a_writer_does_while_it_is_read_as_nobodys_is_read_again(
    db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opened, "_may_write", lambda _: False)
    seen: list[bool] = []

    def reading(path: Path, *, shared: bool) -> str:
        seen.append(shared)
        if len(seen) == 1:
            with Database(path) as database, database.transaction():
                database.put([replace(BLANK, key="f" * 64)])
        return uri(path, shared=shared)

    uri = opened._reading
    db.chmod(0o644)
    monkeypatch.setattr(opened, "_reading", reading)
    assert len(known_profiles(db)) == 2
    assert seen == [False, False]


def test_whoever_only_looks_takes_a_database_that_may_only_be_read(
    warren: Warren, db: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(opened, "_may_write", lambda _: False)
    monkeypatch.chdir(tmp_path)
    past = recorded(str(db), ("CPU", "V100"))
    assert [job.name for job in past.jobs] == ["a"]
    for command in ("list", f"show {BLANK.key[:8]}", "export", "export --jobs past.csv"):
        found = warren("profile", *command.split(), "--db", db, "--json")
        assert found.code == 0, found.err
    assert [one.name for one in db.parent.iterdir()] == ["history.db"]
