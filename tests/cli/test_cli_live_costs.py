"""Costs of jobs without a profile row: what fails while measured, and who needs none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_runs import CHECKOUT, Warren, write_run

from warren.cli.database import Database

pytestmark = pytest.mark.live

APP = """\
from warren.apps.protocol import TorchApp

class Boom(TorchApp):
    def __init__(self, lr: float = 0.1) -> None:
        raise ValueError("boom")

class NoApp:
    pass
"""
BAD_LOSS = """

import torch

class BadLoss(TorchApp):
    def model(self):
        return torch.nn.Linear(1, 1)

    def dataset(self):
        return torch.utils.data.TensorDataset(torch.zeros(4, 1))

    def loss(self, model, batch):
        raise RuntimeError("no loss today")
"""
UNMEASURED = f"""\
jobs:
  - {{name: a, app: mine.py:Boom, scale: 1, rounds: 3}}
  - {{name: b, app: mine.py:NoApp, scale: 1, rounds: 3}}
  - {{name: c, app: {CHECKOUT}/tests/cli/drawn_apps.py:Sides, rounds: 3, params: {{colour: red}}}}
"""


@pytest.fixture(autouse=True)
def _own_history_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARREN_HISTORY", str(tmp_path / "history.db"))


def test_an_app_that_fails_while_measured_is_told_with_its_cause(
    warren: Warren, tmp_path: Path
) -> None:
    path = write_run(tmp_path / "in", jobs=UNMEASURED)
    (tmp_path / "in" / "mine.py").write_text(APP)
    found = warren("simulate", path)
    assert found.code == 2
    first, boom, no_app, params = found.err
    assert first == "measuring three tasks of a, b, c (no profile row)"
    jobs = tmp_path / "in" / "jobs.yaml"
    assert boom.startswith(f"warren: {jobs}:2: job a: failed while its cost was measured: ")
    assert "ValueError: boom; `warren check JOB.yaml`" in boom
    assert "no TorchApp class 'NoApp' in it; it has: Boom" in no_app
    assert "params.colour: unknown parameter; allowed: " in params


def test_profile_keeps_and_prints_what_it_measured_beside_jobs_that_fail(
    warren: Warren, tmp_path: Path
) -> None:
    good = f"  - {{name: d, app: {CHECKOUT}/tests/cli/drawn_apps.py:Sides, rounds: 3}}\n"
    write_run(tmp_path / "in", jobs=UNMEASURED + good)
    (tmp_path / "in" / "mine.py").write_text(APP + BAD_LOSS)
    jobs = tmp_path / "in" / "jobs.yaml"
    jobs.write_text(jobs.read_text().replace("NoApp", "BadLoss"))
    asked = ("profile", jobs, "--cluster", tmp_path / "in" / "cluster.yaml", "--job", "b")
    found = warren(*asked, "--job", "d", "--json")
    assert found.code == 1
    assert [row["job"] for row in found.json] == ["d"]
    told = f"warren: {jobs}:3: job b: failed while its cost was measured: "
    assert found.err[-1].startswith(told)
    assert "no loss today" in found.err[-1]
    with Database(tmp_path / "history.db") as database:
        assert [row.job for row in database.profiles()] == ["d"]
    again = warren(*asked)
    assert (again.code, again.out) == (1, "")


def test_the_plain_engine_measures_nothing(warren: Warren, tmp_path: Path) -> None:
    jobs = f"jobs: [{{name: a, app: {CHECKOUT}/tests/cli/drawn_apps.py:Sides, rounds: 3}}]"
    path = write_run(tmp_path / "in", jobs=jobs)
    out = tmp_path / "out"
    found = warren("run", path, "--out", out, "--set", "cluster.engine=plain")
    assert found.code == 0, found.err
    assert not any("measuring" in line for line in found.err)
    with Database(tmp_path / "history.db") as database:
        assert database.profiles() == []
    assert warren("report", out, "--check").code == 0
    assert json.loads((out / "summary.json").read_text())["scheduler"]["place"] == "plain"
