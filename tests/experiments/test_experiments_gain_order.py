"""The order of gains: rules are judged by pairs, ties count one half, and a sure rule is right."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "experiments"))
import gain_order
import z_jpas
from _curves import Real

from warren.predict.curve import Curve


def _curve(values: list[float]) -> Curve:
    return Curve(np.arange(1.0, len(values) + 1), np.array(values))


def _real(top: float) -> Real:
    values = top * (1 - np.exp(-np.arange(60) / 15))
    return Real("drawn", f"c{top}", "accuracy", 1.0, _curve(values.tolist()))


def test_what_the_last_period_brought_is_a_difference_of_means() -> None:
    rising = _curve([0.1, 0.1, 0.1, 0.2, 0.2, 0.2])
    # The newest three are at 0.2, those three steps before at 0.1.
    assert gain_order.last_period(rising, 3.0) == pytest.approx(0.1)
    assert gain_order.last_period(_curve([0.5, 0.5, 0.5, 0.5]), 2.0) == 0.0
    # A curve shorter than a period gains in proportion.
    assert gain_order.last_period(_curve([0.1, 0.3]), 2.0) == pytest.approx(2 * 0.1)


def test_a_rule_that_knows_the_truth_orders_all_pairs_and_its_opposite_none() -> None:
    curves = [_real(top) for top in (0.3, 0.6, 0.9)]
    moments = list(gain_order.drawn(curves, 1, (0.15, 0.3, 0.5, 0.75), (0.05,)))
    assert len(moments) == 12
    truth = [one.truth for one in moments]
    gains = {"(22)": [0.0] * 12, "sure": truth, "wrong": [-one for one in truth]}
    rows = {row["rule"]: row for row in gain_order.judged(moments, gains, 1)}
    assert (rows["sure"]["right"], rows["wrong"]["right"]) == (1.0, 0.0)
    assert rows["(22)"]["right"] == 0.5
    assert rows["sure"]["over_22_90"] == pytest.approx([0.5, 0.5])


def test_the_page_names_the_rule_that_orders_best() -> None:
    def row(rule: str, right: float) -> dict[str, object]:
        spans = {"right_90": [right - 0.05, right + 0.05], "over_22_90": [0.0, 0.1]}
        return {"rule": rule, "right": right, "pairs": 9, **spans}

    made = {"commit": "abc"}
    for ours, last, best, told in (
        (0.7, 0.6, "ours", "No naive rule is first"),
        (0.5, 0.6, "last period", "A naive rule is first in drawn."),
    ):
        rows = [row("(22)", 0.55), row("ours", ours), row("last period", last)]
        sets = [{"set": "drawn", "moments": 4, "curves": 2, "rows": rows}]
        page = z_jpas.order_text({"made_by": made, "apart": 0.002, "sets": sets})
        text = " ".join(page.split())
        assert f"drawn: *{best}* orders most pairs" in text
        assert told in text
