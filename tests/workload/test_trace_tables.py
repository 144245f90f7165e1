"""Any table of jobs is read by the columns and units that are named for it."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.model.errors import SpecError
from warren.workload.run_file import run_from_dict
from warren.workload.traces.formats.any_table import UNITS, mapping_problem, time_cell_ns
from warren.workload.traces.proposal import propose
from warren.workload.traces.read_trace import TraceRows, read_rows, read_trace
from warren.workload.traces.rows import TraceRequest

NS = 10**9
SACCT = """\
JobID|Submit|Start|End|Elapsed|gpus|User
71|2024-03-05T10:00:00|2024-03-05T10:00:30|2024-03-06T10:02:30|1-00:02:00|4|ann
72|2024-03-05T10:01:00|2024-03-05T10:05:00|2024-03-05T10:06:30|00:01:30|0.5|bob
73|2024-03-05T10:02:00|Unknown|Unknown|00:00:00|1|bob
74|yesterday|Unknown|Unknown|00:10:00|1|bob
"""
SACCT_COLUMNS = {
    "name": "JobID", "submitted": "Submit", "run": "Elapsed", "gpus": "gpus", "user": "User"
}  # fmt: skip


def request(text: str, columns: Mapping[str, str], **more: Any) -> TraceRequest:
    return TraceRequest(
        file="f", content=text.encode(), types=("V100", "K80"), columns=columns, **more
    )


def test_rows_are_read_by_named_columns_and_units() -> None:
    units = {"submitted": "date", "run": "clock"}
    found = read_rows("table", request(SACCT, SACCT_COLUMNS, units=units, delimiter="|"))
    first, second = found.rows
    assert (first.name, first.gpus, first.run_ns, first.user) == ("job-71", 4, 86_520 * NS, "ann")
    assert second.submitted_ns - first.submitted_ns == 60 * NS
    assert (second.gpus, second.run_ns) == (1, 90 * NS)
    assert "gets a whole one" in second.remarks[0]
    assert {reason: [line for line, _ in at] for reason, at in found.unused.rows.items()} == {
        "duration is 0: nothing to train": [4],
        "Submit is not a time in the unit date, such as 2020-04-01 12:30:00": [5],
    }


def test_a_run_time_may_be_from_start_to_end() -> None:
    columns = {"submitted": "Submit", "started": "Start", "ended": "End"}
    units = dict.fromkeys(columns, "date")
    found = read_rows("table", request(SACCT, columns, units=units, delimiter="|"))
    assert [row.run_ns for row in found.rows] == [86_520 * NS, 90 * NS]
    swapped = {**columns, "started": "End", "ended": "Start"}
    found = read_rows("table", request(SACCT, swapped, units=units, delimiter="|"))
    assert "ends before it starts" in found.unused.rows


def test_rounds_share_the_run_time_and_alone_need_a_model() -> None:
    text = "at,took,steps,net\n1000,90,45,vit\n3000,30,10,gpt\n"
    columns = {"submitted": "at", "run": "took", "rounds": "steps", "model": "net"}
    units = {"submitted": "ms", "run": "min"}
    trace = read_trace("table", request(text, columns, units=units))
    assert [(job.rounds, job.arrival_ns, job.model) for job in trace.jobs] == [
        (45, 0, "vit"), (10, 2 * NS, "gpt")
    ]  # fmt: skip
    assert [row.comp_s for row in trace.profiles] == [
        dict.fromkeys(("V100", "K80"), 120.0), dict.fromkeys(("V100", "K80"), 180.0)
    ]  # fmt: skip
    alone = {"submitted": "at", "rounds": "steps", "model": "net"}
    trace = read_trace("table", request(text, alone, units={"submitted": "ms"}))
    assert [(job.rounds, job.cost) for job in trace.jobs] == [(45, None), (10, None)]
    assert not trace.profiles


@pytest.mark.parametrize(
    ("unit", "cell", "found_ns"),
    [
        ("s", "1700000000.000000001", 1_700_000_000 * NS + 1),
        ("ms", "1.5", 1_500_000), ("us", "1e3", 10**6), ("h", "2", 7200 * NS),
        ("s", "-1", None), ("s", "nan", None), ("s", "9e18", None), ("s", "", None),
        ("date", "1970-01-02", 86_400 * NS), ("date", "1970-01-01T00:00:01.5Z", 1_500_000_000),
        ("date", "1970-01-01 02:00:00+02:00", 0), ("date", "1969-12-31 23:00:00", None),
        ("date", "2024-02-31 00:00:00", None), ("date", "12", None),
        ("clock", "30:00", 1800 * NS), ("clock", "2-01:00:00.25", 176_400 * NS + NS // 4),
        ("clock", "1:2:3:4", None), ("clock", "90", None),
    ],
)  # fmt: skip
def test_cells_are_times_of_their_unit_or_none(unit: str, cell: str, found_ns: int | None) -> None:
    assert time_cell_ns(cell, unit) == found_ns


@given(st.integers(0, 10**12), st.sampled_from(sorted(UNITS)))
def test_whole_numbers_are_exact_in_every_unit(number: int, unit: str) -> None:
    expected = number * UNITS[unit]
    assert time_cell_ns(str(number), unit) == (expected if expected < 2**62 else None)


@pytest.mark.parametrize(
    ("columns", "units", "told"),
    [
        ({"run": "a"}, {}, "columns needs submitted; allowed: name, submitted, run"),
        ({"submitted": "a"}, {}, "columns needs run (or started and ended, or rounds and model)"),
        ({"submitted": "a", "ended": "b"}, {}, "columns needs run"),
        ({"submitted": "a", "rounds": "b"}, {}, "columns needs run"),
        ({"submitted": "a", "run": "b", "ended": "c"}, {}, "columns needs run, or started and"),
        ({"submitted": "a", "run": "b"}, {"ended": "s"}, "units names ended, which columns does"),
        ({"submitted": "a", "run": "b"}, {"run": "date"}, "units: run: 'date'; allowed: us, ms,"),
        ({"submitted": "a", "run": "b"}, {"submitted": "clock"}, "units: submitted: 'clock'"),
    ],
)
def test_a_choice_of_columns_that_cannot_do_is_reported(
    columns: dict[str, str], units: dict[str, str], told: str
) -> None:
    assert mapping_problem(columns, units).startswith(told)


def test_a_proposal_tells_columns_units_and_separator() -> None:
    found = propose("f", SACCT.encode())
    assert found is not None
    assert found.problem == ""
    assert found.separator == "bar"
    assert found.columns == SACCT_COLUMNS
    assert found.units == {"submitted": "date", "run": "clock"}


@pytest.mark.parametrize(
    ("head", "row", "units"),
    [
        ("submit_time_ms,duration,num_gpu", "7,8,1", {"submitted": "ms"}),
        ("Arrival (h);run_time [min];GPUs", "7;8;1", {"submitted": "h", "run": "min"}),
        ("createdAt\trun\tgpus", "1700000000123\t8\t1", {"submitted": "ms"}),
        ("timestamp,elapsed,gpu", "1700000000,8,1", {}),
    ],
)
def test_units_are_proposed_by_names_and_sizes(head: str, row: str, units: dict[str, str]) -> None:
    found = propose("f", gzip.compress(f"{head}\n{row}\n".encode()))
    assert found is not None
    assert {"submitted", "run", "gpus"} <= {*found.columns}
    assert found.units == units


@pytest.mark.parametrize(
    "text", ["", "one line", "1,2,3\n4,5,6\n", "{\n}\n", "a\nb\n", "- x: {a, b}\n- y: 2\n- z\n"]
)
def test_what_is_no_table_has_no_proposal(text: str) -> None:
    assert propose("f", text.encode()) is None


def run_of(trace: Mapping[str, Any]) -> Any:
    text = "when,took,n\n5,120,2\n0,60,1\n"
    return run_from_dict(
        {
            "format": 1,
            "cluster": {"hosts": [{"name": "g", "devices": {"V100": 2}}]},
            "workload": {"trace": {"path": "t.csv", **trace}},
            "scheduler": {"place": "srtf"},
        },
        "",
        lambda path: text.encode(),
    )


def test_a_run_file_reads_a_table() -> None:
    columns = {"submitted": "when", "run": "took", "gpus": "n"}
    run = run_of({"format": "table", "columns": columns, "units": {"submitted": "min"}})
    assert [(job.arrival_ns, job.rounds, job.scale) for job in run.workload.jobs] == [
        (0, 1, 1), (300 * NS, 2, 2)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("trace", "told"),
    [
        ({"format": "table"}, "columns needs submitted and run"),
        ({"columns": {"submitted": "when", "run": "took"}}, "columns needs format: table"),
        ({"format": "table", "columns": {"submited": "when"}}, "submitted"),
        (
            {"format": "table", "columns": {"submitted": "at", "run": "took"}},
            "columns missing: at",
        ),
        ({}, "`warren trace inspect` proposes the columns of a table"),
    ],
)
def test_a_run_file_that_names_no_usable_columns_is_refused(
    trace: dict[str, Any], told: str
) -> None:
    with pytest.raises(SpecError) as caught:
        run_of(trace)
    assert told in str(caught.value)


ZONED = {"submitted": "at", "started": "from", "ended": "to"}


def zoned(*rows: str) -> TraceRows:
    text = "".join(f"{row}\n" for row in ("at,from,to", *rows))
    return read_rows("table", request(text, ZONED, units=dict.fromkeys(ZONED, "date")))


def test_a_time_without_a_zone_is_one_of_the_clock_of_the_times_beside_it() -> None:
    found = zoned(
        "2024-05-31T00:30:00+02:00,2024-05-31T00:31:00+02:00,2024-05-31T01:31:00+02:00",
        "2024-05-31T00:40:00,2024-05-31T00:41:00,2024-05-31T00:51:00",
    )
    first, second = found.rows
    assert second.submitted_ns - first.submitted_ns == 600 * NS
    assert [row.run_ns for row in found.rows] == [3600 * NS, 600 * NS]
    (note,) = found.notes
    assert "1 job: a time has no time zone beside others that have one; +02:00 is assumed" in note


def test_where_a_clock_was_set_back_the_nearest_zone_counts() -> None:
    """On 27 October 2024 at 3:00 clocks of +02:00 were set to 2:00, +01:00."""
    found = zoned(
        "2024-10-26T12:00:00+02:00,2024-10-26T12:00:00+02:00,2024-10-26T13:00:00+02:00",
        "2024-10-26T23:00:00,2024-10-26T23:00:00,2024-10-26T23:30:00",
        "2024-10-27T12:00:00+01:00,2024-10-27T12:00:00+01:00,2024-10-27T13:00:00+01:00",
        "2024-10-27T23:00:00,2024-10-27T23:00:00,2024-10-27T23:30:00",
    )
    at_h = [(row.submitted_ns - found.rows[0].submitted_ns) / 3600 / NS for row in found.rows]
    assert at_h == [0, 11, 25, 36]
    assert len(found.notes) == 2, "one a zone"


def test_times_that_all_have_no_zone_are_taken_as_they_stand() -> None:
    found = zoned("2024-05-31 00:30:00,2024-05-31 00:31:00,2024-05-31 01:31:00")
    assert found.notes == ()


@pytest.mark.parametrize("cell", ["1970-01-01 00:01:00 UTC", "1970-01-01T00:01:00 GMT"])
def test_a_zone_may_be_named_utc(cell: str) -> None:
    assert time_cell_ns(cell, "date") == 60 * NS


def test_a_table_with_lists_of_resources_steps_and_states_is_read_as_they_mean() -> None:
    text = """\
