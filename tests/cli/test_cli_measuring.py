"""What is known is not measured again, and a database in the way costs nothing but time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from cli_runs import CHECKOUT, write_run

from warren.live.training import numerics
from warren.model.cluster import PROCESSOR
from warren.model.errors import SpecError
from warren.model.job import Job, Workload
from warren.model.run import Run, Scheduler
from warren.profile.averages import TaskAverages, blank, with_measured, with_taken
from warren.profile.measured import MeasuredCost
from warren.report.record import LIVE
from warren.runs.check_apps import with_apps
from warren.runs.compose import PreparedRun
from warren.runs.inputs import run_of
from warren.runs.profiles import measured_rows as measuring
from warren.runs.profiles.measured_rows import measured_rows, profiles_of
from warren.store import history_database as opened
from warren.store.history_database import Database, default_file

APP = f"{CHECKOUT}/tests/cli/drawn_apps.py"
JOBS = f"""\
jobs:
  - {{name: a, app: {APP}:Line}}
  - {{name: b, app: {APP}:Line}}
  - {{name: c, app: {APP}:Sides}}
"""
COST = MeasuredCost(comp_s=0.5, sync_s=0.25, model_bytes=40, memory_bytes=9)
Asked = list[list[str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Three jobs of two kinds, where a cluster second lasts 1 ms."""
    return run_of(write_run(tmp_path / "in", jobs=JOBS), None, ())


@pytest.fixture(autouse=True)
def _own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARREN_HISTORY", str(tmp_path / "history.db"))
    monkeypatch.setattr(numerics, "numerics_class", lambda threads: f"class of {threads}")
    measuring.say_once.cache_clear()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """The names of the jobs that were measured, a list each time."""
    return measured_by(monkeypatch, lambda: None)


def measured_by(
    monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], None], failing: str = ""
) -> Asked:
    asked: Asked = []

    def measure_jobs(
        run: Run, jobs: Sequence[Job], tasks: int, why: str
    ) -> tuple[dict[int, MeasuredCost], Mapping[int, str]]:
        asked.append([job.name for job in jobs])
        meanwhile()
        bad = {job.index: "boom" for job in jobs if job.name in failing}
        return {job.index: COST for job in jobs if job.index not in bad}, bad

    monkeypatch.setattr(measuring, "measure_jobs", measure_jobs)
    return asked


def test_each_kind_is_measured_once_for_all_runs_and_that_is_reported_once(
    run: Run, asked: Asked, heard: Callable[[], str]
) -> None:
    first = measured_rows(run)
    assert first.keys() == {"measured:a", "measured:b", "measured:c"}
    assert first["measured:a"].comp_s == {"V100": 500.0, "K80": 500.0}
    assert first["measured:b"].sync_s == {"V100": 250.0, "K80": 250.0}
    assert heard() == ""
    assert measured_rows(run) == measured_rows(run) == first
    assert asked == [["a", "c"]]
    told = "costs of a, b, c are known, measured before; `warren profile list` shows them\n"
    assert heard() == told


