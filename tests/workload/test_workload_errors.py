"""Wrong input: all problems at once, each with file, line, field and what is allowed."""

from __future__ import annotations

import pytest
from workload_files import CLUSTER, FILES, MACHINE, reader

from warren.model.errors import SpecError
from warren.workload.run_file import load_cluster, load_jobs, load_run


def problems(call: object, *args: object) -> list[str]:
    with pytest.raises(SpecError) as caught:
        call(*args)  # type: ignore[operator]
    lines = str(caught.value).splitlines()
    assert len(lines) == len(caught.value.problems)
    return lines


def job_problems(text: str) -> list[str]:
    return problems(load_jobs, "j.yaml", reader({"j.yaml": text}))


def test_problems_of_all_files_come_together() -> None:
    cluster = CLUSTER.replace("V100: 4", "V100: 0").replace("nic: 25 Gbps", "nic: fast")
    jobs = "job,arrival_s,model,batch,scale\na/b,10,m,x,0\nb,soon,m,1,1\n"
    run = FILES["d/run.yaml"].replace("seed: 1", "seed: -1").replace("extra.yaml", "no.yaml")
    files = {**FILES, "d/cluster.yaml": cluster, "d/jobs.csv": jobs, "d/run.yaml": run}
    assert [line.partition(" ")[0] for line in problems(load_run, "d/run.yaml", reader(files))] == [
        "d/run.yaml:9:", "d/cluster.yaml:3:", "d/cluster.yaml:3:", "d/no.yaml:",
        "d/jobs.csv:2:", "d/jobs.csv:2:", "d/jobs.csv:2:", "d/jobs.csv:3:",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("{name: a, model: m, batch: 1, sclae: 2}", "sclae: unknown field; did you mean scale?"),
        ("name: a\nmodel: m\nbatch: 1\nscale: two", "j.yaml:4: scale: expected a whole number"),
        ("{name: a, model: m, batch: 1, scale: 0}", "must be at least 1, got 0"),
        ("{name: a, model: m, batch: 1, weight: 0}", "weight: must be more than 0"),
        ("{name: a, model: m, batch: 1, rounds: 1.5}", "rounds: expected a whole number, got 1.5"),
        ("{name: a/b, model: m, batch: 1}", "name: 'a/b' is not a name; allowed: 1 to 80"),
        ("{name: .., model: m, batch: 1}", "name: '..' is not a name"),
        ("{model: m, batch: 1}", "name: is required"),
        ("{name: a}", "needs app (code to train) or model"),
        ("{name: a, model: m, batch: 1, sync: tcp}", "'tcp' is unknown; allowed: ps, ring"),
        ("{name: a, app: x, stop: {metric: m, reaches: 1}}", "stop needs evaluate"),
        ("{name: a, app: x, evaluate: {every: 1}, stop: {metric: m}}", "exactly one of reaches"),
        ("{name: a, app: x, evaluate: {every: 0}}", "evaluate.every: must be at least 1, got 0"),
        ("{name: a, app: x, schedule: {steps: [0, 5]}}", "steps[0]: must be at least 1, got 0"),
        (
            "{name: a, app: x, schedule: {steps: [9, 9]}}",
            "schedule: needs steps that rise, got 9 a",
        ),
        (
            "{name: a, app: x, schedule: {steps: [9, 5]}}",
            "schedule: needs steps that rise, got 5 a",
        ),
        ("{name: a, app: x, schedule: {steps: [1.5]}}", "steps[0]: expected a whole number, got"),
        ("{name: a, app: x, schedule: {steps: 60}}", "schedule.steps: expected a list, got 60"),
        ("{name: a, app: x, schedule: [60]}", "schedule: expected a mapping"),
        ("{name: a, app: x, schedule: {}}", "schedule.steps: is required"),
        (
            "{name: a, app: x, cost: {items: 1, model: 1 MB, batch: 1}}",
            "cost.item: is required",
        ),
        ("{name: a, app: x, cost: [1]}", "cost: expected the name of a row, or {items: ..., item"),
        (
            "{name: a, cost: {items: 0, item: {C: 1 s}, model: 1 MB, batch: 1}}",
            "cost.items: must be at least 1",
        ),
        (
            "{name: a, cost: {items: 1, item: {C: 0 s}, model: 1 MB, batch: 1}}",
            "cost.item.C: must be more than 0",
        ),
        (
            "{name: a, cost: {items: 1, item: {}, model: 1 MB, batch: 1}}",
            "cost.item: ",
        ),
        ("{name: a, app: x, arrival: 5 parsec}", "arrival: unknown unit 'parsec'"),
        ("{name: a, app: x, task_limit: 0 s}", "task_limit: must be more than 0"),
        ("{name: a, app: x, task_limit: soon}", "task_limit: 'soon' is not a time"),
        ("{name: a, app: x, arrival: .inf}", "arrival: .inf is not a number"),
        ("{name: a, app: x, weight: 1e999}", "weight: '1e999' is too large"),
        ("{name: a, app: x, format: 2}", "format: allowed: 1, got 2"),
        ("[{name: a, app: x}, {name: a, app: x}]", "[1].name: a is also the name of line 1"),
        ("{jobs: []}", "jobs: needs at least 1"),
        ("[]", "j.yaml:1: holds no job"),
        ("", "j.yaml: is empty"),
        ("5", "expected a mapping, got 5"),
        ("{name: a, name: b, app: x}", "name: stands twice; first in line 1"),
        ("{name: &n a, app: *n}", "app: is an alias"),
        ("{name: !!python/object:os.system a, app: x}", "has a tag"),
        ("{name: a, app: x}\n---\n{name: b}", "several documents"),
        ("name: a\n\tapp: x", "j.yaml:2: is not YAML: a tab; indent with spaces"),
        ("jobs:\n\t- name: a", "j.yaml:2: is not YAML: a tab; indent with spaces"),
        ("{name: r, cluster: c.yaml}", "this is a run file; give its jobs file"),
        ("workload: [{name: a, app: x}]", "run file; give a file of its jobs alone, as "),
        ("workload: {jobs: jobs.csv}", "a run file; give its jobs file, 'jobs.csv'"),
        ("name: [", "j.yaml:1: is not YAML"),
        ("{name: a, app: x, <<: {scale: 2}}", "<<: unknown field"),
        ("[" * 80 + "]" * 80, "is nested deeper than 50 levels"),
        ("{name: a, app: x, params: {b: " + "[" * 30 + "]" * 30 + "}}", "params: is nested deeper"),
    ],
)
def test_a_wrong_job_says_where_and_what_is_allowed(text: str, line: str) -> None:
    (found,) = job_problems(text)
    assert line in found
    assert found.startswith("j.yaml:")


