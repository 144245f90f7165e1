"""Tasks measured, runs remembered and writers killed, with real processes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from cli_runs import CHECKOUT, Warren, write_run

from warren.store.history_database import Database

pytestmark = pytest.mark.live

APPS = f"{CHECKOUT}/tests/cli/drawn_apps.py"
PROGRAM = CHECKOUT / "experiments" / "history_kill.py"
CLUSTER = "hosts: [{name: h, devices: {CPU: 1, CPU-too: 1}}]\n"
JOBS = f"""\
- {{name: one, app: {APPS}:Sides, scale: 2, rounds: 6, batch: 16, user: ana}}
- {{name: two, app: {APPS}:Line, rounds: 8, batch: 64}}
- {{name: again, app: {APPS}:Line, rounds: 5, batch: 64}}
"""


def test_what_was_measured_is_not_measured_again_and_runs_add_to_it(
    warren: Warren, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = tmp_path / "history.db"
    monkeypatch.setenv("WARREN_HISTORY", str(db))
    path = write_run(tmp_path / "in", jobs=JOBS, cluster=CLUSTER)
    command = ("profile", tmp_path / "in/jobs.yaml", "--cluster", tmp_path / "in/cluster.yaml")
    first = warren(*command, "--tasks", "5", "--json")
    assert first.code == 0, first.err
    assert first.err == ["measuring 5 tasks of one, two"]  # again is of the kind of two
    one, two, again = first.json
    assert two["key"] == again["key"] != one["key"]
    for row in first.json:
        assert row["comp_s"].keys() == row["sync_s"].keys() == {"CPU", "CPU-too"}
        assert 1e-5 < row["comp_s"]["CPU"] == row["comp_s"]["CPU-too"] < 1
        assert 1e-5 < row["sync_s"]["CPU"] < 1
        assert 10**5 < row["memory_bytes"] < 10**9  # what a small app writes to
        assert row["profile"]["samples"] == 5
    assert one["model_bytes"] == 4 * 31
    second = warren(*command, "--json")
    assert second.json == first.json
    assert [line.partition(" known")[0] for line in second.err] == ["costs of one, two, again are"]
    out = tmp_path / "out"
    trained = warren("run", path, "--out", out, "--json")
    assert trained.code == 0, trained.err
    assert not any("measuring" in line for line in trained.err)
    with Database(db) as database:
        rows, jobs = {row.key: row for row in database.profiles()}, database.jobs()
    assert rows.keys() == {one["key"], two["key"]}  # the trainers' class is the one measured in
    assert [rows[each["key"]].avg_tasks for each in (one, two)] == [5 * 2, 7 + 4]
    assert all(row.comp_s and row.comp_avg_s and row.samples == 5 for row in rows.values())
    assert {job.name: (job.rounds, job.status) for job in jobs} == {
        "one": (6, "finished"), "two": (8, "finished"), "again": (5, "finished"),
    }  # fmt: skip
    assert {job.model_bytes for job in jobs if job.name == "one"} == {4 * 31}
    timed = [cost["tasks"] for job in jobs for cost in json.loads(job.costs).values()]
    assert sum(timed) == 5 * 2 + 7 + 4


def test_writers_killed_at_drawn_moments_lose_nothing_that_they_acknowledged() -> None:
    """``experiments/history_kill.py`` strikes 200 times, of which these are the first."""
    command = [sys.executable, str(PROGRAM), "--kills", "20"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    said = done.stdout.split()
    assert done.stdout.startswith("20 strikes at 40 writers, ")
    # Every other strike waits for one.
    assert int(said[said.index("acknowledged,") - 1]) >= 10
