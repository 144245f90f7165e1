"""``warren trace``: a trace is looked at, or becomes a jobs file that a run can name."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path

import pytest
from cli_runs import CHECKOUT, QUICKSTART, Warren

from warren.store.files import read
from warren.workload.run_file import load_cluster

JOBS_FILE = QUICKSTART.with_name("jobs.yaml")
BURSTS = str(CHECKOUT / "examples/traces/bursts.csv")
RUN = """\
format: 1
cluster: {hosts: [{name: g, count: 2, devices: {GPU: 8}}]}
workload: {WORKLOAD}
scheduler: {place: srtf}
PROFILES
"""


def test_inspect_tells_of_jobs_tail_and_rows_that_are_no_jobs(warren: Warren) -> None:
    found = warren("trace", "inspect", BURSTS)
    assert (found.code, found.err) == (0, [])
    for part in ("philly", "jobs              10; rows not used: 2", "line 11 'yesterday'", "tail"):
        assert part in found.out


def test_inspect_in_json_has_the_same_figures(warren: Warren) -> None:
    summary = json.loads(warren("trace", "inspect", BURSTS, "--json").out)
    assert (summary["format"], summary["jobs"], summary["unused_rows"]) == ("philly", 10, 2)
    assert [one["first"] for one in summary["unused"]] == [[6], [11]]
    left = json.loads(warren("trace", "inspect", BURSTS, "--json", "--leave-out", "text").out)
    assert left["jobs"] == 6


def test_inspect_says_what_gives_gavels_run_times(warren: Warren, tmp_path: Path) -> None:
    trace, rates = tmp_path / "g.trace", tmp_path / "r.json"
    trace.write_text("LM\tcmd\targ\t1\t100\t6\t1\n")
    rates.write_text(json.dumps({"v100": {"('LM', 1)": {"null": 10.0}}}))
    assert "not known; give --throughputs FILE" in warren("trace", "inspect", str(trace)).out
    found = warren("trace", "inspect", str(trace), "--throughputs", str(rates), "--json")
    assert json.loads(found.out)["run_s"]["p50"] == 10.0


def test_inspect_of_a_run_file_tells_of_its_jobs(warren: Warren, tmp_path: Path) -> None:
    summary = json.loads(warren("trace", "inspect", QUICKSTART, "--json").out)
    assert (summary["jobs"], summary["span_s"]) == (10, 22.0)
    workload = "generate: hare-mix, jobs: 40, load: 1.0"
    run = tmp_path / "run.yaml"
    text = RUN.replace("WORKLOAD", workload).replace("GPU", "V100").replace("PROFILES", "")
    run.write_text(text)
    summary = json.loads(warren("trace", "inspect", str(run), "--json").out)
    assert summary["jobs"] == 40
    assert summary["notes"][0].startswith("hare-mix, seed 0: 40 jobs")
    assert summary["run_s"]["least"] > 0


def test_a_converted_trace_is_run_with_its_costs(warren: Warren, tmp_path: Path) -> None:
    jobs = tmp_path / "jobs.csv"
    found = warren("trace", "convert", BURSTS, "--to", str(jobs), "--json")
    assert found.code == 0
    written = json.loads(found.out)
    assert (written["jobs"], written["profiles"]) == (10, str(tmp_path / "jobs.profiles.yaml"))
    text = RUN.replace("WORKLOAD", "jobs: jobs.csv")
    run = tmp_path / "run.yaml"
    run.write_text(text.replace("PROFILES", "profiles: jobs.profiles.yaml"))
    summary = json.loads(warren("simulate", str(run), "--json").out)
    rows = [line.split(",") for line in Path(BURSTS).read_text().splitlines()[1:]]
    runs = [(float(row[1]), int(row[2])) for row in rows if row[1] not in ("0.0", "yesterday")]
    assert (summary["finished"], summary["tasks"]) == (
        len(runs),
        sum(math.ceil(run_s / 60) * gpus for run_s, gpus in runs),
    )


def test_a_list_of_machines_becomes_a_cluster_file(warren: Warren, tmp_path: Path) -> None:
    nodes, cluster = tmp_path / "nodes.csv", tmp_path / "cluster.yaml"
    nodes.write_text(
        "sn,cpu_milli,memory_mib,gpu,model\n"
        "a,1,1024,2,P100\nb,1,1024,2,P100\nc,1,2048,2,P100\nd,1,1024,0,\ne,1,1024,8,G2\n"
    )
    assert (
        "`warren trace convert FILE --to cluster.yaml`"
        in warren("trace", "inspect", str(nodes)).complaint
    )
    found = warren("trace", "convert", str(nodes), "--to", str(cluster), "--json")
    assert (found.code, json.loads(found.out)["devices"]) == (0, 14)
    assert "1 row not used: has no GPU (line 5)" in found.err[0]
    made = load_cluster(str(cluster), read)
    assert [(host.name, len(host.devices), host.memory_bytes) for host in made.hosts] == [
        ("g2x8-0", 8, 1 << 30),
        ("p100x2-0", 2, 1 << 30),
        ("p100x2-1", 2, 1 << 30),
        ("p100x2.2-0", 2, 2 << 30),
    ]


def test_the_published_list_of_machines_has_its_devices(
    warren: Warren, tmp_path: Path, data_dir: Path
) -> None:
    cluster = tmp_path / "cluster.yaml"
    clusters = data_dir / "traces/clusters/openb_node_list_gpu_node.csv"
    assert warren("trace", "convert", str(clusters), "--to", str(cluster)).code == 0
    made = load_cluster(str(cluster), read)
    counts = Counter(device.type for device in made.devices)
    assert (len(made.hosts), len(made.devices)) == (1213, 6212)
    assert (counts["G2"], counts["G3"], counts["A10"]) == (549 * 8, 39 * 8, 2)
    spec = data_dir / "traces/tiresias/n160g8.csv"
    assert warren("trace", "convert", str(spec), "--to", str(cluster)).code == 0
    assert len(load_cluster(str(cluster), read).devices) == 160 * 8


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("inspect", "trace inspect: FILE is missing"),
        ("inspect none.csv", "none.csv: cannot be read: no such file"),
        ("inspect FILE --format phily", "unknown format 'phily'; allowed: auto, philly, "),
        ("inspect FILE --format helios", "columns missing: job_id, gpu_num, submit_time"),
        ("convert FILE", "trace convert: --to is missing"),
        ("convert FILE --to jobs.txt", "jobs.txt: allowed: a table of jobs, .csv"),
        ("convert FILE --to c.yaml", "is no list of machines that Warren knows"),
        ("convert FILE --to j.csv --round 0", "--round: '0' is not between 1 ms and 1e9 s"),
        ("convert FILE --to j.csv --types A,A", "--types: 'A,A'; allowed: different names"),
        ("convert FILE --to j.csv --gpus-max 0", "--gpus-max"),
        ("convert FILE --to no/j.csv", "cannot be written: No such file or directory"),
        ("convert GAVEL --to j.csv", "--throughputs: a gavel trace needs throughputs"),
        ("inspect JOBS", "this is a jobs file; give a run file that names it under `workload:`"),
        ("convert JOBS --to j.csv", "is no trace that Warren knows; name its format, by --format "),
        ("inspekt", "no command 'inspekt'"),
    ],
)
def test_wrong_use_is_one_line_and_writes_nothing(
    warren: Warren, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: str, told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    gavel = tmp_path / "g.trace"
    gavel.write_text("LM\tcmd\targ\t1\t100\t6\t12\n")
    for word, path in {"FILE": BURSTS, "GAVEL": gavel, "JOBS": JOBS_FILE}.items():
        arguments = arguments.replace(word, str(path))
    found = warren("trace", *arguments.split())
    assert (found.code, found.out) == (2, "")
    assert told in found.complaint
    assert [path.name for path in tmp_path.iterdir()] == ["g.trace"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "f.csv: is empty"),
        ("id,submit,duration,gpus\n", "f.csv: has a header and no row: 'id', 'submit'"),
        ("timestamp,duration,num_gpus,cluster\n", "f.csv: has a header and no row (philly)"),
        (
            "JobID   GPUs\n------- ----\n7       2\n",
            "f.csv: has columns of fixed width, as `sacct`",
        ),
    ],
)
def test_no_advice_is_the_command_that_was_just_given(
    warren: Warren, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("f.csv").write_text(text)
    for command in (("inspect", "f.csv"), ("convert", "f.csv", "--to", "j.csv")):
        found = warren("trace", *command)
        assert (found.code, found.out) == (2, "")
        assert told in found.complaint
        assert "trace inspect" not in found.complaint


def test_the_text_of_two_jobs_has_no_share_of_less_than_a_job(
    warren: Warren, tmp_path: Path
) -> None:
    trace = tmp_path / "two.csv"
    trace.write_text("id,submit,duration,gpus\n1,0,3600,2\n2,100,600,1\n")
    out = warren("trace", "inspect", trace).out
    assert "GPUs busy         2.17 on average, if no job had to wait" in out
    assert "tail              the largest job has 92.3% of the work\n" in out
    assert "1 %" not in out.partition("tail")[2]
    assert "gaps between" not in out
