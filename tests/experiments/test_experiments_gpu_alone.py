"""What benchmarks/gpu_alone.py reads from a timeline, and what it keeps of a part that fails."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
import _gpu_runs as runs


def _row(job: str, round_no: int, start_s: float, rounds: int = 1) -> dict[str, Any]:
    return {
        "job": job,
        "round": round_no,
        "rounds": rounds,
        "start_s": start_s,
        "comp_end_s": start_s + 0.5 * rounds,
        "end_s": start_s + 0.75 * rounds,
    }


def _trained(rows: list[dict[str, Any]]) -> runs.Trained:
    return runs.Trained(summary={}, rows=rows, wall_s=0.0)


def test_a_step_is_the_median_of_blocks_after_the_first_rounds() -> None:
    starts = [0.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 20.0, 21.0]
    run = _trained([_row("a", at, start) for at, start in enumerate(starts)])
    step = run.round_ms("a", 2, 2)
    assert step["blocks_ms"] == [1000.0, 1000.0, 5500.0]
    assert step["ms"] == 1000.0
    assert step["mean_ms"] == 2500.0
    assert run.task_ms("a", 2) == 500.0


def test_a_row_may_stand_for_several_rounds() -> None:
    run = _trained([_row("a", 0, 0.0, 4), _row("a", 4, 4.0, 4), _row("a", 8, 8.0, 4)])
    assert run.ends_s("a") == {3: 3.0, 7: 7.0, 11: 11.0}
    assert run.round_ms("a", 0, 1)["ms"] == 1000.0
    assert run.task_ms("a", 0) == 500.0


def test_too_few_rounds_are_an_error_with_their_count() -> None:
    with pytest.raises(runs.PartError, match="a: the timeline has 1 rounds after the first 2"):
        _trained([_row("a", at, float(at)) for at in range(3)]).round_ms("a", 2, 1)


def test_gaps_before_another_job_are_apart_from_those_before_its_own() -> None:
    rows = [_row("a", 0, 0.0), _row("b", 0, 0.75), _row("b", 1, 1.5), _row("a", 1, 1.75)]
    assert _trained(rows).gaps_ms() == {"switch": [250.0, 0.0], "own": [250.0]}
    assert _trained(rows).gaps_ms(since_s=1.5) == {"switch": [0.0]}


def test_own_loops_that_fail_are_rows_and_a_program_that_fails_is_an_error(tmp_path: Path) -> None:
    script = tmp_path / "own.py"
    rows = [{"name": "a", "free": {"ms": 1.0}}, {"name": "b", "error": "no memory"}]
    script.write_text("".join(f"print({json.dumps(json.dumps(row))})\n" for row in rows))
    assert runs.own_loops(script, "", 60) == {
        "a": {"free": {"ms": 1.0}},
        "b": {"error": "no memory"},
    }
    script.write_text("raise SystemExit('there is no GPU')")
    with pytest.raises(runs.PartError, match="there is no GPU"):
        runs.own_loops(script, "", 60)
