"""Mistakes of a first hour: the line says what is wrong there, and what to write instead."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_runs import CHECKOUT, CLUSTER, JOBS, ROUND_ROBIN, RUN, Warren, write_run

from warren.runs.comparison.variations import _parts
from warren.runs.compose import PreparedRun
from warren.runs.grain_advice import size_note
from warren.runs.inputs import run_of

FILE = ROUND_ROBIN.rpartition(":")[0]
ON_GPUS = "hosts:\n  - {name: n1, devices: {cuda: 8}}\n  - {name: n2, devices: {cuda: 8}}\n"
APP = "jobs: [{{name: a, app: {app}, model: resnet50, rounds: 3, batch: 1}}]\n"


def test_an_unknown_model_is_reported_also_where_no_batch_is_stated(
    warren: Warren, tmp_path: Path
) -> None:
    for batch, place in (("", "jobs.yaml:1: jobs[0].model: "), (", batch: 4", "")):
        jobs = f"jobs: [{{name: a, model: resnet5O, rounds: 3{batch}}}]\n"
        found = warren("simulate", write_run(tmp_path / "in", jobs=jobs))
        assert found.code == 2
        assert place in found.complaint
        assert "'resnet5O'" in found.complaint
        assert "; did you mean resnet50? allowed: " in found.complaint


@pytest.mark.parametrize(
    ("place", "told"),
    [
        (
            FILE,
            "place: names no class; it has: RoundRobin; a policy is given as FILE.py:Class",
        ),
        ("none.py", "none.py: place: no such file; a policy of your own is given as FILE.py:Class"),
        ("srtf,hare", "'srtf,hare' is several policies; use `warren compare RUN.yaml --place A,B`"),
    ],
)
def test_a_policy_that_cannot_be_meant_so_learns_how(
    warren: Warren, tiny: str, place: str, told: str
) -> None:
    found = warren("simulate", tiny, "--place", place)
    assert (found.code, found.complaint[-len(told) :]) == (2, told)


def test_a_policy_without_rings_names_those_that_have_them(warren: Warren, tmp_path: Path) -> None:
    run = write_run(
        tmp_path / "in", jobs=JOBS.replace("model: fastgcn,", "model: vgg19, sync: ring,")
    )
    told = warren("simulate", run).complaint
    start = (
        f"{run}: scheduler.place: policy 'srtf' cannot place ring jobs (job 'b' has sync: ring); "
    )
    assert told.startswith(f"{start}use braid, braid-online, fifo, ")


@pytest.mark.parametrize(
    ("app", "told"),
    [
        (
            "none.py:A",
            "the app of job a is not there: {folder}/none.py; only `warren run` needs it",
        ),
        ("jobs.yaml", "the app of job a names no class; `warren run` needs FILE.py:Class"),
    ],
)
def test_a_simulation_remarks_on_an_app_that_a_live_run_could_not_load(
    warren: Warren, tmp_path: Path, app: str, told: str
) -> None:
    run = write_run(tmp_path, jobs=APP.format(app=app))
    found = warren("simulate", run)
    assert (found.code, found.err) == (0, [told.format(folder=tmp_path)])


def test_a_run_of_very_many_tasks_says_how_long_it_takes(tmp_path: Path) -> None:
    jobs = "jobs: [{name: a, model: resnet50, rounds: 9999999999, batch: 4}]\n"
    run = run_of(write_run(tmp_path, jobs=jobs), None, [])
    assert "which takes about 11.57 d; `grain: " in size_note(PreparedRun(run=run))


def test_a_command_learns_that_classes_are_trained(warren: Warren, tmp_path: Path) -> None:
    jobs = "jobs: [{name: a, command: torchrun train.py, rounds: 3}]\n"
    told = warren("run", write_run(tmp_path, jobs=jobs)).complaint
    assert "jobs[0].command: unknown field; Warren trains classes, not commands: " in told
    assert told.endswith("see docs/guides/porting.md")
    assert (CHECKOUT / "docs" / "guides" / "porting.md").is_file()


def test_explain_names_the_policies_that_prepare_something(warren: Warren, tiny: str) -> None:
    cluster = Path(tiny).with_name("cluster.yaml")
    found = warren("policies", "gittins", "--explain", cluster)
    told = "--explain: gittins prepares nothing for a cluster; allowed: hlas, hlas-l, "
    assert found.complaint.startswith(told)
    for name in found.complaint.partition("allowed: ")[2].split(", "):
        assert warren("policies", name, "--explain", cluster).code == 0


def test_gpus_of_other_machines_are_reported_as_such(
    warren: Warren, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warren.runs.machine.gpus_here", lambda: ())
    told = warren("run", write_run(tmp_path, cluster=ON_GPUS)).complaint
    assert "GPUs of other machines (n1, n2) need `engine: {ray: HOST:PORT}`, and this " in told
    one = CLUSTER.replace("emulate: {time_scale: 0.001}\n", "")
    one = one.replace(
        "  - {name: k, count: 1, devices: {K80: 1}, memory: 61 GB, nic: 10 Gbps}\n", ""
    )
    told = warren("run", write_run(tmp_path, cluster=one)).complaint
    assert "this machine has no V100; " in told
    assert "other machines" not in told


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("cluster.hosts.0.count=0", "hosts[0].count: must be at least 1, got 0"),
        ("cluster.hosts[0].cout=2", "hosts[0].cout: unknown field; did you mean count?"),
        (
            "cluster.hosts.2.count=2",
            "hosts.2.count: '2' is no position in the list; allowed: 0 to 1",
        ),
        ("cluster.hosts.v.count=2", "hosts.v.count: 'v' is no position in the list"),
        ("workload.jobs.a=2", "workload.jobs.a: cannot be set: workload.jobs is 'jobs.yaml'"),
        ("a..b=1", "is no dotted key such as cluster.network.model"),
    ],
)
def test_a_value_of_the_command_line_is_reported_where_it_would_go(
    warren: Warren, tiny: str, value: str, told: str
) -> None:
    found = warren("simulate", tiny, "--set", value)
    assert found.code == 2
    assert told in found.complaint
    assert found.complaint.endswith("(given on the command line)")


def test_the_number_of_hosts_can_be_swept(warren: Warren, tiny: str) -> None:
    found = warren("compare", tiny, "--sweep", "cluster.hosts.0.count=1,3", "--json")
    assert found.code == 0
    whole = "cluster.hosts=[{name: a, devices: {V100: 1}}],[{name: a, devices: {V100: 2, K80: 1}}]"
    assert warren("compare", tiny, "--sweep", whole, "--json").code == 0
    told = json.dumps(found.json)
    assert "cluster.hosts.0.count=1" in told
    assert "cluster.hosts.0.count=3" in told


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("1,2, 3", ["1", "2", "3"]),
        ("[a, b],{c: 1, d: [2, 3]}", ["[a, b]", "{c: 1, d: [2, 3]}"]),
        ("'a,b',\"c, ]\",it's,d", ["'a,b'", '"c, ]"', "it's", "d"]),
        ("1,,2", ["1", "", "2"]),
        ("", [""]),
    ],
)
def test_commas_in_brackets_and_quotes_divide_no_values(text: str, parts: list[str]) -> None:
    assert list(_parts(text)) == parts


def test_an_override_in_a_list_of_the_run_file_itself_is_found(
    warren: Warren, tmp_path: Path
) -> None:
    jobs = "workload: [{name: a, model: vgg19, rounds: 2}, {name: b, model: vgg19, rounds: 2}]"
    run = write_run(tmp_path, run=RUN.replace("workload: {jobs: jobs.yaml}", jobs))
    found = warren("simulate", run, "--set", "workload.1.rounds=5", "--json")
    assert found.json["tasks"] == 7
