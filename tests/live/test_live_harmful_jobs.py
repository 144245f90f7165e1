"""A job that harms the run itself, not its process alone, fails, and a job beside it does not."""

from __future__ import annotations

from pathlib import Path

import pytest

import warren
from warren.live.oracle.plain import train
from warren.live.training import numerics
from warren.live.training.app.app_loader import build_app
from warren.profile.published import BATCHES
from warren.runs.api import Result
from warren.store.files import read
from warren.workload.run_file import run_from_dict

pytestmark = pytest.mark.live

CHECKOUT = Path(__file__).resolve().parents[2]
APPS = CHECKOUT / "tests" / "apps"


def beside_an_innocent(out: Path, harmful: str, **local: object) -> tuple[Result, str]:
    """Train a harmful app beside a correct one, both from time zero; and what that one computes."""
    innocent = {
        "name": "innocent", "app": f"{APPS}/correct_apps.py:Perceptron", "cost": "small",
        "scale": 2, "rounds": 60, "batch": 8, "seed": 3, "user": "ana",
        "checkpoint": {"every": 2}, "params": {"sleep_s": 0.002},
    }  # fmt: skip
    other = {
        "name": "harmful", "app": f"{APPS}/harmful_apps.py:{harmful}", "cost": "small",
        "scale": 1, "rounds": 60, "batch": 8, "user": "ana",
    }  # fmt: skip
    run: dict[str, object] = {
        "cluster": {"hosts": [{"name": "h", "devices": {"CPU": 2}}], "local": local},
        "workload": {"jobs": [other, innocent]},
        "scheduler": {"place": f"{CHECKOUT}/examples/policies/round_robin.py:RoundRobin"},
        "profiles": {"small": {"model": "1 MB", "comp": {"CPU": "4 ms"}}},
    }
    jobs = run_from_dict(run, ".", read, batches=BATCHES).workload.jobs
    (job,) = (job for job in jobs if job.name == "innocent")
    app = build_app(job, ".")
    numerics.pin()
    return warren.run(run, out=out, history=False), train(app, job).digest


def test_a_job_that_kills_its_parent_again_and_again_fails_alone(tmp_path: Path) -> None:
    found, expected = beside_an_innocent(tmp_path / "out", "KillsItsParent")
    ends = {name: job.row["status"] for name, job in found.jobs.items()}
    assert ends == {"harmful": "failed", "innocent": "finished"}
    assert found.job("innocent").row["params_sha256"] == expected
