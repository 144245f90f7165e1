"""``--json``: JSON alone on standard output, whatever else prints."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_runs import ROUND_ROBIN, Warren

CONTRACT = [
    "run", "scheduler", "grain", "jobs", "finished", "failed", "tasks", "weighted_jct_s",
    "mean_jct_s", "p50_jct_s", "p95_jct_s", "p99_jct_s", "makespan_s", "utilization",
    "lower_bound", "gap", "decide_s", "wall_s",
]  # fmt: skip


def test_simulate_prints_what_it_writes(warren: Warren, tiny: str, tmp_path: Path) -> None:
    found = warren("simulate", tiny, "--out", tmp_path / "out", "--json")
    assert list(found.json)[: len(CONTRACT)] == CONTRACT
    assert (tmp_path / "out" / "summary.json").read_text() == found.out


def test_report_prints_the_summary_and_its_faults(
    warren: Warren, tiny: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    first = warren("simulate", tiny, "--out", out, "--json").json
    assert warren("report", out, "--json").json == first
    assert warren("report", out, "--check", "--json").json == {"dir": str(out), "faults": []}
    jobs = (out / "jobs.csv").read_text()
    (out / "jobs.csv").write_text(jobs.replace("finished", "failed", 1))
    found = warren("report", out, "--check", "--json")
    assert found.code == 1
    assert found.json["faults"]


def test_compare_prints_a_list_of_summaries(warren: Warren, tiny: str) -> None:
    found = warren("compare", tiny, "--place", "srtf,hare", "--json")
    assert [list(one)[: len(CONTRACT)] for one in found.json] == [CONTRACT, CONTRACT]
    assert [one["scheduler"]["place"] for one in found.json] == ["srtf", "hare"]


@pytest.mark.parametrize(
    "arguments", [["policies"], ["policies", "hare"], ["policies", ROUND_ROBIN]]
)
def test_policies_say_what_they_are_and_where_from(warren: Warren, arguments: list[str]) -> None:
    found = warren(*arguments, "--json").json
    rows = found if isinstance(found, list) else [found]
    assert all(row["source"] and row["what"] for row in rows)
    assert {row["question"] for row in rows} <= {"place", "flow", "group", "shape", "joint"}
    takes_new_jobs = {row["name"]: row["new_jobs"] for row in rows}
    assert takes_new_jobs.get("hare", "no") == takes_new_jobs.get("harmony", "no") == "no"
    assert takes_new_jobs.get("srtf", "yes") == takes_new_jobs.get("maif", "yes") == "yes"
    assert all(row["name"] in warren(*arguments).out or "text" in row for row in rows)


@pytest.mark.parametrize("kind", ["job", "cluster", "run"])
def test_schema_prints_json_either_way(warren: Warren, kind: str) -> None:
    found = warren("schema", kind, "--json")
    assert found.json["properties"]
    assert warren("schema", kind) == found


def test_wrong_input_prints_no_json(warren: Warren, tiny: str) -> None:
    found = warren("simulate", tiny, "--set", "grain=0", "--json")
    assert (found.code, found.out) == (2, "")


def test_what_a_users_file_prints_goes_to_standard_error(
    warren: Warren, tiny: str, tmp_path: Path
) -> None:
    chatty = tmp_path / "chatty.py"
    source = Path(ROUND_ROBIN.rpartition(":")[0]).read_text()
    chatty.write_text(f"{source}\nimport os\nprint('hello')\nos.write(1, b'from below\\n')\n")
    found = warren("simulate", tiny, "--place", f"{chatty}:RoundRobin", "--json")
    assert found.json["finished"] == 3
    assert "hello" in found.err
