"""Folders of every policy pass their check on kinds of workload that no other test has."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from warren.policy.registry import POLICIES

sys.path.insert(0, str(Path(__file__).parents[2] / "experiments"))
import checked

pytestmark = pytest.mark.slow

TINY = ("workload.jobs=16", "cluster.hosts.devices=6", "workload.rounds_factor=0.02")
"""More than 400 tasks: below that ``hare-published`` solves linear programs, for seconds."""
CASES = [
    checked.Case("arrivals, a type too small, overheads", checked.HARE, (
        *TINY, "workload.load=1", "cluster.hosts.mix={V100: 1, T4: 1}", checked.OVERHEADS,
        "cluster.device_types={V100: {memory: 16 GB}, T4: {memory: 4 GB}}")),
    checked.Case("noise, copies, lane, wide jobs", checked.HARE, (
        *TINY, "workload.scales=[16, 5]", checked.NOISE, checked.LANE,
        "scheduler.copies_after=1.5")),
    checked.Case("one device, stretches", checked.HARE, (
        *TINY, "cluster.hosts.devices=1", "grain=2 rounds")),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_folder_of_every_policy_is_whole(case: checked.Case, tmp_path: Path) -> None:
    rows = checked.checks_of(case, tmp_path)
    assert [row["place"] for row in rows] == sorted(POLICIES)
    assert [row for row in rows if "refused" in row or not checked.whole(row)] == []


def test_a_damaged_folder_is_not_whole(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    real = checked.called

    def damaging(*arguments: str) -> checked.Told:
        told = real(*arguments)
        if arguments[0] == "simulate":
            path = Path(arguments[arguments.index("--out") + 1]) / "jobs.csv"
            path.write_text(path.read_text().replace(",finished,", ",failed,", 1))
        return told

    monkeypatch.setattr(checked, "called", damaging)
    monkeypatch.setattr(checked, "POLICIES", {"srtf": ""})
    (row,) = checked.checks_of(CASES[2], tmp_path)
    assert row["faults"]
    assert not checked.whole(row)
