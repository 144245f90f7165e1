"""Cruise's verdicts follow from rows: each can hold, and each can fail."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "experiments"))
import _cruise_claims as claims
import _opportunistic_page as opportunistic
import shape_grid


def _row(policy: str, first_s: float, last_s: float, jct_s: float = 50.0) -> dict[str, Any]:
    return {
        "policy": policy, "options": {}, "first_s": first_s, "last_s": last_s, "jct_s": jct_s,
        "sha256": "a",
    }  # fmt: skip


def _parts(last_s: float, both_s: float = 40.0) -> dict[str, Any]:
    rows = [_row("all", 1, 1, both_s), _row("cruise", 2, 1), _row("cruise-published", 2, last_s)]
    return {app: {"policies": rows} for app in claims.APPS} | {"unequal": {"rows": rows}}


def test_a_policy_that_ends_slower_than_it_began_is_called_that() -> None:
    slower, sooner = _parts(2.2), _parts(1.2)
    for parts, said in (
        (slower, "does not hold: ends slower than it began in 4 of 4"), (sooner, "holds"),
    ):  # fmt: skip
        rows = {app: claims.named(parts[app]["policies"], claims.PUBLISHED) for app in claims.APPS}
        assert claims._shorter(rows, claims.PUBLISHED)[2] == said
    assert claims._unequal(_row("cruise", 2, 1))[2] == "holds"
    assert claims._unequal(_row("cruise", 2, 1.4))[2] == "does not hold"


def test_the_page_says_where_a_static_shape_is_sooner() -> None:
    assert "shorter JCT in 5 of 5 comparisons" in claims.against_both(_parts(1.2))
    assert "shorter JCT in 0 of 5 comparisons" in claims.against_both(_parts(1.2, both_s=60.0))


def test_the_bill_has_its_figures_and_verdict_a_policy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(opportunistic._common, "RESULTS", tmp_path)
    assert opportunistic.claim()[2] == "not made"
    figures = (
        ("fixed", False, 100, 10),
        ("cruise-published", True, 80, 9),
        ("cruise", True, 70, 8),
    )
    rows = [
        {"policy": policy, "come": come, "takes_s": takes_s, "cost": cost}
        for policy, come, takes_s, cost in figures
    ]
    (tmp_path / "shapes_opportunistic.json").write_text(json.dumps({"rows": rows, "epochs": 25}))
    _, here, judged = opportunistic.claim()
    assert "`cruise-published` -20.0 % and -10.0 %; `cruise` -30.0 % and -20.0 %" in here
    assert judged == "`cruise-published`: holds and does not hold; `cruise`: holds"


def test_choices_bits_and_times_can_fail() -> None:
    assert [claims._chosen({"mlr": pct})[2] for pct in (0.0, 9.0)] == ["holds", "does not hold"]
    other = [_row("all", 1, 1), _row("cruise", 2, 1) | {"sha256": "b"}]
    assert claims._bits({"mlr": other})[2] == "does not hold"
    times = [{"machines": "28 and 4", "ms": 9.0}, {"machines": "10,000 equal", "ms": 9e9}]
    assert claims._solved(times)[2] == "holds"
    assert claims._solved([{"machines": "28 and 4", "ms": 4e4}])[2] == "does not hold"


def test_regret_on_all_machines_is_among_cells_that_use_as_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A form that sees no difference takes the first cell, of one server and one worker.
    monkeypatch.setitem(shape_grid.FORMS, "flat", lambda items, servers, workers: [1.0])  # type: ignore[arg-type]
    times = {(s, w): 1 / (s + w) for s in range(1, 6) for w in range(1, 6)}
    found = shape_grid.row("drawn", 8, times, "flat")
    assert found["tied"] == 25
    assert found["regret_pct"] == pytest.approx(400)
    assert found["all_used_pct"] == pytest.approx(0)
    # Of as many machines the first cell has the fewest servers, and those are the fast ones here.
    fewer = {(s, w): s / (s + w) for s, w in times}
    assert shape_grid.row("drawn", 8, fewer, "flat")["all_used_pct"] == pytest.approx(0)
    more = {(s, w): w / (s + w) for s, w in times}
    assert shape_grid.row("drawn", 8, more, "flat")["all_used_pct"] > 50
