"""All rounds of fidelity's case (c) that were run and committed, from the history of its results.

Each round overwrote the one before in ``results/fidelity.json``. Kept here are those too that
missed the limit.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from typing import Any, Final

import _common

CASES: Final = ("c", "c1", "c2")
FILE: Final = "experiments/results/fidelity.json"

Row = dict[str, Any]


def all_rounds(known: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """The part ``rounds``: what is ``known`` of it, what git has, and what stands in ``now``."""
    committed = (row for parts in _committed() for row in _of(parts))
    rows = [*known.get("rows", ()), *committed, *_of(now)]
    by_key = {(row["case"], row["commit"], *row["mean_error_pct"]): row for row in rows}
    return {"rows": list(by_key.values())}


def _committed() -> Iterator[Mapping[str, Any]]:
    """The parts of each committed version, the oldest first; none without a history."""
    git = ["git", "-C", str(_common.ROOT)]
    log = subprocess.run(
        [*git, "log", "--reverse", "--format=%H", "--", FILE], capture_output=True, text=True
    )
    for commit in log.stdout.split():
        shown = subprocess.run([*git, "show", f"{commit}:{FILE}"], capture_output=True, text=True)
        if not shown.returncode:
            yield json.loads(shown.stdout)["parts"]


def _of(parts: Mapping[str, Any]) -> Iterator[Row]:
    """A row for each case and policy: the runs of a round."""
    for case in CASES:
        part = parts.get(case, {"rows": ()})
        for place in dict.fromkeys(row["place"] for row in part["rows"]):
            mine = [row for row in part["rows"] if row["place"] == place]
            yield {
                "case": case,
                "place": place,
                "commit": part["made_by"]["commit"],
                "processor": part["made_by"]["processor"],
                "mean_error_pct": [row["mean_error_pct"] for row in mine],
                "max_error_pct": max(row["max_error_pct"] for row in mine),
                "comp_over_predicted": [row.get("comp_over_predicted") for row in mine],
            }
