"""What files say about shape, group and flow: names, options, classes and hosts of jobs."""

from __future__ import annotations

from typing import Any

import pytest

from warren.model.errors import SpecError
from warren.model.job import RateSchedule
from warren.model.run import Run, Scheduler
from warren.workload.run_file import load_run, run_from_dict
from warren.workload.specs.json_schema import json_schema
from warren.workload.specs.write import dump_run


def described(job: dict[str, Any] | None = None, **fields: Any) -> Run:
    """A run of one job, with these fields."""
    data = {
        "cluster": {"hosts": [{"name": "h", "count": 2, "devices": {"A": 1}}]},
        "workload": {"jobs": [{"name": "j", "model": "m", "rounds": 2, **(job or {})}]},
        "profiles": {"m": {"model": "1 MB", "comp": {"A": "1 s"}, "sync": {"A": "0 s"}}},
    }
    return run_from_dict({**data, **fields}, ".", lambda path: b"")


def refused(job: dict[str, Any] | None = None, **fields: Any) -> str:
    with pytest.raises(SpecError) as caught:
        described(job, **fields)
    (problem,) = caught.value.problems
    return str(problem)


def reread(run: Run) -> Run:
    text = dump_run(run).encode()
    return load_run("run.yaml", lambda path: text)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, Scheduler()),
        ({"policy": {"budget": 3}}, Scheduler(options={"budget": 3})),
        ({"policy": {"place": {"budget": 3}}}, Scheduler(options={"budget": 3})),
        ({"policy": {"place": 3}}, Scheduler(options={"place": 3})),
        (
            {"scheduler": {"flow": "x"}, "policy": {"flow": {"a": 1}, "place": {"b": 2}}},
            Scheduler(flow="x", options={"b": 2}, other_options={"flow": {"a": 1}}),
        ),
        ({"policy": {"flow": {}, "group": {"a": 1}}}, Scheduler(other_options={"group": {"a": 1}})),
        ({"scheduler": {"joint": "x"}}, Scheduler(place="x", joint="x")),
        (
            {"scheduler": {"joint": "x", "place": "srtf"}, "policy": {"joint": {"a": 1}}},
            Scheduler(place="srtf", joint="x", other_options={"joint": {"a": 1}}),
        ),
        (
            {"scheduler": {"joint": "x"}, "policy": {"a": 1}},
            Scheduler(place="x", joint="x", options={"a": 1}),
        ),
    ],
)
def test_options_are_those_of_the_policies_they_stand_under_and_read_back(
    fields: dict[str, Any], expected: Scheduler
) -> None:
    run = described(**fields)
    assert run.scheduler == expected
    assert reread(run).scheduler == expected


def test_options_of_which_nobody_knows_whose_they_are_are_refused() -> None:
    said = refused(policy={"flow": {"a": 1}, "budget": 3, "kappa": 2})
    assert said == (
        "run: policy: holds options of flow, and 'budget', 'kappa' beside them; "
        "put these under place, as in {place: {...}, flow: {...}}"
    )


def test_a_job_states_its_class_and_hosts_and_they_read_back() -> None:
    run = described(
        {
            "class": 3,
            "servers": {"hosts": ["h-0", "h-1", "h-0"], "bytes": ["1 MB", 2, "3 kB"]},
            "workers": {"hosts": ["h-1"]},
        }
    )
    (job,) = run.workload.jobs
    assert job.flow_class == 3
    assert job.server_hosts == ("h-0", "h-1", "h-0")
    assert job.server_bytes == (10**6, 2, 3000)
    assert job.worker_hosts == ("h-1",)
    (same,) = reread(run).workload.jobs
    assert same == job
    (plain,) = described().workload.jobs
    assert (plain.flow_class, plain.server_hosts, plain.worker_hosts) == (0, (), ())
    assert '"class"' not in dump_run(described())


@pytest.mark.parametrize(
    ("given", "number", "hosts"),
    [(4, 4, ()), (0, 0, ()), ({"hosts": ["h"], "processes": 2}, 2, ("h",)), (None, None, ())],
)
def test_a_job_states_its_workers_and_they_read_back(
    given: Any, number: int | None, hosts: tuple[str, ...]
) -> None:
    run = described({} if given is None else {"workers": given})
    (job,) = run.workload.jobs
    assert (job.workers, job.worker_hosts) == (number, hosts)
    assert reread(run).workload.jobs == run.workload.jobs


@pytest.mark.parametrize(
    ("job", "line"),
    [
        ({"class": 0}, "workload.jobs[0].class: must be at least 1, got 0"),
        ({"class": 8}, "workload.jobs[0].class: must be at most 7, got 8"),
        ({"class": "first"}, "workload.jobs[0].class: expected a whole number, got 'first'"),
        ({"clas": 1}, "clas: unknown field; did you mean class? allowed: app, arrival, batch, che"),
        ({"flow_class": 1}, "flow_class: unknown field; "),
        ({"servers": {"hosts": []}}, "servers.hosts: needs at least 1 item"),
        ({"servers": {"hosts": ["h"], "bytes": [1, 2]}}, "servers: needs 1 bytes, one for each of"),
        ({"servers": {"hosts": ["h"]}, "sync": "ring"}, "a ring has no servers; leave servers out"),
        ({"workers": {"hosts": ["h", "h"]}}, "workers: names a host twice"),
        ({"workers": ["h"]}, "workers: expected a mapping"),
        ({"workers": -1}, "workers: must be at least 0, got -1"),
        ({"workers": 300}, "workers: must be at most 256, got 300"),
        ({"workers": "four"}, "workers: expected a whole number, got 'four'"),
        ({"workers": True}, "workers: expected a whole number, got "),
        ({"workers": {"hosts": ["h"], "processes": -1}}, "workers.processes: must be at least 0"),
        ({"types": []}, "types: needs at least 1 item"),
        ({"types": ["a", "b", "a"]}, "types names a type twice"),
    ],
)
def test_a_wrong_class_or_host_is_reported_with_its_field(job: dict[str, Any], line: str) -> None:
    assert line in refused(job)


@pytest.mark.parametrize("steps", [[], [60], [60, 80]])
def test_a_job_states_when_its_rate_is_cut_and_it_reads_back(steps: list[int]) -> None:
    run = described({"schedule": {"steps": steps}})
    (job,) = run.workload.jobs
    assert job.schedule == RateSchedule(steps=tuple(steps))
    assert reread(run) == run
    # What says nothing of it is written as ever.
    assert described().workload.jobs[0].schedule is None
    assert '"schedule"' not in dump_run(described())


def test_the_schemas_name_the_fields_as_files_do() -> None:
    properties = json_schema("job")["properties"]
    assert {"class", "servers", "workers", "schedule"} <= properties.keys()
    assert "flow_class" not in properties
    assert "joint" in json_schema("run")["$defs"]["SchedulerSpec"]["properties"]
