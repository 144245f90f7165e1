"""``warren run`` on a machine whose processors another run has."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import pytest
from cli_runs import CHECKOUT, Warren, write_run

from warren.live.process.device_claims import DeviceClaims

JOBS = f"- {{name: one, app: {CHECKOUT}/tests/cli/drawn_apps.py:Line, rounds: 2, batch: 64}}\n"
CLUSTER = f"hosts: [{{name: h, devices: {{CPU: {len(os.sched_getaffinity(0))}}}}}]\n"


@pytest.mark.live
def test_a_run_whose_processors_are_taken_is_refused_in_one_line_and_shares_if_asked(
    warren: Warren, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARREN_CLAIMS", str(tmp_path / "claims"))
    file = write_run(tmp_path, jobs=JOBS, cluster=CLUSTER)
    out = tmp_path / "out"
    with closing(DeviceClaims(len(os.sched_getaffinity(0)), {}, "/runs/first")):
        told = warren("run", file, "--out", out, "--no-history")
        (line,) = told.err
        assert told.code == 2
        assert line.startswith("warren: cluster: devices: ")
        assert "run /runs/first of" in line
        assert not out.exists()
        assert warren("run", file, "--out", out, "--no-history", "--share").code == 0
    assert warren("run", "--resume", out).code == 0
