"""Means over seeds, how sure they are, and differences seed by seed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from warren.report.compare import difference_text
from warren.report.seeds import half_interval, is_fixed, mean_rows, paired, seeds_note


def row(seed: int, place: str, value: float, **more: Any) -> dict[str, Any]:
    return {
        "run": f"mix seed {seed}", "seed": seed, "place": place, "world": "sim", "jobs": 4,
        "finished": 4, "weighted_jct_s": value, **more,
    }  # fmt: skip


def test_the_interval_is_students() -> None:
    values = [3.0, 5.0, 4.0, 8.0]
    low, high = stats.t.interval(0.95, 3, loc=np.mean(values), scale=stats.sem(values))
    assert 2 * half_interval(values) == pytest.approx(high - low)


def test_intervals_hold_the_mean_in_nineteen_of_twenty_draws() -> None:
    random = np.random.default_rng(1)
    draws = random.normal(10.0, 3.0, (4000, 5))
    held = [abs(one.mean() - 10.0) <= half_interval(one.tolist()) for one in draws]
    assert np.mean(held) == pytest.approx(0.95, abs=0.012)


def test_a_paired_difference_is_surer_than_the_means_where_seeds_move_both() -> None:
    easy = [row(seed, "a", 100.0 * seed) for seed in range(1, 6)]
    hard = [row(seed, "b", 110.0 * seed) for seed in range(1, 6)]
    one, other = mean_rows([*easy, *hard], ["weighted_jct_s"], against="a")
    assert "difference" not in one
    assert other["difference"] == pytest.approx((0.1, 0.0), abs=1e-12)
    assert one["half"]["weighted_jct_s"] > 0.5 * one["weighted_jct_s"]


def test_seeds_that_one_of_them_lacks_or_did_not_finish_are_left_out() -> None:
    base = [row(1, "a", 10.0), row(2, "a", 10.0), row(3, "a", 10.0, finished=3)]
    mine = [row(1, "b", 12.0), row(2, "b", 14.0), row(3, "b", 99.0), row(4, "b", 99.0)]
    found = paired(mine, base)
    assert found is not None
    assert found[0] == pytest.approx(0.3)
    assert paired(mine[:1], base) is None


def test_runs_of_other_worlds_or_more_jobs_are_other_groups() -> None:
    rows = [row(1, "a", 1.0), row(2, "a", 3.0), row(1, "a", 9.0, jobs=5), row(2, "a", 9.0, jobs=5)]
    found = mean_rows(rows, ["weighted_jct_s"])
    assert [one["weighted_jct_s"] for one in found] == [2.0, 9.0]
    assert mean_rows(rows[:1], ["weighted_jct_s"]) == []


def test_where_seeds_change_nothing_there_is_no_interval_and_it_is_said() -> None:
    same = [row(seed, "a", 100.0) for seed in (1, 2, 3)]
    other = [row(seed, "b", 50.0) for seed in (1, 2, 3)]
    varied = [row(seed, "c", 90.0 + seed) for seed in (1, 2, 3)]
    found = mean_rows([*same, *other, *varied], ["weighted_jct_s"], against="a")
    assert [one["half"] != {} for one in found] == [False, False, True]
    assert found[1]["difference"] == (-0.5, None)
    assert found[2]["difference"][1] > 0
    note = seeds_note(found)
    assert note.startswith("Seeds change nothing under a, b: each gave the same results")
    assert "--set truth.job_cv=0.2" in note
    assert seeds_note(found[2:]) == seeds_note([]) == ""
    assert difference_text(found[1]) == "-50.0 %"


def test_a_seed_in_which_fewer_jobs_finished_is_no_sign_that_seeds_change_nothing() -> None:
    rows = [row(1, "a", 100.0), row(2, "a", 100.0, finished=3)]
    assert not is_fixed(rows)