def test_what_is_not_utf8_is_refused_with_its_line() -> None:
    (line,) = problems(load_jobs, "j.yaml", reader({"j.yaml": b"name: a\nuser: \xff\n"}))
    assert line == "j.yaml:2: is not UTF-8 text"


def test_words_that_older_yaml_takes_for_truth_stay_words() -> None:
    (job,) = load_jobs("j.yaml", reader({"j.yaml": "{name: no, app: x, user: on}"})).jobs
    assert (job.name, job.user) == ("no", "on")


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("model: constant", "xi1: 0.5", "network: xi1 belongs to model: contention"),
        ("engine: local", "engine: {ray: x}", "engine: 'x' is no address; allowed: like 10.0.0.1:"),
        ("engine: local", "engine: {roy: x}", "is no engine; allowed: {ray: HOST:PORT}"),
        ("engine: local", "engine: 5", "engine: 5 is unknown; allowed: plain, local, {ray: HOST"),
        ("name: t,", "name: v-0,", "hosts[1].name: host v-0 stands twice"),
        ("count: 2", "count: 1000000", "hosts[0].count: must be at most 100000"),
        ("V100: 4", "V100: 900000", "1800003 devices; allowed: at most 1000000"),
        ("memory: 244 GB", "memory: lots", "hosts[0].memory: 'lots' is not a size"),
        ("disk: 1 GB/s", "disk: 5", "hosts[0].disk: 5 needs a unit"),
        ("time_scale: 0.05", "time_scale: 0", "emulate.time_scale: must be more than 0"),
        ("{T4: 1.2}", "{T4: 0}", "emulate.slower.T4: must be at least 1.0, got 0"),
        ("{T4: 1.2}", "[T4]", "emulate.slower: expected a mapping"),
        (
            "{T4: 1.2}",
            "{V10O: 1.2}",
            "emulate.slower.V10O: 'V10O' is no type of this cluster; "
            "did you mean V100? allowed: V100, T4, K80",
        ),
        ("times/j.npy", '""', "emulate.jitter: '' is not a file path"),
        ("times/j.npy", "[1.0, 1.1]", "emulate.jitter: expected text, got a list"),
        ("look_ahead: 4", "look_ahead: 65", "local.look_ahead: must be at most 64, got 65"),
        ("look_ahead: 4", "look_ahead: -1", "local.look_ahead: must be at least 0, got -1"),
        (
            "look_ahead: 4",
            "lookahead: 4",
            "did you mean look_ahead? allowed: disk_ratio, lease, log_limit, look_ahead, memory, "
            "model_on_disk, pin, spill, testbed",
        ),
        ("pin: true", "disk_ratio: 0.5", "local.disk_ratio: is read with spill: true only"),
        ("pin: true", "model_on_disk: true", "local.model_on_disk: is read with spill: true only"),
        ("pin: true", "disk_ratio: 1.5", "local.disk_ratio: must be at most 1"),
        ("overheads: machine.yaml", "overheads: 3", "overheads: expected a file path or a mapping"),
        ("pin: true", "pin: 1", "local.pin: expected true or false, got 1"),
        ("memory: 2 GB", "memory: 2 GBs", "local.memory: unknown unit 'GBs' in '2 GBs'; allowed:"),
        ("memory: 2 GB", "memory: 63 MB", "must be at least 64 MB, got 63000000 bytes"),
        ("hosts:", "host:", "hosts: is required"),
        (
            "V100: 4",
            "V10O: 4",
            "c.yaml:3: hosts[0].devices.V10O: 'V10O' is none of device_types; "
            "did you mean V100? allowed: V100, T4, K80",
        ),
    ],
)
def test_a_wrong_cluster_says_where_and_what_is_allowed(old: str, new: str, line: str) -> None:
    text = CLUSTER.replace(old, new)
    found = problems(load_cluster, "c.yaml", reader({"c.yaml": text, "machine.yaml": MACHINE}))
    assert any(line in one for one in found), found


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("cores: 2", "cores: 0", "d/machine.yaml:4: constants.cores: must be at least 1, got 0"),
        ("  cores: 2\n", "", "constants.cores: is required"),
        ("dispatch: 120 us", "dispatch: -1 us", "constants.dispatch: '-1 us' is not a time"),
        ("dispatch: 120 us", "dispatch: 2 h", "constants.dispatch: must be at most 1 h"),
        ("dispatch: 120 us", "dipsatch: 1 us", "unknown field; did you mean dispatch? allowed: ba"),
        ("2.5 GB/s", "0 B/s", "constants.task_cpu_rate: must be more than 0"),
        ("slowdown: 1.1", "slowdown: 0.9", "constants.slowdown: must be at least 1.0, got 0.9"),
        ("constants:", "constant:", "constants: is required"),
        ("[100 us, 130 us]", "[&a 1, *a]", "is an alias"),
    ],
)
def test_wrong_overheads_say_where_and_what_is_allowed(old: str, new: str, line: str) -> None:
    files = {**FILES, "d/machine.yaml": MACHINE.replace(old, new)}
    found = problems(load_run, "d/run.yaml", reader(files))
    assert any(line in one for one in found), found
    assert all(one.startswith("d/machine.yaml") for one in found)


