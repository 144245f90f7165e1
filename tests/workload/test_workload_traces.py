"""Public traces: rows become jobs with costs; what is not used is counted with its lines."""

from __future__ import annotations

import csv
import gzip
import json
import math
from pathlib import Path

import pytest
from trace_samples import GAVEL, PHILLY, RATES
from workload_files import reader

from warren.model.errors import SpecError
from warren.model.run import Run
from warren.workload.run_file import run_from_dict


def run_of(trace: dict[str, object], files: dict[str, str | bytes], *types: str) -> Run:
    hosts = [{"name": f"h{kind}", "devices": {kind: 2}} for kind in types or ("V100",)]
    data = {"cluster": {"hosts": hosts}, "workload": {"trace": trace}}
    return run_from_dict(data, "d", reader(files))


def philly(**more: object) -> Run:
    trace = {"format": "philly", "path": "p.csv", **more}
    return run_of(trace, {"d/p.csv": PHILLY}, "V100", "T4")


def test_a_philly_row_is_rounds_of_a_minute_on_every_device_type() -> None:
    run = philly()
    assert [(job.name, job.arrival_ns, job.scale, job.rounds) for job in run.workload.jobs] == [
        ("row-2", 0, 2, 1),
        ("row-3", 0, 2, 1),
        ("row-1", 74 * 10**9, 1, 2),
        ("row-9", 7159 * 10**9, 8, 3),
    ]
    (row,) = run.profiles
    assert all(job.cost == row.model == "philly" for job in run.workload.jobs)
    assert row.comp_s == {"V100": 60.0, "T4": 60.0}
    assert row.sync_s == {"V100": 0.0, "T4": 0.0}


def test_philly_rows_that_are_no_jobs_are_counted_with_line_and_reason() -> None:
    assert philly().workload.notes == (
        "d/p.csv: 1 row not used: duration is 0: nothing to train (line 6)",
        "d/p.csv: 2 rows not used: timestamp is not a time "
        "(line 7 'never', line 8 '2017-02-31 08:00:00')",
        "d/p.csv: 1 row not used: asks for no GPU (line 9)",
        "d/p.csv: 1 row not used: duration is not a number of seconds (line 10 'nan')",
        "d/p.csv: 1 row not used: too few cells (line 12)",
    )


def test_philly_can_be_cut_by_limit_gpus_and_virtual_cluster() -> None:
    assert [job.name for job in philly(limit=2).workload.jobs] == ["row-2", "row-3"]
    assert philly(limit=2).workload.notes[-1] == "d/p.csv: 2 later rows not used: limit"
    assert [job.name for job in philly(gpus_max=1).workload.jobs] == ["row-1"]
    assert [job.name for job in philly(leave_out=["vc1"]).workload.jobs] == ["row-9"]


def test_the_length_of_a_round_is_a_choice() -> None:
    assert [job.rounds for job in philly(round_s="30 s").workload.jobs] == [2, 2, 3, 5]


def test_a_packed_trace_reads_like_a_plain_one() -> None:
    files: dict[str, str | bytes] = {"d/p.csv.gz": gzip.compress(PHILLY.encode())}
    run = run_of({"format": "philly", "path": "p.csv.gz"}, files, "V100", "T4")
    assert run.workload.jobs == philly().workload.jobs


def test_a_damaged_or_cut_packed_trace_is_refused() -> None:
    packed = gzip.compress(PHILLY.encode())
    for damaged in (packed[:-20], packed[:15] + b"\0\0" + packed[17:]):
        with pytest.raises(SpecError, match=r"^d/p\.gz: is .*gzip data"):
            run_of({"format": "philly", "path": "p.gz"}, {"d/p.gz": damaged})


def gavel(*types: str, text: str = GAVEL) -> Run:
    trace = {"format": "gavel", "path": "g.trace", "throughputs": "rates.json"}
    return run_of(trace, {"d/g.trace": text, "d/rates.json": json.dumps(RATES)}, *types)


def test_a_gavel_row_has_its_steps_as_rounds_and_its_gpus_as_tasks() -> None:
    second, first = gavel("V100").workload.jobs
    assert (first.name, first.scale, first.rounds, first.arrival_ns) == (
        "job-1",
        1,
        100,
        55 * 10**8,
    )
    assert (second.name, second.scale, second.rounds, second.arrival_ns) == ("job-2", 4, 200, 0)
    assert (first.weight, second.weight) == (1.0, 2.5)
    assert (first.batch, first.model) == (32, "ResNet-18 (batch size 32)")


