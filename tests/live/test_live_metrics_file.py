"""The metrics file of a job: a column for each number, whatever an app calls them."""

from __future__ import annotations

from pathlib import Path

from warren.live.control.run_files import RunFiles
from warren.model.job import Job
from warren.predict.curve_files import table_curve

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
    trained = table_curve("j.csv", path.read_text(), ("round", "loss"))
    evaluated = table_curve("j.csv", path.read_text(), ("round", "evaluate.loss"))
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
