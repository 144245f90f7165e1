"""The history database as the past of a run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_runs import RUN, Warren, write_run

from warren.model.errors import SpecError
from warren.model.history_rows import EndedJob, LiveRun
from warren.model.run import Run
from warren.policy.common.job_history import kinds_by_code, like, records_of
from warren.profile.cost_table import past_of
from warren.profile.published import TABLE
from warren.runs.history_source import recorded, recorded_elsewhere
from warren.runs.notices import say_once
from warren.store.history_database import VARIABLE, Database
from warren.workload.run_file import run_from_dict


def ended(position: int, rounds: int, **given: Any) -> EndedJob:
    costs = {given.pop("kind", "V100"): {"comp_s": 2.0, "sync_s": 0.5, "tasks": 3}}
    values: dict[str, Any] = {
        "run": "r", "position": position, "run_name": "night", "began_at": 100.0, "arrival_s": 7.0,
        "name": f"{position}-mlp", "user": "", "group": "", "model": None,
        "app": "apps/digits.py:Digits", "batch": 1, "scale": 1, "sync": "ps", "weight": 1.0,
        "rounds": rounds, "status": "finished", "model_bytes": 40, "costs": json.dumps(costs),
        "ended_at": 200.0 + position, **given,
    }  # fmt: skip
    return EndedJob(**values)


def run_of(history: object, key: str = "history") -> Run:
    data = {
        "cluster": {"hosts": [{"name": "v", "devices": {"V100": 1}}]},
        "workload": [{"name": "mlp-9", "app": "elsewhere/digits.py:Digits", "rounds": 3}],
        key: history,
    }
    return run_from_dict(data, "", lambda _: b"", rows=TABLE, recorded=recorded)


@pytest.fixture(autouse=True)
def _told_again() -> None:
    say_once.cache_clear()


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "own.db"
    monkeypatch.setenv(VARIABLE, str(path))
    with Database(path) as file:
        finished = [ended(k, rounds=10 + k) for k in range(5)]
        others = [
            ended(5, 99, status="failed"),
            ended(6, 50, kind="K80"),
            ended(7, 1, app="b.py:B"),
        ]
        night = LiveRun(id="r", name="night", began_at=100.0, until_ns=0)
        file.put([night, *finished, *others])
    return path


@pytest.mark.parametrize("named", ["default", "own.db"])
def test_jobs_of_the_database_are_the_past_at_the_costs_that_were_seen(
    database: Path, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(database.parent)
    run = run_of({"database": named})
    assert run.history is not None
    assert [job.rounds for job in run.history.jobs] == [10, 11, 12, 13, 14, 1]
    first, second = run.history.notes
    assert first.startswith("7 jobs of a history database, ")
    assert second == "1 job of the history not used: timed on other device types alone"
    past = past_of(run)
    assert past.costs.comp_ns_JT.tolist() == [[2 * 10**9]] * 6
    assert past.costs.sync_ns_JT.tolist() == [[10**9 // 2]] * 6
    (job,) = run.workload.jobs
    assert like(records_of(past, kinds_by_code), job).rounds == (10, 11, 12, 13, 14)


@pytest.mark.parametrize(
    ("history", "key", "message"),
    [
        ({"database": "none.db"}, "history", "none.db: no such file"),
        ({"database": "default"}, "workload", "database: holds jobs that have ended: only a"),
        ({"database": "default", "jobs": []}, "history", "exactly one of"),
    ],
)
def test_a_database_that_cannot_be_the_past_is_reported(
    database: Path, history: object, key: str, message: str
) -> None:
    with pytest.raises(SpecError, match=message):
        run_of(history, key)


def on_a100(database: str) -> Run:
    data = {
        "cluster": {"hosts": [{"name": "a", "devices": {"A100": 1}}]},
        "workload": [{"name": "a", "model": "m", "rounds": 3}],
        "profiles": {"m": {"model": 8, "comp": {"A100": 1}, "sync": {"A100": 0}}},
        "history": {"database": database},
    }
    return run_from_dict(data, "", lambda _: b"", rows=TABLE, recorded=recorded)


def test_a_past_that_no_device_type_ran_is_no_past(
    database: Path, heard: Callable[[], str]
) -> None:
    with pytest.raises(SpecError, match=r"own\.db: none of its 7 jobs was timed on A100"):
        on_a100(str(database))
    assert on_a100("default").history is None
    told = f"history: nothing yet: {database}: none of its 7 jobs was timed on A100\n"
    assert heard() == told


def test_a_named_file_that_is_empty_is_no_database_and_stays_empty(tmp_path: Path) -> None:
    path = tmp_path / "empty.db"
    path.touch()
    with pytest.raises(SpecError, match="holds no job"):
        recorded(str(path), ("V100",))
    assert not path.read_bytes()


@pytest.mark.parametrize(
    ("content", "told"),
    [(None, "is not there"), ("empty", "holds no job that"), ("new", "holds no job that")],
)
def test_the_first_run_that_fills_the_own_database_may_name_it_as_its_history(
    warren: Warren,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    content: str | None,
    told: str,
) -> None:
    path = tmp_path / "own.db"
    monkeypatch.setenv(VARIABLE, str(path))
    if content == "empty":
        path.touch()
    elif content == "new":
        Database(path).__exit__(None, None, None)
    run = write_run(tmp_path / "in", run=f"{RUN}history: {{database: default}}\n")
    for options in ((), ("--dry-run",)):
        say_once.cache_clear()
        found = warren("simulate", run, "--place", "gittins", *options)
        assert found.code == 0, found.err
        (line,) = [line for line in found.err if line.startswith("history: ")]
        assert line.startswith(f"history: nothing yet: {path}: {told}")
        assert "history" not in found.out
    assert path.exists() == (content is not None)


def test_the_own_database_is_not_read_where_a_run_leaves_the_history_alone(
    database: Path, heard: Callable[[], str]
) -> None:
    assert recorded_elsewhere("", ("V100",)).jobs == ()
    assert heard() == "history: nothing: your own database is left alone\n"
    assert recorded_elsewhere(str(database), ("V100",)) == recorded("", ("V100",))
