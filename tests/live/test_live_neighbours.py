"""What a job computes does not hang on what its neighbors do to the process they run in.

``experiments/neighbours.py`` has one run for each kind of neighbor; here all of them meet.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pyarrow.parquet as parquet
import pytest
import yaml

import warren
from warren.live.oracle.plain import train
from warren.live.training import numerics
from warren.live.training.app.app_loader import build_app
from warren.profile.published import BATCHES
from warren.store.files import read
from warren.workload.run_file import run_from_dict

pytestmark = pytest.mark.live

CHECKOUT = Path(__file__).resolve().parents[2]
SPINE = CHECKOUT / "experiments" / "spine"
CORRECT = "correct_apps.py"
KINDS = 8
"""Of neighbors, each of which must meet every correct job."""


def described() -> dict[str, object]:
    """The run of ``neighbours.yaml``, with absolute paths; its jobs."""
    run = yaml.safe_load((SPINE / "neighbours.yaml").read_text().replace("../..", str(CHECKOUT)))
    jobs = (SPINE / "neighbours-jobs.yaml").read_text().replace("../..", str(CHECKOUT))
    # Of two that end their process, one is enough; that needs a cgroup.
    kept = [job for job in yaml.safe_load(jobs)["jobs"] if job["name"] != "memory"]
    # Long enough for a task to be done first, however busy the machine is.
    next(job for job in kept if job["name"] == "timer")["params"] = {"after_s": 1.0}
    del run["cluster"]["local"]
    return {**run, "workload": {"jobs": kept}}


def hashes_of_plain(run: dict[str, object]) -> dict[str, str]:
    """What the correct jobs compute, by definition."""
    found = {}
    for job in run_from_dict(run, ".", read, batches=BATCHES).workload.jobs:
        if CORRECT in str(job.app):
            app = build_app(job, ".")
            numerics.pin()
            found[job.name] = train(app, job).digest
    return found


def write_samples(folder: Path) -> None:
    """What one of the jobs reads."""
    file = CHECKOUT / "tests" / "apps" / CORRECT
    spec = importlib.util.spec_from_file_location("correct_apps", file)
    assert spec is not None
    assert spec.loader is not None
    apps = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(apps)
    apps.write_samples(folder)


def test_no_neighbor_changes_the_bits_of_a_correct_job_nor_fails_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_samples(tmp_path / "samples")
    run = described()
    expected = hashes_of_plain(run)
    jobs = warren.run(run, out=tmp_path / "out", history=False).jobs
    found = {name: jobs[name].row["params_sha256"] for name in expected}
    assert (len(jobs) - len(expected), len(expected)) == (KINDS, 5)
    assert {name: jobs[name].row["status"] for name in expected} == dict.fromkeys(
        expected, "finished"
    )
    assert found == expected
    _all_have_met(tmp_path / "out", set(jobs) - set(expected), set(expected))


def _all_have_met(out: Path, neighbours: set[str], correct: set[str]) -> None:
    """Each correct job had a task, on some device, after one of each neighbor there."""
    first: dict[tuple[str, str], float] = {}
    last: dict[tuple[str, str], float] = {}
    for row in parquet.read_table(out / "timeline.parquet").to_pylist():
        at = row["job"], row["device"]
        first[at] = min(row["start_s"], first.get(at, row["start_s"]))
        last[at] = max(row["start_s"], last.get(at, row["start_s"]))
    met = {
        (one, other)
        for one, device in first
        for other, same in last
        if device == same and first[one, device] < last[other, same]
    }
    missing = {(one, other) for one in neighbours for other in correct} - met
    assert missing == set()
