"""What is said of predictions: decisions where times are computed, every round that was run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import warren

sys.path.insert(0, str(Path(__file__).parents[2] / "experiments"))
import _common
import _evidence_fidelity
import _evidence_mixed
import _fidelity_rounds
from _fidelity_decisions import differing
from _fidelity_judge import faults

RUN = {
    "cluster": {"hosts": [{"name": "h", "devices": {"A": 2}}]},
    "profiles": {"m": {"model": "1 MB", "comp": {"A": "1 s"}, "sync": {"A": "0.1 s"}}},
    "workload": {
        "jobs": [
            {"name": name, "model": "m", "scale": 2, "rounds": rounds, "arrival": f"{at} s"}
            for name, rounds, at in (("a", 5, 0), ("b", 4, 1), ("c", 6, 2))
        ]
    },
    "seed": 1,
}


def simulated(out: Path, **noise: float) -> Path:
    warren.simulate({**RUN, "truth": {"seed": 1, **noise}}, place="srtf", out=str(out))
    return out


def test_decisions_are_equal_where_every_task_has_its_device_and_the_task_before_it(
    tmp_path: Path,
) -> None:
    same = simulated(tmp_path / "a"), simulated(tmp_path / "b")
    assert differing(*same) == {"decided": 30, "rows_differ": 0, "decisions_equal": True}
    other = differing(same[0], simulated(tmp_path / "c", task_cv=0.5))
    assert 0 < other["rows_differ"] <= 30
    assert not other["decisions_equal"]


def of_a(**row: Any) -> dict[str, Any]:
    run = {"place": "hare", "run": 1, "overruns": 0, "tasks": 9, "left_out": 0}
    control = {"what": "T4 20 % slower", "place": "hare", "mean_error_pct": 6.0}
    return {"limit_pct": 2.0, "rows": [run | row], "controls": [control]}


def test_of_padded_times_decisions_are_judged_and_no_error() -> None:
    assert faults("a", of_a(mean_error_pct=9.0, decisions_equal=True, rows_differ=0)) == []
    assert faults("a", of_a(mean_error_pct=0.0, decisions_equal=False, rows_differ=3)) == [
        "(a) hare run 1: 3 tasks have other rows"
    ]
    passed = of_a(mean_error_pct=0.0, decisions_equal=True, rows_differ=0)
    passed["controls"][0]["mean_error_pct"] = 1.9
    assert len(faults("a", passed)) == 1


def of_c(commit: str, *errors: float) -> dict[str, Any]:
    rows = [{"place": "hare", "mean_error_pct": one, "max_error_pct": one} for one in errors]
    return {"c": {"rows": rows, "made_by": {"commit": commit, "processor": "P"}}}


def test_every_committed_round_is_kept_once_and_those_that_missed_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        _fidelity_rounds, "_committed", lambda: [of_c("1", 26.8, 3.0), of_c("2", 8.8, 1.0)]
    )
    found = _fidelity_rounds.all_rounds({}, of_c("2", 8.8, 1.0) | {"b": {}})
    assert [(row["commit"], row["mean_error_pct"]) for row in found["rows"]] == [
        ("1", [26.8, 3.0]), ("2", [8.8, 1.0])
    ]  # fmt: skip
    monkeypatch.setattr(_fidelity_rounds, "_committed", list)  # a copy without its history
    again = _fidelity_rounds.all_rounds(found, of_c("3", 5.0))
    assert [row["commit"] for row in again["rows"]] == ["1", "2", "3"]


def test_the_page_tells_all_recorded_rounds_and_what_is_not_made() -> None:
    recorded = _common.earlier("fidelity")
    rows = recorded["rounds"]["rows"]
    assert {"fc65e74802cf", "8b3e9921543c", "05633944ffa7"} <= {row["commit"] for row in rows}
    text = _evidence_fidelity.fidelity({"parts": {"rounds": {"rows": rows}}})
    assert text.count("not yet made") + text.count("Not yet made") == 4
    assert all(f"{error:.2f}" in text for row in rows for error in row["mean_error_pct"])
    worst = max(error for row in rows for error in row["mean_error_pct"])
    assert f"and {worst:.1f} %" in text


def test_the_page_of_mixed_sets_judges_the_first_by_its_name_and_needs_no_new_part() -> None:
    row = {
        "place": "fifo", "network": "contention", "tasks": 9, "overruns": 0, "jobs": 2,
        "same_bits": 2, "mean_error_pct": 16.39, "max_error_pct": 87.0, "bias_pct": -1.0,
    }  # fmt: skip
    old = {"parts": {"ties": {"rows": [row]}, "testbed": {"rows": [row]}}}
    text = _evidence_mixed.ring_mixed(old)
    assert "It misses the limit of 10 %, with 16.39 %" in text
    assert "10 % for each.\n\nNot yet made." in text
    good = row | {"mean_error_pct": 4.0, "given_pct": 3.0, "moved_pct": 2.0, "otherwise": 1}
    fresh = {f"fresh-{seed}": {"rows": [good]} for seed in (10, 9)}
    text = _evidence_mixed.ring_mixed({"parts": old["parts"] | fresh})
    assert text.index("| fresh-9 |") < text.index("| fresh-10 |")
    assert "4.00 % at most, within the limits; in 2 of 2 runs" in text
    assert "Of 10 sets 8 are not yet made" in text


def test_the_drawn_workloads_of_testbed2_are_those_that_its_program_makes() -> None:
    program = _common.HERE / "hare" / "make_testbed2.py"
    subprocess.run([sys.executable, str(program), "--check"], check=True)
