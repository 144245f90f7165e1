"""SJF-BCO's verdict about its order follows from rows, whatever they are."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "experiments"))
import _sjf_bco
from sjf_bco_figures import BASELINES, BY_SIZE


def _part(ls_by_size: float, ff_by_size: float = 1300.0) -> dict[str, Any]:
    makespans = {"sjf-bco": 400.0, **dict.fromkeys(BASELINES, 500.0)}
    makespans |= dict(zip(BY_SIZE, (ff_by_size, ls_by_size, 2600.0), strict=True))
    return {
        "rows": [
            {"cell": "20", "place": place, "makespan_s": value, "mean_jct_s": value / 3}
            for place, value in makespans.items()
        ]
    }


def test_a_gain_that_is_the_order_alone_is_called_that() -> None:
    told = _sjf_bco._by_size(_part(400.0))
    assert told.startswith(
        "yes, by its order; its choice of GPUs gains nothing over list-scheduling."
    )
    assert "than list-scheduling 20.0 % and 20.0 % (arrival) and 0.0 % and 0.0 % (size)" in told


def test_a_gain_beyond_the_order_counts_and_a_better_baseline_refutes_the_claim() -> None:
    assert _sjf_bco._by_size(_part(500.0)).startswith("yes, and not by its order alone")
    assert _sjf_bco._by_size(_part(300.0)).startswith(
        "no: with its order list-scheduling is ahead of it"
    )
