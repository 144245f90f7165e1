"""JPAS's page: verdicts follow from rows, and a seed draws the same run for every policy."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "experiments"))
import _jpas_runs
import z_jpas


def _row(place: str, value: float) -> dict[str, Any]:
    keys = dict.fromkeys((*z_jpas.KEYS, "gained"), value)
    ranks = [0.61, 0.3, 0.09]
    return {"cell": "1.0", "place": place, "by_rank": ranks, "by_seed": [keys], **keys}


def _page(maif: float) -> str:
    rows = [_row("fair", 100.0), _row("maif", maif), _row("baraat", 120.0)]
    part = {"varies": "load", "seeds": [6], "rows": rows, "made_by": {"commit": "abc"}}
    return z_jpas.page({"16": part})


def test_a_gain_that_is_short_of_the_claim_does_not_hold() -> None:
    held, short = _page(74.0), _page(95.0)
    assert held.count("| holds |") == 9
    assert short.count("| does not hold |") == 6
    assert "-26.0 %" in held


def test_a_seed_draws_one_run_whatever_the_policy() -> None:
    fair, maif = _jpas_runs.drawn(2, "fair"), _jpas_runs.drawn(2, "maif", error=0.1)
    assert fair["workload"] == maif["workload"]
    assert maif["policy"]["flow"]["error"] == 0.1
    assert _jpas_runs.drawn(3, "fair")["workload"] != fair["workload"]