def test_overheads_that_cannot_be_read_say_who_named_them() -> None:
    files = {**FILES, "d/cluster.yaml": CLUSTER.replace("machine.yaml", "none.yaml")}
    (line,) = problems(load_run, "d/run.yaml", reader(files))
    named = "(named in d/cluster.yaml:10)"
    assert line == f"d/none.yaml: cannot be read: No such file or directory {named}"


def test_a_cluster_without_a_device_is_refused() -> None:
    (line,) = problems(load_cluster, "c.yaml", reader({"c.yaml": "hosts: [{name: a}]"}))
    assert "no host has a device" in line


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        (
            "{jobs: jobs.csv}",
            "{generate: hare}",
            "workload.generate: 'hare' is unknown; allowed: hare-mix, gavel-mix, sjf-bco",
        ),
        ("{jobs: jobs.csv}", "{}", "workload: needs exactly one of: jobs, trace, generate"),
        ("{jobs: jobs.csv}", "7", "expected {jobs: ...}, {trace: ...}, {generate: ...}"),
        ("{jobs: jobs.csv}", "{jobs: 7}", "expected a file path or a list, got 7"),
        ("cluster.yaml", "[1]", "cluster: expected a file path or a mapping, got a list"),
        ("cluster.yaml", "no.yaml", "No such file or directory (named in d/run.yaml:2)"),
        (
            "{jobs: jobs.csv}",
            "{trace: {format: x, path: p}}",
            "'x' is unknown; allowed: auto, philly",
        ),
        (
            "grain: 60 s",
            "place: srtf",
            "place: unknown field; did you mean scheduler: {place: ...}? allowed: base, cluster, ",
        ),
        (
            "grain: 60 s",
            "network: {model: lane}",
            "network: unknown field; did you mean cluster: {network: ...}? allowed: base, ",
        ),
        ("grain: 60 s", "sceduler: {}", "unknown field; did you mean scheduler? allowed: base, "),
        ("grain: 60 s", "grain: 60", 'write "60 rounds" or "60 s"'),
        ("grain: 60 s", "grain: 0 s", "is no time at all"),
        ("policy: {kappa: 2}", "policy: {flow: {a: 1}, kappa: 2}", "policy: holds options of flow"),
        ("task_cv: 0.05", "task_cv: -1", "truth.task_cv: must be at least 0"),
        ("servers: 2", "servers: 0", "scheduler.servers: must be at least 1, got 0"),
        ("servers: 2", "servers: 65", "scheduler.servers: must be at most 64, got 65"),
        ("servers: 2", "copies_after: 1", "scheduler.copies_after: must be at least 1.1, got 1"),
    ],
)
def test_a_wrong_run_says_where_and_what_is_allowed(old: str, new: str, line: str) -> None:
    run = FILES["d/run.yaml"].replace(old, new)
    found = problems(load_run, "d/run.yaml", reader({**FILES, "d/run.yaml": run}))
    assert any(line in one for one in found), found


