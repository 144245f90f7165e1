"""Harmony's verdicts follow from rows: each can hold, and each can fail."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "experiments"))
import _harmony_claims as claims
import _harmony_fair_page as fair_page
import _harmony_live_page as live_page
import harmony_live
from _evidence_spill import input_spill


def _fair(jct: float, makespan: float, best: float) -> list[dict[str, Any]]:
    return [
        {"variant": "all", "rule": rule, "jct_times": jct_, "makespan_times": makespan}
        for rule, jct_ in (
            (claims.PRINTED, jct), ("Alg. 1, shortest iteration first", best), ("isolated", 1.0),
        )
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("measured", "said"),
    [
        (2.0, "holds"),
        (1.5, "partly: a gain, but less"),
        (1.02, "does not hold"),
        (0.9, "does not hold"),
    ],
)
def test_a_gain_holds_from_nine_tenths_of_what_is_claimed(measured: float, said: str) -> None:
    assert claims.verdict(measured, 2.11) == said


def test_the_range_over_orders_stands_in_place_of_one_number() -> None:
    rows = claims._gains(_fair(0.64, 1.02, 1.69))
    assert rows[0][1].startswith("0.64 to 1.69 by the order of J")
    assert rows[0][2] == "does not hold; in its best order: partly: a gain, but less"
    assert claims.both_reached(_fair(0.64, 1.6, 1.69)).startswith("No reading")
    assert claims.both_reached(_fair(0.64, 1.6, 2.2)).endswith("shortest iteration first.")


def test_sharing_is_held_against_jobs_alone_with_the_same_relief() -> None:
    figures = {
        fair_page.RELIEF: (1.3, 1.25), "isolated, by weighed speed, data read again": (1.5, 1.0),
        fair_page.BLIND: (1.69, 1.5), claims.OURS: (2.1, 1.375),
    }  # fmt: skip
    of = {
        ("all", rule): {"jct_times": jct, "makespan_times": makespan}
        for rule, (jct, makespan) in figures.items()
    }
    assert fair_page._shared(of, "all") == (
        "1.40 and 1.10 times JCT and makespan with lengths known, 1.30 and 1.20 without"
    )


def test_naive_choices_are_judged_against_jobs_alone_that_are_as_free_of_memory() -> None:
    figures = {
        "isolated, least 2": 80.0,
        "isolated": 40.0,
        "naive, all": 50.0,
        "naive, pairs": 30.0,
    }
    rows = [{"policy": name, "jct_s": s, "makespan_s": s} for name, s in figures.items()]
    told = claims._naive(rows)
    assert "1.07 and 1.07, 0.80 and 0.80 over *isolated*, as free of memory" in told[1]
    assert told[2] == "holds with equal freedom; slower at worst"
    rows[1] |= {"jct_s": 20.0}
    assert claims._naive(rows)[2].startswith("does not hold with equal freedom")


def test_fig_4_12_counts_the_gain_of_its_first_step_over_jobs_alone() -> None:
    def steps(ours_at_last: float) -> list[dict[str, Any]]:
        figures = (
            ("subtasks", "best of 40", 1.1), ("grouping", "harmony-published", 0.9),
            ("reloading", "harmony-published", 1.2), ("grouping", claims.OURS, 1.3),
            ("reloading", claims.OURS, ours_at_last),
        )  # fmt: skip
        return [
            {"variant": step, "rule": rule, "jct_times": times, "makespan_times": times}
            for step, rule, times in figures
        ]

    told = claims._parts(steps(1.4))[2]
    assert told.startswith("Algorithm 1: does not hold: 4 of 6 figures grow; ours: holds; ")
    assert "ours: does not hold: 4 of 6 figures grow" in claims._parts(steps(1.2))[2]


def _sets(harmony_s: float) -> dict[str, Any]:
    rows = [
        {"policy": "isolated", "jct_s": 40.0, "makespan_s": 60.0},
        {"policy": "harmony", "jct_s": 32.0, "makespan_s": harmony_s},
    ]
    return {"policies": {"rows": rows}, "drawn": {"sets": [{"rows": rows}]}}


def test_the_page_says_first_whether_groups_end_later_with_equal_freedom() -> None:
    made = _sets(57.0) | {"equal": {"sets": [{"rows": _sets(66.0)["policies"]["rows"]}]}}
    late, soon, equal = (
        " ".join(live_page.freedom(parts).split()) for parts in (_sets(63.0), _sets(57.0), made)
    )
    assert "in 2 of 2 live sets (makespan +5 %, +5 %)" in late
    assert "in 0 of 2 live sets (makespan -5 %, -5 %)" in soon
    assert "in 1 of 1 sets of drawn jobs" in equal


def test_sets_of_equal_freedom_are_new_and_bind_no_policy() -> None:
    assert not {*harmony_live.EQUAL_DRAWS} & {*harmony_live.DRAWS}
    assert len(harmony_live.EQUAL_DRAWS) == 3
    free = [name for name, _, options in harmony_live.POLICIES if "least" not in options]
    assert free == ["isolated", "isolated, shortest", "harmony-published", "harmony"]


def _spill(adaptive_s: float, **over: int) -> dict[str, Any]:
    fixed = {"alpha 0.8": (20.0, 500), "alpha 0.9": (15.0, over["near"]), "alpha 1.0": (17.0, -400)}
    rows = [
        {"run": run, "makespan_s": made, "kernel_peak_bytes": 10**9 + 10**6 * above}
        for run, (made, above) in (*fixed.items(), ("adaptive", (adaptive_s, -100)))
    ]
    return {"budget_bytes": 10**9, "data_bytes": 2 * 10**9, "same_bits": True, "rows": rows}


def test_fig_4_19_is_judged_on_all_shares_that_were_tried() -> None:
    assert claims._spill(_spill(12.0, near=28))[2].startswith("holds; the least is inside")
    told = claims._spill(_spill(14.9, near=28))
    assert "0.99 times that of alpha 0.9, which needs 28 MB more" in told[1]
    assert told[2].startswith("does not hold")
    page = input_spill(_spill(14.9, near=28))
    assert "alpha 0.9 misses the memory by 28 MB (2.8 %), and *adaptive* takes 0.99 times" in page
    assert "misses the memory" not in input_spill(_spill(14.9, near=-28))