def test_gavel_costs_give_back_gavels_step_on_one_and_on_k_gpus() -> None:
    run = gavel("V100", "K80")
    rows = {row.model: row for row in run.profiles}
    alone, four = (rows[job.cost or ""] for job in reversed(run.workload.jobs))
    assert alone.comp_s == {"V100": 0.1, "K80": 0.5}
    assert alone.sync_s == {"V100": 0.0, "K80": 0.0}
    assert four.comp_s == {"V100": 0.1}, "0 steps a second: it does not fit the K80"
    assert math.isclose(four.comp_s["V100"] + four.sync_s["V100"], 1 / 8.0)


def test_gavel_rows_without_a_throughput_or_fields_are_counted() -> None:
    missing, fields = gavel("V100").workload.notes
    assert missing == (
        "d/g.trace: 1 row not used: "
        "no throughput for its job type and number of GPUs on V100 (line 3 'LM on 12')"
    )
    assert fields == (
        "d/g.trace: 1 row not used: "
        "the fields with TABs between are not 7, 10 or 12 (line 4 '2 fields')"
    )


def test_a_gavel_trace_needs_its_throughputs() -> None:
    with pytest.raises(SpecError, match="needs throughputs"):
        run_of({"format": "gavel", "path": "g"}, {"d/g": GAVEL})


def test_a_trace_without_any_job_is_refused_with_reasons() -> None:
    with pytest.raises(SpecError, match=r"no row of this gavel trace is a job: .*2 fields"):
        gavel("V100", text="LM\tcmd\n")


@pytest.mark.parametrize(
    "rates", ["[]", "{", '{"v100": {"x": {"null": 1}}}', '{"v100": {"(\'LM\', 1)": {"null": NaN}}}']
)
def test_damaged_throughputs_are_refused(rates: str) -> None:
    trace = {"format": "gavel", "path": "g", "throughputs": "r"}
    with pytest.raises(SpecError, match=r"^d/r: "):
        run_of(trace, {"d/g": GAVEL, "d/r": rates})


def real(data_dir: Path, trace: dict[str, object]) -> Run:
    hosts = [{"name": kind, "devices": {kind: 12}} for kind in ("V100", "P100", "K80")]
    data = {"cluster": {"hosts": hosts}, "workload": {"trace": trace}}
    return run_from_dict(data, str(data_dir), lambda path: Path(path).read_bytes())


def test_all_rows_of_the_real_philly_trace_are_jobs(data_dir: Path) -> None:
    run = real(data_dir, {"format": "philly", "path": "traces/philly/philly_12vc.csv.gz"})
    assert len(run.workload.jobs) == 23_645
    assert run.workload.notes == ()
    assert run.workload.jobs[0].arrival_ns == 0
    scales = [job.scale for job in run.workload.jobs]
    assert [scales.count(gpus) for gpus in (1, 2, 4, 8, 128)] == [19_495, 1_728, 1_258, 946, 3]
    with gzip.open(data_dir / "traces/philly/philly_12vc.csv.gz", "rt") as file:
        minutes = sum(math.ceil(float(row["duration"]) / 60) for row in csv.DictReader(file))
    assert sum(job.rounds or 0 for job in run.workload.jobs) == minutes


def test_all_jobs_of_gavels_generated_trace_are_priced(data_dir: Path) -> None:
    rates = "profiles/gavel/simulation_throughputs.json"
    path = "traces/gavel/generated_t120.trace"
    run = real(data_dir, {"format": "gavel", "path": path, "throughputs": rates})
    assert len(run.workload.jobs) == 120
    assert run.workload.notes == ()
    assert {job.cost for job in run.workload.jobs} == {row.model for row in run.profiles}


@pytest.mark.parametrize(("vc", "rows"), [("103959", 986), ("0e4a51", 1_181), ("11cb48", 2_000)])
def test_every_row_of_gavels_philly_traces_is_a_job_or_counted(
    data_dir: Path, vc: str, rows: int
) -> None:
    rates = "profiles/gavel/simulation_throughputs.json"
    path = f"traces/gavel/msr_seed0_{vc}.trace.gz"
    run = real(data_dir, {"format": "gavel", "path": path, "throughputs": rates})
    counted = sum(int(note.split(": ")[1].split()[0]) for note in run.workload.notes)
    assert len(run.workload.jobs) + counted == rows
