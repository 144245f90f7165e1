"""The project's first promise: same job, any schedule, same bits.

Every example app is trained by the plain engine, and then under three policies on one, two and
four devices. ``experiments/same_bits.py`` runs the whole matrix, with more rounds.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import warren
from warren.live.measure.machine import processor
from warren.live.oracle.plain import train as plain_loop
from warren.live.training import numerics
from warren.live.training.app.app_loader import build_app
from warren.profile.published import BATCHES
from warren.runs.api import Result
from warren.store.files import read
from warren.workload.run_file import run_from_dict

pytestmark = pytest.mark.live

CHECKOUT = Path(__file__).resolve().parents[2]
SPINE = CHECKOUT / "experiments" / "spine"
PARAMS = CHECKOUT / "tests" / "goldens" / "params.json"
MOST_ROUNDS = 14
CORNERS = [("gavel-fifo", 1), ("srtf", 2), ("hare", 4)]


def described(
    folder: Path, name: str, *, engine: str, place: str, devices: int, seed: int
) -> dict[str, object]:
    """A run of the jobs of ``bits-jobs.yaml``, with fewer rounds; its files go to ``folder``."""
    jobs = (SPINE / "bits-jobs.yaml").read_text().replace("../../examples", f"{CHECKOUT}/examples")
    jobs = re.sub(r"rounds: (\d+)", lambda m: f"rounds: {min(int(m[1]), MOST_ROUNDS)}", jobs)
    # In ten rounds the stop rule must come to hold before the last one.
    jobs = jobs.replace("every: 10", "every: 5").replace("reaches: 0.85", "reaches: 0.7")
    cluster = (SPINE / f"bits-{devices}.yaml").read_text().replace("local", engine)
    (folder / f"{name}-jobs.yaml").write_text(jobs)
    (folder / f"{name}-cluster.yaml").write_text(cluster)
    return {
        "format": 1,
        "cluster": str(folder / f"{name}-cluster.yaml"),
        "workload": {"jobs": str(folder / f"{name}-jobs.yaml")},
        "scheduler": {"place": place},
        "seed": seed,
    }


def train(folder: Path, name: str, *, engine: str, place: str, devices: int) -> Result:
    """Train them into ``folder / name``."""
    run = described(folder, name, engine=engine, place=place, devices=devices, seed=1)
    return warren.run(run, out=folder / name)


def hashes(result: Result) -> dict[str, str]:
    """The hash of every job's parameters; all jobs must have finished."""
    assert {job.row["status"] for job in result.jobs.values()} == {"finished"}
    return {name: job.row["params_sha256"] for name, job in result.jobs.items()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bits")


@pytest.fixture(scope="module")
def plain(folder: Path) -> Result:
    """What the jobs compute, by definition."""
    return train(folder, "plain", engine="plain", place="hare", devices=1)


@pytest.mark.parametrize(("place", "devices"), CORNERS)
def test_every_schedule_gives_the_bits_of_the_plain_loop(
    plain: Result, folder: Path, place: str, devices: int
) -> None:
    name = f"{place}-{devices}"
    found = train(folder, name, engine="local", place=place, devices=devices)
    assert hashes(found) == hashes(plain)
    for job, other in found.jobs.items():
        assert other.row["rounds"] == plain.job(job).row["rounds"]
        assert other.row["final_loss"] == plain.job(job).row["final_loss"]
        assert other.row["numerics"] == plain.job(job).row["numerics"]


def test_the_plain_loop_gives_the_recorded_bits(plain: Result) -> None:
    """``goldens/params.json``, by numerics class and processor: others may give other bits."""
    recorded = json.loads(PARAMS.read_text())
    here = f"{next(iter(plain.jobs.values())).row['numerics']}; {processor()}"
    if here not in recorded:
        pytest.skip(f"the bits of {here!r} are not recorded in tests/goldens/params.json")
    assert hashes(plain) == recorded[here]


def test_the_jobs_are_all_apps_and_learn_and_one_stops_early(plain: Result) -> None:
    assert plain.folder is not None
    apps = (CHECKOUT / "examples" / "apps").glob("*.py")
    # Those of ``classical-jobs.yaml`` are trained in test_live_classical.py.
    text = "".join((SPINE / f"{name}-jobs.yaml").read_text() for name in ("bits", "classical"))
    assert all(app.name in text for app in apps)
    for name in plain.jobs:
        lines = (plain.folder / "metrics" / f"{name}.csv").read_text().splitlines()[1:]
        losses = [float(line.split(",")[2]) for line in lines]
        third = max(1, len(losses) // 3)
        assert sum(losses[-third:]) < sum(losses[:third]), name
    assert 0 < int(plain.job("until").row["rounds"]) < MOST_ROUNDS


def test_another_seed_gives_other_bits(plain: Result, folder: Path) -> None:
    given = described(folder, "other", engine="plain", place="hare", devices=1, seed=2)
    run = run_from_dict(given, ".", read, batches=BATCHES)
    mine, theirs = hashes(plain), {}
    for job in run.workload.jobs:
        app = build_app(job, run.base)
        numerics.pin()
        theirs[job.name] = plain_loop(app, job).digest
    assert mine.keys() == theirs.keys()
    assert [name for name in mine if mine[name] == theirs[name]] == []
