"""Slurm's accounting: steps, arrays, lists of resources, states, requeued jobs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.model.errors import SpecError
from warren.workload.traces.read_trace import TraceRows, read_rows
from warren.workload.traces.registry import detected
from warren.workload.traces.rows import TraceRequest
from warren.workload.traces.slurm_cells import PART, gpus_of, job_of_step, state_of

NS = 10**9
COLUMNS = (
    "JobID",
    "JobName",
    "User",
    "Submit",
    "Start",
    "End",
    "Elapsed",
    "State",
    "AllocTRES",
    "ReqTRES",
)
RAN = {
    "JobName": "train",
    "User": "ann",
    "Submit": "2024-03-05T10:00:00",
    "Start": "2024-03-05T10:01:00",
    "End": "2024-03-05T11:01:00",
    "Elapsed": "01:00:00",
    "State": "COMPLETED",
    "AllocTRES": "billing=8,cpu=8,gres/gpu=2,mem=64G,node=1",
    "ReqTRES": "billing=8,cpu=8,gres/gpu=2,mem=64G,node=1",
}  # fmt: skip


def read(*jobs: dict[str, str], between: str = "|", end: str = "") -> TraceRows:
    """Read a table of these rows; what a row does not say is that of ``RAN``."""
    columns = list(dict.fromkeys([*COLUMNS, *(name for job in jobs for name in job)]))
    gone = {name for job in jobs for name, value in job.items() if value == "no column"}
    columns = [name for name in columns if name not in gone]
    lines = [columns, *([{**RAN, **job}.get(name, "") for name in columns] for job in jobs)]
    quote = '"' if between == "," else ""
    text = "".join(
        between.join(f"{quote}{cell}{quote}" for cell in line) + end + "\n" for line in lines
    )
    return found_in(text)


def found_in(text: str) -> TraceRows:
    assert detected("f", text.encode()) == "slurm"
    return read_rows("slurm", TraceRequest(file="f", content=text.encode(), types=("GPU",)))


def unused(found: TraceRows) -> dict[str, list[str]]:
    return {reason: [value for _, value in at] for reason, at in found.unused.rows.items()}


def jobs(found: TraceRows) -> list[tuple[str, int, float]]:
    return [(row.name, row.gpus, (row.run_ns or 0) / NS) for row in found.rows]


def test_steps_are_parts_of_their_job_and_counted() -> None:
    steps = ["7.batch", "7.extern", "7.interactive", "7.0", "7.12"]
    found = read({"JobID": "7"}, *({"JobID": one, "User": ""} for one in steps))
    assert jobs(found) == [("job-7", 2, 3600.0)]
    assert unused(found) == {"is a step of another row's job": steps}


def test_array_tasks_and_components_are_jobs_and_their_steps_are_not() -> None:
    ids = ["8_1", "8_1.batch", "9+0", "9+0.extern", "9+0.0", "9+1", "9.0+1"]
    found = read(*({"JobID": one} for one in ids))
    assert [name for name, _, _ in jobs(found)] == ["8_1", "9-0", "9-1"]
    assert unused(found) == {
        "is a step of another row's job": ["8_1.batch", "9+0.extern", "9+0.0", "9.0+1"]
    }
    assert any("2 jobs: is a component of a heterogeneous job" in note for note in found.notes)


@pytest.mark.parametrize(
    ("state", "start", "reason"),
    [
        ("PENDING", "Unknown", "has not run: PENDING"),
        ("CANCELLED by 1000", "None", "has not run: CANCELLED"),
        ("CANCELLED+", "Unknown", "has not run: CANCELLED"),
        ("NODE_FAIL", "None", "has not run: NODE_FAIL"),
        ("REQUEUED", "", "has not run: REQUEUED"),
        ("FAILED", "2024-03-05T10:01:00", "duration is 0: nothing to train"),
    ],
)
def test_what_never_ran_is_counted_by_its_state(state: str, start: str, reason: str) -> None:
    row = {"JobID": "1_[2-9%2]", "State": state, "Start": start, "End": "Unknown"}
    found = read({"JobID": "5"}, {**row, "Elapsed": "00:00:00", "AllocTRES": ""})
    assert jobs(found) == [("job-5", 2, 3600.0)]
    assert list(unused(found)) == [reason]


@pytest.mark.parametrize(
    "state",
    [
        "COMPLETED", "FAILED", "TIMEOUT", "CANCELLED by 7", "NODE_FAIL", "PREEMPTED",
        "OUT_OF_MEMORY", "DEADLINE", "BOOT_FAIL", "REQUEUED",
    ],
)  # fmt: skip
def test_whatever_ran_is_a_job_however_it_ended(state: str) -> None:
    found = read({"JobID": "5_2", "State": state})
    assert jobs(found) == [("5_2", 2, 3600.0)]
    assert found.notes == ()


@pytest.mark.parametrize("state", ["RUNNING", "SUSPENDED", "COMPLETING"])
def test_a_job_that_has_not_ended_counts_by_what_it_has_run_and_is_reported(state: str) -> None:
    found = read({"JobID": "x", "State": state, "End": "Unknown", "Elapsed": "1-02:03:04"})
    assert jobs(found) == [("x", 2, 93_784.0)]
    assert found.notes == (
        "f: 1 job: has not ended: its run time is what it had run when the table was made",
    )


def test_a_job_without_a_gpu_is_counted_whatever_its_state() -> None:
    bare = {"AllocTRES": "cpu=8,mem=1G,node=1", "ReqTRES": "cpu=8"}
    found = read({"JobID": "1", **bare}, {"JobID": "2", **bare, "State": "OUT_OF_MEMORY"})
    assert unused(found) == {"asks for no GPU": ["", ""]}


def test_the_runs_of_a_requeued_job_are_one_job() -> None:
    found = read(
        {"JobID": "5", "State": "NODE_FAIL", "Elapsed": "00:10:00"},
        {
            "JobID": "5",
            "Submit": "2024-03-05T10:30:00",
            "State": "PREEMPTED",
            "Elapsed": "00:20:00",
        },
        {"JobID": "5", "Submit": "2024-03-05T10:50:00", "State": "RUNNING", "Elapsed": "00:05:00"},
        {"JobID": "6", "Submit": "2024-03-05T10:10:00"},
    )
    assert jobs(found) == [("job-5", 2, 2100.0), ("job-6", 2, 3600.0)]
    assert found.rows[1].submitted_ns - found.rows[0].submitted_ns == 600 * NS
    assert any("1 job: was requeued" in note for note in found.notes)
    assert any("1 job: has not ended" in note for note in found.notes)


def test_an_id_that_was_used_again_is_another_job() -> None:
    found = read({"JobID": "5"}, {"JobID": "5", "User": "bob", "JobName": "other"})
    assert [name for name, _, _ in jobs(found)] == ["job-5", "5-2"]
    assert any("'5#2' is called 5-2" in note for note in found.notes)


@pytest.mark.parametrize(
    ("cells", "gpus"),
    [
        ({"AllocTRES": "", "ReqTRES": "cpu=1,gres/gpu=3"}, 3),
        ({"AllocTRES": "cpu=1", "ReqTRES": "gres/gpu:a100=3"}, 3),
        ({"AllocTRES": "no column", "ReqTRES": "no column", "AllocGRES": "gpu:a100:2(IDX:0-1)"}, 2),
        ({"AllocTRES": "no column", "ReqTRES": "(null)", "ReqGRES": "gpu:2", "NNodes": "3"}, 6),
        ({"AllocTRES": "gres/gpu=6,node=3", "ReqGRES": "gpu:2", "NNodes": "3"}, 6),
    ],
)
def test_gpus_are_in_the_first_list_that_has_some(cells: dict[str, str], gpus: int) -> None:
    assert [row.gpus for row in read({"JobID": "a", **cells}).rows] == [gpus]


@pytest.mark.parametrize(
    ("cells", "run_s"),
    [
        ({"Elapsed": "no column", "ElapsedRaw": "93784"}, 93_784),
        ({"ElapsedRaw": "93784"}, 93_784),
        ({"Elapsed": "no column"}, 3600),
        ({"Elapsed": "2-00:00:01"}, 172_801),
        ({"Elapsed": "01:02"}, 62),
    ],
)
def test_run_times_are_read_in_every_form(cells: dict[str, str], run_s: int) -> None:
    assert jobs(read({"JobID": "a", **cells})) == [("a", 2, run_s)]


@pytest.mark.parametrize(
    ("between", "end"), [("|", ""), ("|", "|"), (",", ""), (";", ""), ("\t", "")]
)
def test_the_table_may_be_separated_by_anything(between: str, end: str) -> None:
    assert jobs(read({"JobID": "a"}, between=between, end=end)) == [("a", 2, 3600.0)]


def test_names_of_columns_may_be_in_small_letters_and_times_since_1970() -> None:
    found = found_in(
        "jobidraw,submit,elapsedraw,state,alloctres\n"
        '1,1709632800,60,COMPLETED,"cpu=2,gres/gpu=2"\n'
        "2,1709632860,60,COMPLETED,gres/gpu=1\n"
    )
    assert jobs(found) == [("job-1", 2, 60.0), ("job-2", 1, 60.0)]
    assert found.rows[1].submitted_ns - found.rows[0].submitted_ns == 60 * NS


@pytest.mark.parametrize(
    ("cell", "gpus"),
    [
        ("gres/gpu=2", 2), ("cpu=8,gres/gpu:a100=4,gres/gpu=4", 4), ("gpu:2", 2), ("gpu", 1),
        ("gpu:a100:2(IDX:0-1)", 2), ("gpu:a100:2(IDX:0,3),gpu:v100:1(IDX:1)", 3),
        ("gres:gpu:4", 4), ("gres/gpu:h100:8", 8), ("gpu:2(S:0-1),nic:1", 2), ("gpu:0", 0),
        ("cpu=8,mem=64G", 0), ("gres/gpumem=40G,gres/gpuutil=93,gres/gpu=1", 1),
        ("gres/gpu:1g.5gb=2", 2), ("gpu:2080ti:3", 3), ("gres/mps=50", PART),
        ("gres/shard:4", PART),
        ("gpu:a100", 1), ("nvidia.com/gpu=4", 4), ("GRES/GPU=2", 2),
        ("", None), ("2", None), ("2.0", None), ("a b", None), ("(null)", None), ("4,2", None),
    ],
)  # fmt: skip
def test_a_list_of_resources_has_its_gpus_once(cell: str, gpus: float | None) -> None:
    assert gpus_of(cell) == gpus


@given(
    st.dictionaries(st.sampled_from(["a100", "v100", "2080ti", "1g.5gb"]), st.integers(0, 64)),
    st.booleans(),
    st.sampled_from(["gres/gpu{}={}", "gpu{}:{}", "gres/gpu{}:{}", "gpu{}:{}(IDX:0-3,7)"]),
    st.randoms(use_true_random=False),
)
def test_typed_and_untyped_counts_are_never_added(
    typed: dict[str, int], untyped: bool, form: str, random: Any
) -> None:
    total = sum(typed.values())
    items = [form.format(f":{kind}", count) for kind, count in typed.items()]
    if untyped or not typed:
        items.append(form.format("", total))
    items += ["cpu=8", "mem=64G", "gres/nic=2"]
    random.shuffle(items)
    assert gpus_of(",".join(items)) == total


@given(
    st.integers(1, 10**8),
    st.one_of(
        st.just(""),
        st.integers(0, 999).map(lambda task: f"_{task}"),
        st.integers(0, 9).map(lambda part: f"+{part}"),
        st.just("_[1,4-9%2]"),
    ),
    st.sampled_from(["", ".batch", ".extern", ".interactive", ".0", ".17", ".0+1"]),
)
def test_a_step_is_distinguished_from_a_job_by_its_id(job: int, part: str, step: str) -> None:
    assert job_of_step(f"{job}{part}{step}") == (f"{job}{part}" if step else None)


def test_a_state_is_its_first_word() -> None:
    states = ["CANCELLED by 1000", "cancelled+", " TIMEOUT ", "", "7"]
    assert list(map(state_of, states)) == ["CANCELLED", "CANCELLED", "TIMEOUT", "", ""]


def test_a_table_without_lists_of_resources_is_no_accounting() -> None:
    with pytest.raises(SpecError, match="is no trace that Warren knows"):
        detected("f", b"JobID|Submit|Elapsed|gpus\n1|2024-03-05T10:00:00|00:01:00|1\n")


def test_a_row_with_a_separator_inside_of_a_cell_is_counted() -> None:
    found = found_in(
        "JobID,Submit,Elapsed,AllocTRES,State\n"
        "1,2024-03-05T10:00:00,00:01:00,cpu=8,gres/gpu=2,COMPLETED\n"
        '2,2024-03-05T10:00:00,00:01:00,"cpu=8,gres/gpu=2",COMPLETED\n'
    )
    assert jobs(found) == [("job-2", 2, 60.0)]
    assert unused(found) == {"too many cells": [""]}