id,at,took,gpus,state
7,0,60,"cpu=4,gres/gpu:a100=2,gres/gpu=2",COMPLETED
7.batch,0,60,"cpu=4,gres/gpu=2",COMPLETED
8,0,60,gpu:4,RUNNING
9,0,,1,PENDING
10,0,60,1.0,FAILED
v1.0,0,60,1,COMPLETED
"""
    columns = {"name": "id", "submitted": "at", "run": "took", "gpus": "gpus", "state": "state"}
    found = read_rows("table", request(text, columns))
    assert [(row.name, row.gpus) for row in found.rows] == [
        ("job-7", 2), ("job-8", 4), ("job-10", 1), ("v1.0", 1)
    ]  # fmt: skip
    assert {reason: len(at) for reason, at in found.unused.rows.items()} == {
        "is a step of another row's job": 1,
        "has not run: PENDING": 1,
    }
    assert any("1 job: has not ended" in note for note in found.notes)


def test_a_job_that_has_not_ended_has_no_run_time_between_two_times() -> None:
    columns = {**ZONED, "state": "state"}
    text = (
        "at,from,to,state\n2024-05-31 00:30:00,2024-05-31 00:31:00,Unknown,RUNNING\n"
        "2024-05-31 00:30:00,Unknown,Unknown,PENDING\n"
    )
    found = read_rows("table", request(text, columns, units=dict.fromkeys(ZONED, "date")))
    assert set(found.unused.rows) == {"has not ended: RUNNING", "has not run: PENDING"}


def test_a_table_of_a_header_alone_is_reported() -> None:
    with pytest.raises(SpecError, match=r"^f: has a header and no row"):
        read_rows("table", request("when,took\n\n", {"submitted": "when", "run": "took"}))
