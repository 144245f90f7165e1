"""``warren.compare``: the comparison of the command, as a table of pandas."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from cli_runs import Warren

import warren as library
from warren.model.errors import SpecError

pytest.importorskip("pandas", reason="pandas (extra: frames) is not installed")
NOISE = {"truth.task_cv": 0.2}


def test_a_row_of_means_and_intervals_is_what_the_command_writes(
    warren: Warren, tiny: str, tmp_path: Path
) -> None:
    table = library.compare(
        tiny, place=["srtf", "gavel-fifo"], seeds=3, override=NOISE, against="srtf"
    )
    options = ["--place", "srtf,gavel-fifo", "--seeds", "3", "--against", "srtf"]
    rows = warren("compare", tiny, *options, "--set", "truth.task_cv=0.2", "--json").json
    assert list(table["place"]) == ["srtf", "gavel-fifo"]
    assert list(table["run"]) == ["tiny", "tiny"]
    for mine, summary in zip(table.to_dict("records"), (rows[0], rows[3]), strict=True):
        over = summary["over_seeds"]
        assert mine["seeds"] == over["seeds"] == 3
        assert mine["mean_jct_s"] == over["mean"]["mean_jct_s"]
        assert mine["mean_jct_s_ci95"] == over["ci95"]["mean_jct_s"]
    assert math.isnan(table["against_mean"][0])
    assert table["against_mean"][1] == rows[3]["over_seeds"]["against"]["weighted_jct"]


def test_a_swept_key_is_a_column_and_a_single_run_has_no_interval(tiny: str) -> None:
    table = library.compare(Path(tiny), place=["srtf"], sweep={"truth.job_cv": [0.1, 0.3]})
    assert list(table["truth.job_cv"]) == ["0.1", "0.3"]
    assert table["mean_jct_s_ci95"].isna().all()


def test_a_policy_that_is_not_there_is_one_clear_error(tiny: str) -> None:
    with pytest.raises(SpecError, match="unknown policy 'srft'; did you mean srtf"):
        library.compare(tiny, place=["srft"])