@pytest.mark.parametrize("named", ["hare", "sortf"])
def test_a_scheduler_that_is_one_word_learns_its_shape(named: str) -> None:
    run = f"cluster: c.yaml\nworkload: j.csv\nscheduler: {named}\n"
    lines = problems(load_run, "d/run.yaml", reader({"d/run.yaml": run}))
    said = f"expected a mapping, such as {{place: hare}}, got {named!r}"
    assert f"d/run.yaml:3: scheduler: {said}" in lines


@pytest.mark.parametrize(
    ("text", "what", "key"),
    [
        ("jobs: [{name: a, app: x}]", "jobs", "workload"),
        ("[{name: a, app: x}]", "jobs", "workload"),
        ("{name: a, model: m, batch: 1}", "jobs", "workload"),
        (CLUSTER, "cluster", "cluster"),
    ],
)
def test_another_file_given_for_a_run_file_is_reported_in_one_line(
    text: str, what: str, key: str
) -> None:
    (line,) = problems(load_run, "x.yaml", reader({"x.yaml": text}))
    assert line == f"x.yaml: this is a {what} file; give a run file that names it under `{key}:`"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "j.csv: is empty"),
        ("job,modle\na,b\n", "unknown column 'modle'; did you mean model?"),
        ("job,job\na,b\n", "the column stands twice"),
        ("model\na\n", "the column job is missing"),
        ("job;app\na;x\n", "j.csv:1: has ';' between its cells; write commas"),
        ("job,app\na\n", "j.csv:2: has 1 cells, the header 2"),
        ('job,app\n"a,x\n', "j.csv:2: is not CSV"),
        ("job,app,scale\na,x,2.5\n", "j.csv:2: scale: expected a whole number, got '2.5'"),
        ("job,app,arrival_s\na,x,-1\n", "j.csv:2: arrival_s: "),
        ("job,app,weight\na,x,nan\n", "j.csv:2: weight: expected a number, got 'nan'"),
        ("job,app\na,x\n\na,x\n", "j.csv:4: job: a is also the name of line 2"),
        ("job,app\n", "holds no job"),
    ],
)
def test_a_wrong_csv_says_which_line_and_column(text: str, line: str) -> None:
    (found,) = problems(load_jobs, "j.csv", reader({"j.csv": text}))
    assert line in found


def test_thousands_of_problems_are_counted_not_listed() -> None:
    text = "job,app,scale\n" + "".join(f"j{i},x,0\n" for i in range(5000))
    found = problems(load_jobs, "j.csv", reader({"j.csv": text}))
    assert len(found) == 201
    assert found[-1] == "j.csv: and 4800 more problems"


@pytest.mark.parametrize(
    ("stated", "line"),
    [
        ("{}", "c.yaml:2: switching: needs exactly one of: scheme, time, times"),
        ("{scheme: hare, time: 1 s}", "switching: needs exactly one of: scheme, time, times"),
        ("{time: 1 s, bus: 1 GB/s}", "switching: bus goes with scheme only"),
        ("{scheme: fast}", "switching.scheme: 'fast' is unknown; allowed: default, pipeswitch"),
        ("{scheme: hare, bus: 0 B/s}", "switching.bus: must be more than 0"),
        ("{time: -1 s}", "switching.time: '-1 s' is not a time"),
        ("{time: 2 h}", "switching.time: must be at most 1 h"),
        ("{times: {A: 1 s}}", "switching.times: has no time for B"),
        ("{times: {A: 1, B: 1, C: 1}}", "switching.times.C: 'C' is no type of this cluster; allo"),
        ("hare", "switching: expected a mapping"),
        (
            "{time: 1}\noverheads: {constants: {cores: 2}}",
            "c.yaml:2: switching: rows measured with overheads tell it; allowed: one of the two",
        ),
    ],
)
def test_wrong_switching_says_where_and_what_is_allowed(stated: str, line: str) -> None:
    text = f"hosts: [{{name: a, devices: {{A: 1, B: 1}}}}]\nswitching: {stated}"
    found = problems(load_cluster, "c.yaml", reader({"c.yaml": text}))
    assert any(line in one for one in found), found
