"""The history of a run: the same forms as its workload, and what only jobs that ended may be."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from trace_samples import PHILLY
from workload_files import FILES, reader

from warren.model.errors import SpecError
from warren.model.run import Run
from warren.profile.published import TABLE
from warren.report.tables import JOB_COLUMNS, LIVE_COLUMNS
from warren.workload.jobs_file import COLUMNS, RESULTS
from warren.workload.run_file import load_run, run_from_dict
from warren.workload.specs.write import dump_run

CLUSTER = {"hosts": [{"name": "v", "devices": {"V100": 2}}]}
MIX = {"generate": "hare-mix", "jobs": 8}
ENDED = [
    {"name": "a", "model": "vgg19", "batch": 4, "rounds": 30, "arrival": "5 s"},
    {"name": "a", "model": "vgg19", "batch": 4, "rounds": 20},
]
TABLE_OF_RUN = """\
job,arrival_s,start_s,finish_s,jct_s,weight,rounds,scale,status,model,batch,sync,user,group,seed
one,0,0,9,9,2.0,12,4,finished,vgg19,8,ps,ana,,3
two,1,,,,1.0,99,1,unfinished,vgg19,8,ps,,,4
six,1,,,,1.0,99,1,failed,vgg19,8,ps,,,4
ten,2,1,8,6,1.0,7,1,finished,bert-base,8,ps,,,5
"""


def run_of(history: Any, files: dict[str, str | bytes] | None = None, **fields: Any) -> Run:
    data = {"cluster": CLUSTER, "workload": MIX, "history": history, "seed": 3, **fields}
    return run_from_dict(data, "d", reader(files or {}), rows=TABLE)


def past(run: Run) -> list[tuple[str, int | None, int]]:
    assert run.history is not None
    return [(job.name, job.rounds, job.arrival_ns) for job in run.history.jobs]


def refused(history: Any, files: dict[str, str | bytes] | None = None, **fields: Any) -> str:
    with pytest.raises(SpecError) as error:
        run_of(history, files, **fields)
    return str(error.value)


def test_a_run_without_a_history_has_none() -> None:
    assert run_of(None).history is None
    assert load_run("d/run.yaml", reader(FILES)).history is None


@pytest.mark.parametrize("form", ["list", "mapping", "path", "jobs: path"])
def test_ended_jobs_are_read_as_jobs_are_in_their_order_whenever_they_arrived(form: str) -> None:
    files: dict[str, str | bytes] = {"d/old.yaml": json.dumps(ENDED)}
    forms = {"list": ENDED, "mapping": {"jobs": ENDED}, "path": "old.yaml",
             "jobs: path": {"jobs": "old.yaml"}}  # fmt: skip
    run = run_of(forms[form], files)
    assert past(run) == [("a", 30, 0), ("a", 20, 0)], "runs of one job may have its name"
    assert [job.index for job in run.history.jobs] == [0, 1]  # type: ignore[union-attr]


def test_of_the_table_of_a_run_the_jobs_that_finished_count_with_the_rounds_they_ran() -> None:
    run = run_of({"jobs": "out/jobs.csv"}, {"d/out/jobs.csv": TABLE_OF_RUN})
    assert past(run) == [("one", 12, 0), ("ten", 7, 0)]
    assert run.history is not None
    first = run.history.jobs[0]
    assert (first.model, first.batch, first.scale, first.user) == ("vgg19", 8, 4, "ana")
    assert run.history.notes == ("d/out/jobs.csv: jobs left out: 1 failed, 1 unfinished",)


def test_every_column_of_a_runs_table_is_known_and_none_of_it_is_a_jobs_twice() -> None:
    assert {*JOB_COLUMNS, *LIVE_COLUMNS} <= {*COLUMNS, *RESULTS}
    assert not {*RESULTS} & {*COLUMNS}


def test_a_workload_may_not_have_the_columns_of_results() -> None:
    with pytest.raises(SpecError, match="unknown column 'start_s'"):
        run_of(None, {"d/jobs.csv": TABLE_OF_RUN}, workload={"jobs": "jobs.csv"})


def test_a_generated_history_is_not_the_workload_of_the_same_seed() -> None:
    run = run_of(MIX)
    assert run.history is not None
    assert [job.rounds for job in run.history.jobs] != [job.rounds for job in run.workload.jobs]
    assert run_of(MIX).history == run.history
    assert run_of(MIX, seed=4).history != run.history


def test_a_history_brings_the_costs_that_its_jobs_name() -> None:
    files: dict[str, str | bytes] = {"d/r.json": json.dumps({"v100": {"('A', 1)": {"null": 2.0}}})}
    form = {"generate": "gavel-mix", "jobs": 5, "throughputs": "r.json"}
    run = run_of(form, files)
    assert run.history is not None
    costs = {job.cost for job in run.history.jobs}
    assert costs == {row.model for row in run.profiles}


def test_costs_of_one_name_and_another_price_stand_apart() -> None:
    fast, slow = ({"v100": {"('A', 1)": {"null": rate}}} for rate in (4.0, 2.0))
    files: dict[str, str | bytes] = {"d/f.json": json.dumps(fast), "d/s.json": json.dumps(slow)}
    mix = {"generate": "gavel-mix", "jobs": 3}
    workload = {**mix, "throughputs": "f.json"}
    run = run_of({**mix, "throughputs": "s.json"}, files, workload=workload)
    rows = {row.model: row.comp_s["V100"] for row in run.profiles}
    assert run.history is not None
    assert {rows[job.cost or ""] for job in run.workload.jobs} == {0.25}
    assert {rows[job.cost or ""] for job in run.history.jobs} == {0.5}
    same = run_of({**mix, "throughputs": "f.json"}, files, workload=workload)
    assert len(same.profiles) == 1


@pytest.mark.parametrize(
    "history", [ENDED, MIX, {"jobs": "out/jobs.csv"}, {"jobs": ENDED, "notes": ["as told"]}]
)
def test_a_run_with_a_history_is_the_same_when_it_is_written_down_and_read_again(
    history: Any,
) -> None:
    run = run_of(history, {"d/out/jobs.csv": TABLE_OF_RUN})
    assert run.history is not None
    assert load_run("r.yaml", reader({"r.yaml": dump_run(run)})) == run
    assert dump_run(replace(run, history=None)) != dump_run(run)


@pytest.mark.parametrize(
    ("history", "line"),
    [
        (7, "run: history: expected {jobs: ...}, {trace: ...}, {generate: ...}, a list of jobs"),
        ([], "run: history: holds no job"),
        (
            {"databse": "default"},
            "run: history.databse: unknown field; did you mean database? allowed: database, "
            "generate, jobs, notes, trace",
        ),
        ({"genrate": "hare-mix"}, "run: history.genrate: unknown field; did you mean generate? "),
        ({"jobs": []}, "run: history.jobs: holds no job"),
        ({}, "run: history: needs exactly one of: jobs, trace, generate"),
        ("no.csv", "d/no.csv: cannot be read: No such file or directory"),
        (
            [{"name": "a", "model": "vgg19"}, {"name": "b", "model": "vgg19"}],
            "run: job of the history a and 1 more: rounds is required: how many it ran",
        ),
        ([{"name": "a", "rounds": 3}], "run: history[0]: needs app (code to train) or model"),
        ({"generate": "hare-mix", "jobs": 0}, "run: history.jobs: must be at least 1, got 0"),
        (
            {**MIX, "shares": {"cv": 0, "nlp": 0, "speech": 0, "rec": 0}},
            "run: history: all parts are 0; allowed: at least one above 0",
        ),
        (
            {"generate": "gavel-mix", "jobs": 1, "throughputs": "t.json"},
            "d/t.json: cannot be read: No such file or directory",
        ),
    ],
)
def test_a_wrong_history_says_where_and_what_is_allowed(history: Any, line: str) -> None:
    found = refused(history)
    assert line in found
    assert len(found.splitlines()) == 1


def test_a_table_of_which_no_job_finished_holds_none() -> None:
    table = "\n".join(TABLE_OF_RUN.splitlines()[:1] + TABLE_OF_RUN.splitlines()[2:4])
    assert "d/j.csv:1: holds no job" in refused("j.csv", {"d/j.csv": table})


def test_problems_of_workload_and_history_are_reported_at_once() -> None:
    found = refused("no.csv", workload="none.csv").splitlines()
    assert [line.split(":")[0] for line in found] == ["d/none.csv", "d/no.csv"]


def test_the_line_of_a_job_without_rounds_is_reported() -> None:
    text = (
        "cluster: {hosts: [{name: v, devices: {V100: 1}}]}\nworkload: [{name: j, model: vgg19}]\n"
    )
    text += "history:\n  - {name: k, model: vgg19, rounds: 3}\n  - {name: l, model: vgg19}\n"
    with pytest.raises(SpecError, match=r"^r.yaml:5: job of the history l: rounds is required"):
        load_run("r.yaml", reader({"r.yaml": text}), rows=TABLE)


def test_the_jobs_of_a_trace_are_in_the_order_in_which_they_came() -> None:
    run = run_of({"trace": {"format": "philly", "path": "p.csv"}}, {"d/p.csv": PHILLY})
    assert [name for name, _, _ in past(run)] == ["row-2", "row-3", "row-1", "row-9"]
