"""``warren trace`` proposes what the columns of a table mean, and takes them as options."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
import yaml
from cli_runs import Warren

from warren.store.files import read
from warren.workload.run_file import load_run

TABLE = "job_id,submission_time,duration_min,num_gpus\na,0,3,2\nb,60,2,1\n"
COLUMNS = "name=job_id,submitted=submission_time,run=duration_min,gpus=num_gpus"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "t.csv"
    path.write_text(TABLE)
    return path


def test_the_proposal_can_be_pasted_into_a_run_file(
    warren: Warren, table: Path, tmp_path: Path
) -> None:
    found = warren("trace", "inspect", table)
    assert (found.code, found.err) == (0, [])
    assert "jobs              2; rows not used: 0" in found.out
    start = found.out.index("  workload:")
    pasted = yaml.safe_load(found.out[start : found.out.index("Or as a jobs file:")])
    run = {"format": 1, "cluster": {"hosts": [{"name": "g", "devices": {"V100": 2}}]}, **pasted}
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump({**run, "scheduler": {"place": "srtf"}}))
    jobs = load_run(str(path), read).workload.jobs
    assert [(job.name, job.rounds, job.scale) for job in jobs] == [("a", 3, 2), ("b", 2, 1)]
    told = json.loads(warren("trace", "inspect", table, "--json").out)
    assert told["proposed"] == pasted["workload"]["trace"]


def test_the_proposed_options_convert_the_table(warren: Warren, table: Path) -> None:
    to = table.with_name("jobs.csv")
    refused = warren("trace", "convert", table, "--to", to)
    assert (refused.code, to.exists()) == (2, False)
    assert f"as a table, perhaps: --columns {COLUMNS} --units run=min; " in refused.complaint
    options = ("--columns", COLUMNS, "--units", "run=min")
    told = warren("trace", "convert", table, *options, "--to", to)
    assert told.code == 0
    assert "costs are those of a device type GPU; --types V100,T4 names your own" in told.err
    named = warren("trace", "convert", table, *options, "--types", "V100", "--to", to)
    assert not any("device type GPU" in line for line in named.err)
    assert [line.split(",")[:2] for line in to.read_text().splitlines()] == [
        ["job", "arrival_s"], ["a", "0"], ["b", "60"]
    ]  # fmt: skip
    assert json.loads(warren("trace", "inspect", table, *options, "--json").out)["jobs"] == 2


def test_a_table_without_a_run_time_is_reported_with_its_columns(
    warren: Warren, table: Path
) -> None:
    table.write_text("id,submitted,size\n1,2,3\n")
    told = warren("trace", "inspect", table).complaint
    assert "as a table it needs a column for run (or started and ended" in told
    assert "name it: --columns name=id,submitted=submitted,run=COLUMN; it has 'id'" in told
    assert told.endswith("it has 'id', 'submitted', 'size'")


def test_a_wall_clock_is_a_run_time_and_a_unit_that_reads_the_cells_is_named(
    warren: Warren, table: Path
) -> None:
    table.write_text("Job ID,Submit Time,Wall Clock\na,2024-03-05 10:00:30,00:21:38\n")
    proposed = json.loads(warren("trace", "inspect", table, "--json").out)["proposed"]
    assert proposed["columns"]["run"] == "Wall Clock"
    assert proposed["units"] == {"submitted": "date", "run": "clock"}
    columns = "submitted=Submit Time,run=Wall Clock"
    told = warren("trace", "inspect", table, "--columns", columns, "--units", "submitted=date")
    assert "Wall Clock is not a time in the unit s; units: run: clock reads it" in told.out


def test_columns_that_are_not_used_and_gpus_that_are_not_found_are_reported(
    warren: Warren, table: Path
) -> None:
    table.write_text("job;when submitted;Elapsed (ms);NodeList\na;1;2;n7\n")
    told = warren("trace", "inspect", table)
    assert told.code == 2
    assert "it has 'job', 'when submitted', 'Elapsed (ms)', 'NodeList'" in told.complaint
    table.write_text("job;submitted;Elapsed (ms);NodeList\na;1;2;n7\n")
    out = warren("trace", "inspect", table).out
    assert "columns not used: 'NodeList'" in out
    assert "no column of GPUs was found: each job counts as one of 1 GPU" in out
    (line,) = [line for line in out.splitlines() if "trace convert" in line]
    words = shlex.split(line)
    assert words[words.index("--columns") + 1] == "name=job,submitted=submitted,run=Elapsed (ms)"
    assert words[words.index("--separator") + 1] == "semicolon"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--columns", "submitted"), "--columns: 'submitted'; write it as submitted=NAME"),
        (("--columns", "sub=a"), "--columns: unknown field 'sub'; allowed: name, submitted"),
        (("--columns", "submitted=a"), "--columns: columns needs run"),
        (("--columns", "submitted=a,run=b", "--units", "run=date"), "--units: units: run: 'date'"),
        (
            ("--columns", "submitted=a,run=b", "--separator", "x"),
            "--separator: 'x'; allowed: comma, semicolon, tab, bar",
        ),
        (("--columns", "submitted=a,run=b"), "t.csv:1: columns missing: a, b"),
        (("--units", "run=h"), "--units: needs --columns"),
        (("--format", "philly", "--columns", "submitted=a,run=b"), "--columns: needs --format tab"),
    ],
)
def test_wrong_options_are_one_line(
    warren: Warren, table: Path, options: tuple[str, ...], told: str
) -> None:
    found = warren("trace", "inspect", table, *options)
    assert (found.code, found.out) == (2, "")
    assert told in found.complaint
