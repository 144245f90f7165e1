"""`truth: {metrics: ...}`: what jobs showed in an earlier run is read, checked, written again."""

from __future__ import annotations

from typing import Any

import pytest

from warren.model.errors import SpecError
from warren.model.run import Run
from warren.workload.run_file import run_from_dict
from warren.workload.specs.write import dump_run
from warren.workload.yaml_document import parse_document

TABLES = {
    "old/metrics/a.csv": "round,time_s,loss,accuracy\n0,1.0,2.0,\n1,2.0,1.5,0.25\n3,4.0,1.0,0.5\n"
    "1,5.0,1.5,0.25\n",
    "old/metrics/b.csv": "round,time_s,loss,evaluate.loss\n4,1.0,2.0,0.75\n",
}


def run_with(metrics: Any, tables: dict[str, str] = TABLES, **job: Any) -> Run:
    common = {"cost": "m", "scale": 1, "rounds": 5, "evaluate": {"every": 1}}
    jobs = [
        {"name": "a", **common, "stop": {"metric": "accuracy", "reaches": 0.9}, **job},
        {"name": "b", **common, "stop": {"metric": "loss", "falls_to": 0.1}},
        {"name": "c", **common},
    ]

    def read(path: str) -> bytes:
        if path not in tables:
            raise FileNotFoundError(2, "No such file", path)
        return tables[path].encode()

    said = {
        "cluster": {"hosts": [{"name": "h", "devices": {"V100": 1}, "nic": "1 Gbps"}]},
        "profiles": {"m": {"model": "1 MB", "comp": {"V100": "1 s"}}},
        "workload": {"jobs": jobs},
        "truth": {"metrics": metrics},
    }
    return run_from_dict(said, "", read)


def test_a_folder_of_tables_gives_the_rounds_done_and_the_values_of_the_jobs_metric() -> None:
    metrics = run_with("old/metrics").truth.metrics
    assert metrics == {"a": ((2, 0.25), (4, 0.5)), "b": ((5, 0.75),)}


def test_a_nan_that_a_run_wrote_is_no_value() -> None:
    texts = {name: text.replace("0.25", "nan") for name, text in TABLES.items()}
    metrics = run_with("old/metrics", texts).truth.metrics
    assert metrics == {"a": ((4, 0.5),), "b": ((5, 0.75),)}


def test_a_written_run_holds_the_values_and_needs_no_folder() -> None:
    run = run_with("old/metrics")
    again = run_from_dict(parse_document("run.yaml", dump_run(run)).data, "", TABLES.__getitem__)  # type: ignore[arg-type]
    assert again.truth == run.truth


@pytest.mark.parametrize(
    ("metrics", "line"),
    [
        ({"a": [[2, 0.1], [2, 0.2]]}, "truth.metrics.a: the rounds done must grow"),
        ({"a": [[0, 0.1]]}, "truth.metrics.a: the rounds done must grow"),
        ({"a": [[1.5, 0.1]]}, "truth.metrics.a: a pair is a whole number of rounds and a value"),
        ({"a": [[2, 0.95]]}, "its target is met after 2 rounds: the job must state rounds: 2"),
        ({"c": [[2, 0.1]]}, "truth.metrics.c: no job of this name has a stop rule"),
        ({"a": [[2]]}, "truth.metrics.*a"),
        ("none", "none/a.csv: cannot be read"),
        (3, "truth.metrics: expected a file path or a mapping"),
    ],
)
def test_what_is_no_record_of_these_jobs_is_refused_in_a_line(metrics: Any, line: str) -> None:
    with pytest.raises(SpecError, match=line):
        run_with(metrics)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("round,loss\n1,2\n", "old/metrics/a.csv: has no column accuracy"),
        ("round,accuracy\nx,0.5\n", "old/metrics/a.csv:2: 'x', '0.5' are not a round and a value"),
        ('round,accuracy\n1,"0.5\n', "old/metrics/a.csv: is not CSV"),
        ("round,accuracy\n1,1e999\n", "truth.metrics.a: a value must be finite"),
    ],
)
def test_a_damaged_table_is_named(text: str, line: str) -> None:
    with pytest.raises(SpecError, match=line):
        run_with("old/metrics", {**TABLES, "old/metrics/a.csv": text})


def test_a_value_that_meets_the_target_at_the_last_round_is_taken() -> None:
    assert run_with({"a": [[2, 0.95]]}, rounds=2).truth.metrics == {"a": ((2, 0.95),)}