def test_a_run_uses_measurements_that_it_may_only_read(
    run: Run, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = measured_rows(run)
    before = default_file().read_bytes()
    monkeypatch.setattr(opened, "_may_write", lambda _: False)
    assert measured_rows(run) == first
    assert asked == [["a", "c"]]
    assert [one.name for one in default_file().parent.glob("history.db*")] == ["history.db"]
    assert default_file().read_bytes() == before


def test_what_live_runs_took_is_used_where_nothing_was_measured_alone(
    run: Run, asked: Asked
) -> None:
    run = with_apps(run, run.workload.jobs)
    kind = measuring._kinds(run, run.workload.jobs, None)[2]
    row = with_taken(blank(kind, PROCESSOR, 1.0), [TaskAverages(4, 2.0, 1.0)], 2.0)
    with Database(default_file()) as database, database.transaction():
        database.put([row])
    rows = measured_rows(run)
    assert asked == [["a"]]
    assert rows["measured:c"].comp_s["K80"] == 2000.0
    found, _ = profiles_of(run, run.workload.jobs, default_file(), 3, asked=True)
    assert asked == [["a"], ["c"]]  # who asks for measuring gets it
    assert (found[2].comp_s, found[2].comp_avg_s) == (0.5, 2.0)


def test_a_run_without_history_neither_uses_nor_keeps_what_was_measured(
    run: Run, asked: Asked, heard: Callable[[], str]
) -> None:
    without = measured_rows(run, history=False)
    assert not default_file().exists()
    assert measured_rows(run) == without
    before = default_file().read_bytes()
    assert measured_rows(run, history=False) == without
    assert asked == [["a", "c"]] * 3
    assert default_file().read_bytes() == before
    assert heard() == ""


def test_what_a_run_adds_while_others_measure_is_not_lost(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = with_apps(run, run.workload.jobs)
    kind = measuring._kinds(run, run.workload.jobs, None)[2]
    row = with_taken(blank(kind, PROCESSOR, 1.0), [TaskAverages(4, 2.0, 1.0)], 2.0)

    def meanwhile() -> None:
        with Database(default_file()) as database, database.transaction():
            database.put([row])

    measured_by(monkeypatch, meanwhile)
    measured_rows(run)
    with Database(default_file()) as database:
        (found,) = [one for one in database.profiles() if one.key == kind.key]
    assert (found.comp_s, found.comp_avg_s, found.avg_tasks, found.job) == (0.5, 2.0, 4, "c")


def test_a_database_that_cannot_be_read_is_reported_and_all_is_measured(
    run: Run, asked: Asked, heard: Callable[[], str]
) -> None:
    default_file().write_bytes(b"x" * 5000)
    assert measured_rows(run) == measured_rows(run)
    assert asked == [["a", "c"]] * 2
    lines = heard().splitlines()
    start = f"measured costs are not kept: {default_file()}: is no usable history database: "
    assert len(lines) == 2
    assert all(line.startswith(start) for line in lines)
    assert default_file().read_bytes() == b"x" * 5000


def test_what_is_known_by_fewer_tasks_than_are_asked_for_is_measured_again_and_the_better_kept(
    run: Run, asked: Asked, heard: Callable[[], str]
) -> None:
    jobs, path = run.workload.jobs, default_file()
    profiles_of(run, jobs[2:], path, 10, asked=True)
    profiles_of(run, jobs[:2], path, 3, asked=True)
    assert heard() == ""
    found, _ = profiles_of(run, jobs, path, 3, asked=True)
    told = "costs of a, b, c are known from 3 to 10 tasks, measured before; "
    assert heard().startswith(told)
    assert [found[job.index].samples for job in jobs] == [3, 3, 10]
    found, _ = profiles_of(run, jobs, path, 4, asked=True)
    assert asked == [["c"], ["a"], ["a"]]
    assert [found[job.index].samples for job in jobs] == [4, 4, 10]
    assert heard().startswith("costs of c are known from 10 tasks, ")
    measured_rows(run)  # a run takes what there is
    assert asked == [["c"], ["a"], ["a"]]


def test_a_better_measurement_that_came_meanwhile_is_kept(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = with_apps(run, run.workload.jobs)
    kind = measuring._kinds(run, run.workload.jobs, None)[2]
    better = with_measured(blank(kind, PROCESSOR, 1.0), replace(COST, comp_s=0.75), 20, 2.0)

    def meanwhile() -> None:
        with Database(default_file()) as database, database.transaction():
            database.put([better])

    measured_by(monkeypatch, meanwhile)
    found, _ = profiles_of(run, run.workload.jobs, default_file(), 3, asked=True)
    assert (found[2].samples, found[2].comp_s) == (20, 0.75)


def test_what_was_measured_beside_a_job_that_fails_is_kept(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = measured_by(monkeypatch, lambda: None, failing="a")
    with pytest.raises(SpecError, match="job a and 1 more of its kind: failed while its cost was"):
        measured_rows(run)
    found, (problem,) = profiles_of(run, run.workload.jobs, default_file(), 3, asked=True)
    assert asked == [["a", "c"], ["a"]]
    assert found.keys() == {2}
    assert "boom" in problem.message


@pytest.mark.parametrize("there", [False, True])
def test_who_asks_for_measuring_learns_first_that_it_cannot_be_kept(
    run: Run, asked: Asked, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, there: bool
) -> None:
    path = default_file() if there else tmp_path / "file" / "history.db"
    (tmp_path / "file").touch()
    if there:
        Database(path).__exit__(None, None, None)
        monkeypatch.setattr(opened, "_may_write", lambda _: False)
    told = "cannot be written" if there else "is no usable history database: "
    with pytest.raises(SpecError, match=f"{path}: {told}") as error:
        profiles_of(run, run.workload.jobs, path, 3, asked=True)
    assert len(str(error.value).splitlines()) == 1
    assert asked == []
    assert measured_rows(run)  # a run goes on without
    assert asked == [["a", "c"]]


def test_a_database_that_cannot_be_written_is_reported_and_costs_nothing(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, heard: Callable[[], str]
) -> None:
    def meanwhile() -> None:
        default_file().write_bytes(b"x" * 5000)

    measured_by(monkeypatch, meanwhile)
    assert measured_rows(run)["measured:a"].comp_s["V100"] == 500.0
    (line,) = heard().splitlines()
    assert line.startswith(f"measured costs were not kept: {default_file()}: ")


def test_a_type_that_is_simulated_at_this_processors_times_is_reported(
    run: Run, monkeypatch: pytest.MonkeyPatch, heard: Callable[[], str]
) -> None:
    measured_by(monkeypatch, lambda: None)
    measured_rows(replace(run, cluster=replace(run.cluster, emulate=None)))
    (line,) = heard().splitlines()
    assert "measured on this machine's processor, and taken to be as long on V100" in line


@pytest.mark.parametrize(
    ("costs", "copies_after", "timed"),
    [("stated", None, True), ("measured", None, False), ("measured", 3.0, True)],
)
def test_a_live_run_times_no_task_ahead_if_its_policy_measures_costs_in_the_run(
    run: Run, asked: Asked, costs: str, copies_after: float | None, timed: bool
) -> None:
    """Copies of late tasks need to know what is late."""
    scheduler = Scheduler(
        place="harmony", joint="harmony", options={"costs": costs}, copies_after=copies_after
    )
    jobs = tuple(replace(job, rounds=3) for job in run.workload.jobs)
    run = replace(run, scheduler=scheduler, workload=Workload(jobs=jobs))
    found = PreparedRun(run=run, world=LIVE).costs
    assert bool(asked) == timed
    assert bool((found.comp_ns_JT == 1).all()) == (not timed)
