"""The command and the library prepare and refuse a run by the same function, once."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import pytest
from cli_runs import CLUSTER, JOBS, RUN, Warren, write_run

import warren as from_python
from warren.model.errors import SpecError
from warren.profile import cost_table as tables
from warren.report.record import LIVE
from warren.runs import compose, train
from warren.runs.compose import SIMULATED, PreparedRun
from warren.runs.inputs import run_of

WRONG = {
    "an app that is not there": {"jobs": JOBS.replace("drawn_apps.py:Line", "drawn_apps.py:Lines")},
    "a job without an app": {"jobs": "jobs: [{name: a, model: vgg19, scale: 1, rounds: 2}]"},
    "a type that is not here": {"cluster": CLUSTER.replace("emulate: {time_scale: 0.001}\n", "")},
    "jitter without a file": {
        "cluster": CLUSTER.replace("0.001}", "0.001, jitter: absent.npy}"),
    },
    "an unknown policy": {"run": RUN.replace("srtf", "best")},
    "a job without a profile row": {"jobs": JOBS.replace("model: fastgcn", "model: mine")},
}


@pytest.fixture
def never(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail where a live run would begin."""
    monkeypatch.setattr(train, "run_live", Mock(side_effect=AssertionError("was started")))


@pytest.mark.usefixtures("never")
@pytest.mark.parametrize("what", WRONG)
def test_a_live_run_that_the_command_refuses_the_library_refuses_with_the_same_text(
    warren: Warren, tmp_path: Path, what: str
) -> None:
    path, out = write_run(tmp_path / "in", **WRONG[what]), tmp_path / "out"
    told = warren("run", path, "--out", out)
    with pytest.raises(SpecError) as refused:
        from_python.run(path, out=out)
    assert told.code == 2
    assert told.err == [f"warren: {one}" for one in refused.value.problems]
    assert not out.exists()


@pytest.mark.parametrize("what", ["an unknown policy", "a job without a profile row"])
def test_a_simulation_that_the_command_refuses_the_library_refuses_with_the_same_text(
    warren: Warren, tmp_path: Path, what: str
) -> None:
    path = write_run(tmp_path / "in", **WRONG[what])
    told = warren("simulate", path)
    with pytest.raises(SpecError) as refused:
        from_python.simulate(path)
    assert told.code == 2
    assert told.err == [f"warren: {one}" for one in refused.value.problems]


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """Counts the tables of costs that are built, of a run's jobs and of its history's."""
    counted = Mock(wraps=tables._table)
    monkeypatch.setattr(tables, "_table", counted)
    return counted


MANY = (
    "jobs: [{name: a, cost: minute, scale: 1000, rounds: 3900}]",
    "profiles: {minute: {model: 0, comp: {V100: 60 s, K80: 60 s}, sync: {V100: 0, K80: 0}}}\n",
)
"""A run of so many tasks that their number is told, which asks for costs before anything runs."""


@pytest.mark.parametrize("command", ["simulate", "compare"])
def test_the_costs_of_a_simulation_are_built_once(
    warren: Warren, tmp_path: Path, built: Mock, command: str
) -> None:
    jobs, profiles = MANY
    path = write_run(tmp_path / "in", run=f"{RUN}{profiles}", jobs=jobs)
    told = warren(command, path, "--set", "grain=4000 rounds", "--place", "hare")
    assert told.code == 0
    assert built.call_count == 1


def test_the_costs_and_the_policy_of_a_checked_live_run_are_resolved_once(
    tiny: str, built: Mock, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = Mock(wraps=compose.choose_all)
    monkeypatch.setattr(compose, "choose_all", chosen)
    begun = PreparedRun(run=run_of(tiny, None, []), world=LIVE)
    begun.check()
    checked = begun.trainable()
    assert checked.run.sources
    assert checked.check() == begun.check()
    assert checked.costs is begun.stated_costs
    assert (built.call_count, chosen.call_count) == (1, 1)


def test_the_plain_engine_decides_by_its_own_policy_and_in_a_simulation_by_the_runs(
    tiny: str,
) -> None:
    run = run_of(tiny, None, ["cluster.engine=plain"])
    assert PreparedRun(run=run, world=LIVE).policies.place.name == "plain"
    assert PreparedRun(run=run, world=SIMULATED).policies.place.name == "srtf"


def test_a_testbed_that_is_not_up_is_refused_before_a_job_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = Mock(side_effect=AssertionError("was measured"))
    monkeypatch.setattr("warren.runs.profiles.measured_rows.measured_rows", measured)
    cluster = "hosts: [{name: h0, devices: {CPU: 1}}]\nlocal: {testbed: never-up}\n"
    jobs = JOBS.replace("model: graphsage, ", "").replace("model: fastgcn, ", "")
    path = write_run(tmp_path / "in", cluster=cluster, jobs=jobs.replace("model: resnet50, ", ""))
    with pytest.raises(SpecError, match="never-up is not up; `warren testbed up"):
        from_python.run(path, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


class Started(Exception):
    """The engine of a live run was to start."""


@pytest.mark.parametrize(("place", "rehearsals"), [("srtf", 1), ("hlas", 1), ("hare", 0)])
def test_an_online_policy_decides_over_a_few_rounds_before_the_engine_of_a_live_run_starts(
    warren: Warren, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, rehearsals: int
) -> None:
    """So nothing is compiled while devices wait; a plan has been made by then."""
    told: list[PreparedRun] = []
    port = Mock(start=Mock(side_effect=Started))
    del port.new_jobs  # all jobs are known
    monkeypatch.setattr(train, "simulate", told.append)
    monkeypatch.setattr(train, "_live_port", Mock(return_value=port))
    path = write_run(tmp_path / "in", run=RUN.replace("srtf", place))
    with pytest.raises(Started):
        from_python.run(path, out=tmp_path / "out")
    assert len(told) == rehearsals
    for one in told:
        jobs = one.run.workload.jobs
        assert 1 <= len(jobs) <= 8
        assert all(job.rounds is not None and 1 <= job.rounds <= 2 for job in jobs)
        assert one.world == SIMULATED


def test_a_notebook_sees_public_names_and_short_results(tiny: str) -> None:
    names = [name for name in dir(from_python) if not name.startswith("__")]
    plots = ["plot_cdf", "plot_gantt", "plot_means", "plot_sweep", "plot_use", "plot_users"]
    assert names == ["compare", "load", *plots, "resume", "run", "simulate"]
    assert all(hasattr(from_python, name) for name in dir(from_python))
    result = from_python.simulate(tiny)
    assert repr(result) == "Result('tiny', place srtf, 3 of 3 jobs finished, no folder)"
