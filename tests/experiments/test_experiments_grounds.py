"""The page of public measurements: what it says of figures, and that it says what was measured."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "experiments"))
import _common
import z_grounds


def test_the_page_says_first_where_the_model_loses() -> None:
    ours = [{"rule": "two lanes", "error_pct": 5.0, "rank": 0.7, "lost_pct": 1.0}]
    other = {"rule": "labels", "error_pct": None, "rank": 0.8, "lost_pct": 2.0}
    third = {"rule": "stages", "error_pct": 9.0, "rank": 0.1, "lost_pct": 3.0}
    assert z_grounds.verdict(ours, [other, third]) == (
        "The two-lane model **loses** in the rank correlation (0.700; labels: 0.800), wins in the "
        "error of a speed (5.0 %; stages: 9.0 %) and wins in what a pairing loses (1.00 %; labels: "
        "2.00 %)."
    )


def test_the_page_is_made_of_the_results(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    written = z_grounds.PAGE.read_text()
    monkeypatch.setattr(z_grounds, "PAGE", tmp_path / "page.md")
    monkeypatch.setattr(_common, "ROOT", tmp_path)
    z_grounds.main()
    assert (tmp_path / "page.md").read_text() == written
