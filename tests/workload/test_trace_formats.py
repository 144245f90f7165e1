"""Every trace format: what its rows become, and which of them are no jobs."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trace_samples import PAI_JOBS, RATES, SAMPLES, SHOCKWAVE
from workload_files import reader

from warren.model.errors import SpecError
from warren.model.job import Job
from warren.profile.cost_table import cost_table
from warren.workload.run_file import run_from_dict
from warren.workload.specs.write import dump_profiles
from warren.workload.traces.convert import jobs_csv
from warren.workload.traces.read_trace import TraceRows, read_rows, read_trace
from warren.workload.traces.registry import TRACES, detected
from warren.workload.traces.rows import Trace, TraceRequest

NS = 10**9
KNOWN = [name for name in TRACES if name != "table"]
"""Formats with columns of their own."""


def request(text: str, **more: object) -> TraceRequest:
    given: dict[str, object] = {
        "file": "f",
        "content": text.encode(),
        "types": ("V100", "K80"),
        "throughputs": json.dumps(RATES).encode(),
        "throughputs_file": "r",
        **more,
    }
    return TraceRequest(**given)  # type: ignore[arg-type]


def rows(name: str, text: str = "", **more: object) -> TraceRows:
    return read_rows(name, request(text or SAMPLES[name], **more))


def trace(name: str, text: str = "", **more: object) -> Trace:
    return read_trace(name, request(text or SAMPLES[name], **more))


def bad(found: TraceRows) -> dict[str, list[int]]:
    return {reason: [line for line, _ in at] for reason, at in found.unused.rows.items()}


def jobs(name: str, text: str = "") -> Mapping[str, Job]:
    return {job.name: job for job in trace(name, text).jobs}


@pytest.mark.parametrize("name", KNOWN)
def test_every_format_is_distinguished_from_its_beginning(name: str) -> None:
    assert detected("f", SAMPLES[name].encode()) == name
    assert set(SAMPLES) == set(KNOWN)


@pytest.mark.parametrize("name", [*KNOWN, "pai jobs"])
def test_a_packed_trace_reads_like_a_plain_one(name: str) -> None:
    text = {**SAMPLES, "pai jobs": PAI_JOBS}[name].encode()
    packed = gzip.compress(b"\xef\xbb\xbf" + text)
    form = name.partition(" ")[0]
    assert detected("f", packed) == form
    found = read_rows(form, request("", content=packed))
    assert found == read_rows(form, request("", content=text))


@pytest.mark.parametrize("text", ["a,b\n1,2\n", "num_switch,num_node_p_switch\n1,16\n", "\x00"])
def test_what_is_no_trace_is_refused_with_the_names_of_all_formats(text: str) -> None:
    with pytest.raises(SpecError, match=r"^f: is no trace .* philly, philly-json, helios"):
        detected("f", text.encode())


def test_philly_json_sums_attempts_and_takes_the_first_ones_gpus() -> None:
    first, second = rows("philly-json").rows
    assert (first.name, first.gpus, first.run_ns) == ("application_1", 12, (74 + 3600) * NS)
    assert (first.user, first.pool) == ("u-application_1", "vc1")
    assert (second.name, second.gpus, second.run_ns) == ("application_6", 1, 30 * NS)
    assert first.submitted_ns - second.submitted_ns == 600 * NS


def test_philly_json_entries_that_never_ran_are_counted() -> None:
    assert bad(rows("philly-json")) == {
        "has no attempt: it never ran": [2],
        "no attempt has both its start and its end": [3],
        "submitted_time is not a time": [4],
        "asks for no GPU": [5],
        "is no mapping": [6],
        "its id stands in an earlier row": [8],
        "an attempt ends before it starts": [9],
    }
    assert "(entry 2)" in rows("philly-json").notes[0]


def test_helios_counts_jobs_of_no_gpu_and_takes_the_duration() -> None:
    found = rows("helios")
    assert [(row.name, row.gpus, row.run_ns, row.user, row.pool) for row in found.rows] == [
        ("job-11", 8, 600 * NS, "u1", "vcA"),
        ("job-13", 1, 61 * NS, "u1", "vcB"),
    ]
    assert bad(found) == {"asks for no GPU": [3], "duration is not a number of seconds": [5]}
    assert [row.name for row in rows("helios", leave_out=("vcA",)).rows] == ["job-13"]


def test_a_pai_job_has_the_gpus_of_all_its_tasks_from_first_start_to_last_end() -> None:
    found = rows("pai")
    assert [(row.name, row.gpus, row.submitted_ns, row.run_ns) for row in found.rows] == [
        ("job-a", 2 * 1 + 1, 995 * NS, 705 * NS),
        ("job-c", 2, 1000 * NS, 100 * NS),
    ]
    assert bad(found) == {"a task has not run to its end": [3], "asks for no GPU": [6]}
    assert found.notes[-1] == "f: 1 job: asks for a part of a GPU and gets a whole one"


def test_the_jobs_of_pais_simulator_are_distinguished_from_its_tasks() -> None:
    assert detected("f", PAI_JOBS.encode()) == "pai"
    found = rows("pai", PAI_JOBS)
    assert [(row.name, row.gpus, row.run_ns, row.user) for row in found.rows] == [
        ("job-0", 1, 120 * NS, "ua"),
        ("job-1", 4, 90 * NS, "ub"),
    ]
    assert bad(found) == {"asks for no GPU": [4]}


def test_an_openb_pod_runs_from_its_scheduling_to_its_deletion() -> None:
    found = rows("openb")
    assert [(row.gpus, row.submitted_ns, row.run_ns) for row in found.rows] == [
        (1, 427061 * NS, 90 * NS),
        (8, 427000 * NS, 3600 * NS),
    ]
    assert bad(found) == {"was never scheduled": [4], "asks for no GPU": [5]}
    assert found.notes[-1] == "f: 1 job: asks for a part of a GPU and gets a whole one"


def test_shockwaves_twelve_fields_have_a_duration_where_no_throughputs_are_given() -> None:
    found = trace("gavel", SHOCKWAVE, throughputs=None)
    assert [(job.scale, job.rounds, job.batch, job.arrival_ns) for job in found.jobs] == [
        (2, 1000, 10, 0),
        (2, 500, 10, NS),
    ]
    (row,) = found.profiles
    assert row.comp_s == {"V100": 1.418, "K80": 1.418}
    assert "duration is 0" in found.notes[0]


def test_as_a_gang_a_task_costs_the_step_on_all_gpus_and_no_synchronization() -> None:
    relaxed, gang = trace("gavel"), trace("gavel", gang=True)
    four = [next(row for row in one.profiles if "on 4" in row.model) for one in (relaxed, gang)]
    assert [row.comp_s["V100"] for row in four] == [0.1, 0.125]
    assert [row.sync_s["V100"] for row in four] == [0.125 - 0.1, 0.0]


def test_a_pollux_job_has_the_steps_of_its_epochs_and_names_its_application() -> None:
    found = jobs("pollux")
    assert {name: (job.scale, job.rounds, job.batch, job.model) for name, job in found.items()} == {
        "cifar10-0": (6, -(-100 * 50_000 // 2048), 342, "cifar10"),
        "deepspeech2-1": (6, -(-80 * 7_150 // 320), 54, "deepspeech2"),
    }
    assert all(job.cost is None for job in found.values()), "the run's profiles price it"
    assert found["deepspeech2-1"].arrival_ns == 3_500_000_000


def test_muris_milliseconds_become_an_iteration_time_with_the_network_as_sync() -> None:
    found = trace("muri")
    rows_ = {row.model: row for row in found.profiles}
    gpt, vgg, other = found.jobs
    assert (gpt.rounds, vgg.arrival_ns) == (10956, 1_534_000_000)
    assert rows_[gpt.cost or ""].comp_s["K80"] + rows_[gpt.cost or ""].sync_s["K80"] == 0.437
    assert rows_[vgg.cost or ""].sync_s["V100"] == 0.066
    assert (vgg.cost, other.cost) == ("muri: vgg16 on 8", "muri: vgg16 on 8 (2)")
    assert bad(rows("muri")) == {"iteration_time leaves nothing to compute": [5]}


def test_tiresias_jobs_take_their_duration_over_their_iterations() -> None:
    found = trace("tiresias")
    assert [job.rounds for job in found.jobs] == [606, 133]
    assert [row.comp_s["V100"] for row in found.profiles] == [164 / 606, 147 / 133]
    assert bad(rows("tiresias")) == {
        "its id stands in an earlier row": [4],
        "iterations is not a whole number of at least 1": [5],
        "duration is 0: nothing to train": [6],
    }


def test_elasticflow_jobs_take_their_duration_over_their_iterations() -> None:
    first, second = rows("elasticflow").rows
    assert (first.run_ns, second.run_ns) == (5644 * NS, 66 * NS)
    assert (first.steps, second.gpus, second.batch) == (2011, 8, 32768)


def test_warrens_own_table_is_a_trace_too() -> None:
    late, early = (jobs("warren")[name] for name in ("late", "early"))
    assert (late.arrival_ns, early.arrival_ns) == (9_500_000_000, 0)
    assert (late.model, late.weight, late.user, late.group) == ("resnet50", 2.0, "ana", "lr")
    assert bad(rows("warren")) == {"names no model: its costs are not known": [4]}


PRICED = sorted(set(KNOWN) - {"pollux", "warren"})


@pytest.mark.parametrize("name", PRICED)
def test_a_converted_trace_is_the_same_workload_at_the_same_costs(name: str) -> None:
    cluster = {"hosts": [{"name": "a", "devices": {"V100": 8, "K80": 4}}]}
    more = {"throughputs": "r.json"} if name == "gavel" else {}
    files = {"d/t": SAMPLES[name], "d/r.json": json.dumps(RATES)}
    given = {"trace": {"format": name, "path": "t", **more}}
    direct = run_from_dict({"cluster": cluster, "workload": given}, "d", reader(files))

    found = trace(name)
    files = {"d/jobs.csv": jobs_csv(found.jobs), "d/p.yaml": dump_profiles(found.profiles)}
    data = {"cluster": cluster, "workload": {"jobs": "jobs.csv"}, "profiles": "p.yaml"}
    again = run_from_dict(data, "d", reader(files))

    def told(job: Job) -> tuple[object, ...]:
        return (job.name, job.arrival_ns, job.scale, job.rounds, job.weight, job.batch, job.user)

    assert [told(job) for job in again.workload.jobs] == [told(job) for job in direct.workload.jobs]
    ours, theirs = cost_table(again), cost_table(direct)
    assert ours.comp_ns_JT.tolist() == theirs.comp_ns_JT.tolist()
    assert ours.sync_ns_JT.tolist() == theirs.sync_ns_JT.tolist()


def rows_in(name: str, text: str) -> int:
    """Rows of a trace by another reading."""
    if name == "philly-json":
        return len(json.loads(text))
    if name == "gavel":
        return sum(bool(line.strip()) for line in text.split("\n"))
    return len([row for row in csv.reader(io.StringIO(text, newline="")) if row]) - 1


@given(st.data())
def test_every_row_of_damaged_text_is_a_job_or_counted_or_the_file_is_refused(
    data: st.DataObject,
) -> None:
    name = data.draw(st.sampled_from(KNOWN))
    text = SAMPLES[name]
    at = data.draw(st.integers(0, len(text)))
    until = data.draw(st.integers(at, min(len(text), at + 40)))
    noise = data.draw(st.text(alphabet='0,.-\t\n"e{[]}:x\u20ac', max_size=6))
    text = text[:at] + noise + text[until:]
    try:
        found = rows(name, text)
    except SpecError:
        return
    for row in found.rows:
        assert row.gpus >= 1
        assert row.run_ns is None or row.run_ns > 0
        assert row.submitted_ns >= 0
    assert len({row.name for row in found.rows}) == len(found.rows)
    if name not in ("pai", "slurm"):  # there several rows are one job
        assert len(found.rows) + found.unused.total == rows_in(name, text)
