"""The metrics file of a job: a column for each number, whatever an app calls them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from warren.live.control.run_files import RunFiles
from warren.model.events import RoundsDone
from warren.model.job import Job
from warren.predict.reading.curve_files import table_curve

SECOND = 10**9


def test_a_metric_called_like_the_loss_has_a_column_of_its_own_and_is_predicted_from(
    tmp_path: Path,
) -> None:
    job = Job(index=0, name="j", scale=1, rounds=12, batch=1)
    outputs, path = RunFiles(tmp_path, (job,)), tmp_path / "metrics" / "j.csv"
    for round_no in range(10):
        metrics = {"loss": 2.0 / (1 + round_no), "round": 1.0} if round_no % 2 else {}
        outputs.add_metrics(0, round_no, round_no * SECOND, 1.0 / (1 + round_no), metrics)
    outputs.drop_metrics(0, 8)
    again = RunFiles(tmp_path, (job,))
    again.drop_metrics(0, 9)
    again.add_metrics(0, 8, 9 * SECOND, 0.5, {"loss": 0.25, "evaluate.loss": 3.0})
    head, *rows = [line.split(",") for line in path.read_text().splitlines()]
    assert head == [
        "round", "time_s", "loss", "evaluate.loss", "evaluate.round", "evaluate.evaluate.loss"
    ]  # fmt: skip
    assert rows[7] == ["7", "7.0", "0.125", "0.25", "1.0", ""]
    assert rows[8] == ["8", "9.0", "0.5", "0.25", "", "3.0"]
    trained = table_curve("j.csv", path.read_text(), ("round", "loss")).curve
    evaluated = table_curve("j.csv", path.read_text(), ("round", "evaluate.loss")).curve
    assert (len(trained.steps), list(evaluated.steps)) == (9, [1, 3, 5, 7, 8])
    assert list(evaluated.values)[:2] == [1.0, 0.5]


def test_rows_of_more_jobs_than_files_stay_open_are_all_there_after_roll_backs_too(
    tmp_path: Path,
) -> None:
    jobs = tuple(Job(index=at, name=f"j{at}", scale=1, rounds=4, batch=1) for at in range(70))
    outputs = RunFiles(tmp_path, jobs)
    for round_no in range(3):
        for job in jobs:
            outputs.add_metrics(job.index, round_no, round_no * SECOND, 0.5, {})
    outputs.drop_metrics(69, 2)
    outputs.drop_metrics(0, 1)
    for job in (69, 0):
        outputs.add_metrics(job, 3, 3 * SECOND, 0.25, {"late": 1.0})
    outputs.close()
    rounds = {
        job.index: [
            row.split(",")[0]
            for row in (tmp_path / f"metrics/j{job.index}.csv").read_text().split()
        ]
        for job in jobs
    }
    expected = {job: ["round", "0", "1", "2"] for job in range(70)}
    assert rounds == expected | {0: ["round", "0", "3"], 69: ["round", "0", "1", "3"]}


DAMAGE: dict[str, Callable[[Path], Any]] = {
    "empty": lambda path: path.write_bytes(b""),
    "no text": lambda path: path.write_bytes(b"round,time_s,loss\n0,\x94\xff,1\n"),
    "no number": lambda path: path.write_text("round,time_s,loss\nx,0,1\n"),
    "another header": lambda path: path.write_text("time_s,round,loss\n0,0,1\n"),
    "a null byte": lambda path: path.write_bytes(b"\0" * 40),
    "one long cell": lambda path: path.write_text("round,time_s,loss\n" + "1" * 200_000),
    "a pipe": lambda path: (path.unlink(), os.mkfifo(path)),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_metrics_file_begins_again_and_is_named(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    job, path = Job(index=0, name="j", scale=1, rounds=9, batch=1), tmp_path / "metrics" / "j.csv"
    outputs = RunFiles(tmp_path, (job,))
    outputs.add_metrics(0, 0, SECOND, 0.5, {"accuracy": 0.1})
    DAMAGE[damage](path)
    outputs.drop_metrics(0, 3)
    assert [one.getMessage() for one in caplog.records] == [
        f"{path} is damaged; it starts again at round 3"
    ]
    outputs.add_metrics(0, 3, 2 * SECOND, 0.25, {"accuracy": 0.2})
    assert path.read_text() == "round,time_s,loss,accuracy\n3,2.0,0.25,0.2\n"


@pytest.mark.parametrize("damage", [*DAMAGE, "sound", "gone"])
def test_metrics_are_written_again_from_the_journal(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    jobs = tuple(Job(index=at, name=f"j{at}", scale=1, rounds=9, batch=1) for at in (0, 1))
    path = tmp_path / "metrics" / "j0.csv"
    outputs = RunFiles(tmp_path, jobs)
    rounds = [
        RoundsDone(SECOND, 0, 0, 1, False, 0.5),
        RoundsDone(SECOND, 1, 0, 1, False, 0.7),
        RoundsDone(3 * SECOND, 0, 1, 1, False, 0.25, (("accuracy", 0.2),), 2 * SECOND),
    ]
    for one in rounds:
        outputs.add_metrics(one.job, one.round, one.barrier_ns, one.loss or 0, dict(one.metrics))
    before = path.read_text()
    assert before == "round,time_s,loss,accuracy\n0,1.0,0.5,\n1,2.0,0.25,0.2\n"
    if damage == "gone":
        path.unlink()
    elif damage != "sound":
        DAMAGE[damage](path)
    outputs.restore_metrics(0, rounds)
    assert path.read_text() == before
    said = f"{path} is damaged; it is written again from the journal"
    expected = [] if damage in ("sound", "gone") else [said]
    assert [one.getMessage() for one in caplog.records] == expected


def test_a_metrics_file_is_on_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, calls = Job(index=0, name="j", scale=1, rounds=9, batch=1), list[str]()
    for name in ("fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *a, n=name, f=real: (calls.append(n), f(*a))[1])
    outputs = RunFiles(tmp_path, (job,))
    outputs.add_metrics(0, 0, SECOND, 0.5, {})
    assert calls == ["fsync", "replace", "fsync"], "the file, its name, its folder"
