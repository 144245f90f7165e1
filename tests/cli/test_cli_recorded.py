"""The history database as the past of a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from warren.cli.database import VARIABLE, Database
from warren.cli.recorded import recorded
from warren.model.errors import SpecError
from warren.model.run import Run
from warren.policy.place.kinds import kinds_by_code, rounds_of_like
from warren.policy.place.records import records_of
from warren.profile.costs import past_of
from warren.profile.rows import EndedJob, LiveRun
from warren.profile.table import TABLE
from warren.workload.load import run_from_dict


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
    assert rounds_of_like(records_of(past, kinds_by_code), job) == (10, 11, 12, 13, 14)


@pytest.mark.parametrize(
    ("history", "key", "message"),
    [
        ({"database": "none.db"}, "history", "none.db: holds no job that has finished"),
        ({"database": "default"}, "workload", "database: holds jobs that have ended: only a"),
        ({"database": "default", "jobs": []}, "history", "exactly one of"),
    ],
)
def test_a_database_that_cannot_be_the_past_is_told(
    database: Path, history: object, key: str, message: str
) -> None:
    with pytest.raises(SpecError, match=message):
        run_of(history, key)


def test_a_past_that_no_device_type_ran_is_no_past(database: Path) -> None:
    data = {
        "cluster": {"hosts": [{"name": "a", "devices": {"A100": 1}}]},
        "workload": [{"name": "a", "model": "m", "rounds": 3}],
        "profiles": {"m": {"model": 8, "comp": {"A100": 1}, "sync": {"A100": 0}}},
        "history": {"database": "default"},
    }
    with pytest.raises(SpecError, match="default: none of its 7 jobs was timed on A100"):
        run_from_dict(data, "", lambda _: b"", rows=TABLE, recorded=recorded)


def test_an_empty_file_is_no_database_and_stays_empty(tmp_path: Path) -> None:
    path = tmp_path / "empty.db"
    path.touch()
    with pytest.raises(SpecError, match="holds no job"):
        recorded(str(path))
    assert not path.read_bytes()
