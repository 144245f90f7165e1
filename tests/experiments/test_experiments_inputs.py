"""The inputs of experiments are what their programs and texts say they are."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import yaml

import warren

CHECKOUT = Path(__file__).resolve().parents[2]
EXPERIMENTS = CHECKOUT / "experiments"
HARE = EXPERIMENTS / "hare"


def content(path: Path) -> dict[str, object]:
    """A YAML file."""
    found: dict[str, object] = yaml.safe_load(path.read_text())
    return found


def fifteen(profiles: dict[str, object] | None = None) -> dict[str, object]:
    """testbed15 as one mapping, without apps."""
    run = content(HARE / "testbed15.yaml")
    jobs = content(HARE / "testbed15-jobs.yaml")["jobs"]
    assert isinstance(jobs, list)
    kept = [{key: value for key, value in job.items() if key != "app"} for job in jobs]
    return {**run, "workload": {"jobs": kept}, "profiles": profiles or {}}


def test_the_jobs_of_testbed15_are_those_that_its_program_makes() -> None:
    subprocess.run([sys.executable, str(HARE / "make_testbed15.py"), "--check"], check=True)


def test_testbed15_is_the_testbed_of_the_paper() -> None:
    found = warren.simulate(fifteen(), place="gavel-fifo")
    jobs = Counter(job.row["model"] for job in found.jobs.values())
    assert len(jobs) == 8
    assert jobs.total() >= 24
    hosts = content(HARE / "testbed15.yaml")["cluster"]["hosts"]  # type: ignore[index]
    devices = {kind: count for host in hosts for kind, count in host["devices"].items()}
    assert devices == {"V100": 8, "T4": 4, "K80": 1, "M60": 2}


@pytest.mark.parametrize("place", ["gavel-fifo", "hare"])
def test_a_simulator_without_synchronization_is_far_off(place: str) -> None:
    sys.path.insert(0, str(EXPERIMENTS))
    try:
        from fidelity import LIMIT_PCT, without_sync
    finally:
        sys.path.remove(str(EXPERIMENTS))
    right, wrong = (
        np.array([float(job.row["jct_s"]) for job in found.jobs.values()])
        for found in (
            warren.simulate(fifteen(), place=place),
            warren.simulate(fifteen(without_sync()), place=place),
        )
    )
    assert 100 * float(np.mean(np.abs(wrong / right - 1))) > 2 * LIMIT_PCT["a"]
