"""The bound beside a schedule: one computation for equal workloads, another for other rounds."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from warren.core.journal_reader import History, read_history
from warren.core.loop import Core
from warren.policy.registry import place_policy
from warren.runs import bound_of_run as bounds
from warren.sim.port import SimPort
from warren.solve.bounds import lower_bounds as solved

sys.path.insert(0, str(Path(__file__).parents[1]))
import worlds


def test_equal_workloads_share_one_computation(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []
    compute = solved.lower_bounds

    def counted(**columns: Any) -> solved.LowerBounds:
        asked.append(columns)
        return compute(**columns)

    monkeypatch.setattr(solved, "lower_bounds", counted)
    bounds._answers.clear()
    run, costs = worlds.random_world(3)

    def history(name: str) -> History:
        journal = bytearray()
        Core(
            run=run, costs=costs, policy=place_policy(name), port=SimPort(run, costs),
            sink=journal.extend, world="sim",
        ).execute()  # fmt: skip
        return read_history(bytes(journal))

    found = [bounds.lower_bound(run, costs, history(name)) for name in ("srtf", "gavel-fifo")]
    assert found[0] == found[1]
    assert found[0].weighted_jct_s is not None
    assert len(asked) == 1
    assert np.array_equal(asked[0]["rounds_J"], [job.rounds for job in run.workload.jobs])
    other, dearer = worlds.random_world(4)
    run, costs = other, dearer
    assert bounds.lower_bound(run, costs, history("srtf")) != found[0]
    assert len(asked) == 2


def test_ten_seeds_policy_by_policy_are_ten_computations(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []
    nothing = solved.lower_bounds(**columns(1))
    monkeypatch.setattr(solved, "lower_bounds", lambda **given: asked.append(given) or nothing)
    bounds._answers.clear()
    for _ in ("hare", "srtf", "gavel-fifo"):
        for seed in range(10):
            bounds.bound_of(bounds.packed(columns(seed)))
    bounds._answers.clear()
    assert len(asked) == 10


def columns(seed: int) -> dict[str, Any]:
    """What the bounds of a random world ask for."""
    run, costs = worlds.random_world(seed)
    return bounds.columns_of(run, costs, np.array([job.rounds for job in run.workload.jobs]))
