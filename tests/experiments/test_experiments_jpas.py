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
    models = dict.fromkeys(_jpas_runs.MODELS, value)
    told = {"by_rank": ranks, "by_seed": [keys], "by_model": models}
    return {"cell": "1.0", "place": place, **told, **keys}


def _page(maif: float, ours: float = 70.0) -> str:
    rows = [_row("fair", 100.0), _row("maif", maif), _row(z_jpas.OURS, ours)]
    rows += [_row("baraat", 120.0), _row("sincronia", 99.0)]
    part = {"varies": "load", "seeds": [6], "rows": rows, "made_by": {"commit": "abc"}}
    return z_jpas.page({"16": part})


def test_a_gain_that_is_short_of_the_claim_does_not_hold() -> None:
    held, short = _page(74.0), _page(95.0, ours=89.0)
    # Seven claims of times and one of ranks for each gain, and Baraat; Sincronia is not later.
    assert (held.count(": holds |"), held.count(": does not hold |")) == (17, 1)
    # Of the times only those to 99 % of ours and both JCTs; ranks and Baraat as above.
    assert (short.count(": holds |"), short.count(": does not hold |")) == (7, 11)
    assert "-26.0 %" in held


def test_a_seed_draws_one_run_whatever_the_policy() -> None:
    fair, maif = _jpas_runs.drawn(2, "fair"), _jpas_runs.drawn(2, "maif", error=0.1)
    assert fair["workload"] == maif["workload"]
    assert maif["policy"]["flow"]["error"] == 0.1
    assert _jpas_runs.drawn(3, "fair")["workload"] != fair["workload"]
