"""Rings that cannot be placed are refused before anything starts, in one line."""

from __future__ import annotations

import pytest

from warren.model.errors import SpecError
from warren.runs.choose_policy import choose
from warren.workload.run_file import run_from_dict


def described(place: str, scale: int) -> dict[str, object]:
    """One ring on three devices."""
    return {
        "cluster": {"hosts": [{"name": "h", "devices": {"A": 3}}]},
        "workload": {
            "jobs": [{"name": "wide", "model": "m", "sync": "ring", "scale": scale, "rounds": 2}]
        },
        "profiles": {"m": {"model": "1 MB", "comp": {"A": "1 s"}, "sync": {"A": "0 s"}}},
        "scheduler": {"place": place},
    }


def test_a_policy_that_splits_rounds_is_refused_for_rings() -> None:
    with pytest.raises(
        SpecError,
        match=r"policy 'srtf' cannot place ring jobs \(job 'wide' has sync: ring\); use braid, ",
    ):
        choose(run_from_dict(described("srtf", 2), ".", lambda path: b""))


def test_a_ring_larger_than_the_cluster_is_refused_by_its_name() -> None:
    choose(run_from_dict(described("fifo", 3), ".", lambda path: b""))
    with pytest.raises(SpecError, match="job wide: scale: a ring of 4 needs as many devices, and"):
        choose(run_from_dict(described("fifo", 4), ".", lambda path: b""))
