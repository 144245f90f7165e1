"""What is said when the zygote is lost while it starts: all there is, since no folder stays."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from cli_runs import CHECKOUT, Told, Warren, write_run

from warren.live.process.process_pool import ProcessPool

pytestmark = pytest.mark.live

APPS = f"{CHECKOUT}/tests/cli/drawn_apps.py"
CLUSTER = "hosts: [{name: h, devices: {CPU: 2}}]\n"
JOBS = f"- {{name: one, app: {APPS}:Line, rounds: 8, batch: 64}}\n"
PRICED = f"- {{name: one, app: {APPS}:Line, model: fastgcn, rounds: 8, batch: 64}}\n"
EMULATED = "hosts: [{name: v, devices: {V100: 2}}]\nemulate: {time_scale: 0.001}\n"
COMMANDS = {
    "run": ("run", "run.yaml", "--out", "out"),
    "run that measures first": ("run", "unpriced.yaml", "--out", "out"),
    "plain run": ("run", "run.yaml", "--out", "out", "--set", "cluster.engine=plain"),
    "check": ("check", "jobs.yaml"),
    "profile": ("profile", "jobs.yaml", "--cluster", "cluster.yaml"),
    "calibrate": ("calibrate", "--local"),
    "calibrate jobs": ("calibrate", "--local", "--jobs", "unpriced.yaml"),
}
BROKEN = "raise ImportError('this library is not whole')\n"


@pytest.fixture(autouse=True)
def _at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder with files for every command."""
    home = tmp_path / "home"
    write_run(home, jobs=JOBS, cluster=CLUSTER)
    (home / "run.yaml").rename(home / "unpriced.yaml")
    write_run(home / "emulated", jobs=PRICED, cluster=EMULATED)
    for name in ("run", "jobs", "cluster"):
        text = (home / "emulated" / f"{name}.yaml").read_text()
        if name == "run":
            text = text.replace(": cluster.yaml", ": emulated/cluster.yaml")
            (home / "run.yaml").write_text(text.replace(": jobs.yaml", ": emulated/jobs.yaml"))
    monkeypatch.chdir(home)
    monkeypatch.setenv("WARREN_HISTORY", str(tmp_path / "history.db"))
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))


def _said(told: Told, tmp_path: Path) -> str:
    """The complaint, once nothing else is left of the command."""
    (line,) = [line for line in told.err if line.startswith("warren: ")]
    assert told.code == 1
    assert not list((tmp_path / "tmp").iterdir())
    assert not Path("out").exists()
    assert str(tmp_path / "tmp") not in line
    return line.removeprefix("warren: ")


# Warm ones may have started before they are killed.
@pytest.mark.usefixtures("cold_zygotes")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_zygote_that_is_killed_while_it_starts_is_reported_with_how(
    command: str, warren: Warren, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = ProcessPool.__init__

    def struck(self: ProcessPool, *what: Any, **named: Any) -> None:
        begin(self, *what, **named)
        self._zygote.kill()

    monkeypatch.setattr(ProcessPool, "__init__", struck)
    line = _said(warren(*COMMANDS[command]), tmp_path)
    assert line == (
        "the zygote ended while it started (killed by SIGKILL); it printed last: nothing"
    )


@pytest.mark.usefixtures("cold_zygotes")
def test_a_zygote_that_cannot_load_a_library_is_reported_with_its_last_lines(
    warren: Warren, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torch.py").write_text(BROKEN)
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    monkeypatch.setenv("PYTHONPATH", path)
    line = _said(warren(*COMMANDS["run"]), tmp_path)
    assert line.startswith("the zygote ended while it started (exit status 1); it printed last: ")
    assert line.endswith("; ImportError: this library is not whole")
    assert "torch.py" in line
