"""Costs of jobs without a profile row: what fails while measured, and who needs none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_runs import CHECKOUT, Warren, write_run

import warren as from_python
from warren.store.history_database import Database

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
RAISES = '        raise RuntimeError("no loss today")'
CPUS = "format: 1\nhosts: [{name: h, devices: {CPU: 2}}]\nnetwork: {model: constant}\n"
BESIDE = f"""\
jobs:
  - {{name: good, app: {CHECKOUT}/tests/cli/drawn_apps.py:Sides, scale: 3, rounds: 3}}
  - {{name: bad, app: mine.py:BadLoss, scale: 1, rounds: 3}}
"""


@pytest.fixture(autouse=True)
def _own_history_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARREN_HISTORY", str(tmp_path / "history.db"))


def test_an_app_that_fails_while_measured_is_reported_with_its_cause(
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
    assert "ValueError: boom (mine.py:5); `warren check`" in boom
    assert "no TorchApp class 'NoApp' in it; it has: Boom" in no_app
    assert "params.colour: unknown parameter; allowed: " in params


def test_an_app_that_fails_while_measured_fails_alone_in_a_live_run(
    warren: Warren, tmp_path: Path
) -> None:
    path = write_run(tmp_path / "in", jobs=BESIDE, cluster=CPUS)
    (tmp_path / "in" / "mine.py").write_text(APP + BAD_LOSS)
    out = tmp_path / "out"
    found = warren("run", path, "--out", out)
    assert found.code == 1, found.err
    told = [line for line in found.err if "failed while its cost was measured" in line]
    assert [line.split(": ")[1] for line in told] == ["job bad"]
    assert told[0].endswith("the run goes on, and plans it like the others")
    (line,) = [line for line in found.err if " bad FAILED: " in line]
    at = f"(mine.py:{1 + (APP + BAD_LOSS).splitlines().index(RAISES)})"
    assert line.endswith(f"RuntimeError: no loss today {at}")
    log = (out / "logs" / "bad.log").read_text()
    assert "Traceback" in log
    assert RAISES.strip() in log
    statuses = {job.name: job.row["status"] for job in from_python.load(out).jobs.values()}
    assert statuses == {"good": "finished", "bad": "failed"}


def test_check_shows_the_way_to_where_an_app_fails(warren: Warren, tmp_path: Path) -> None:
    """Of a run file: its jobs without an app are left out."""
    path = write_run(tmp_path / "in", jobs=BESIDE + "  - {name: c, model: resnet50, rounds: 3}\n")
    (tmp_path / "in" / "mine.py").write_text(APP + BAD_LOSS)
    found = warren("check", path)
    assert found.code == 1
    assert found.err == ["checking good", "checking bad"]
    good, bad, *way = found.out.splitlines()
    assert good.startswith("good: 9 tasks gave the same bits")
    assert bad.startswith("bad: the app failed: RuntimeError: no loss today (mine.py:")
    assert "in loss" in way[0]
    assert way[1:] == [RAISES[4:], "RuntimeError: no loss today"]


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


def test_check_shows_the_way_to_where_an_import_fails(warren: Warren, tmp_path: Path) -> None:
    path = write_run(tmp_path / "in", jobs=BESIDE)
    (tmp_path / "in" / "mine.py").write_text("import helper\n" + APP + BAD_LOSS)
    (tmp_path / "in" / "helper.py").write_text("import no_such_library\n")
    found = warren("check", path, "--job", "bad")
    assert found.code == 1
    assert [line.strip() for line in found.out.splitlines()[2:]] == [
        "import helper",
        f'File "{tmp_path / "in" / "helper.py"}", line 1, in <module>',
        "import no_such_library",
        "ModuleNotFoundError: No module named 'no_such_library'",
    ]
