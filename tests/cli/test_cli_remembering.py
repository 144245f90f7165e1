"""What a run leaves in the history, read off folders of simulated runs: no process is needed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
from cli_runs import CHECKOUT, JOBS, Warren, write_run

import warren as from_python
from warren.core.journal import Step
from warren.core.journal_reader import frames
from warren.model.errors import Problem, SpecError
from warren.model.history_rows import EndedJob, LiveRun, Profile
from warren.model.run import Run
from warren.profile.averages import averaged
from warren.runs import history_writer as remembering
from warren.runs import train as training
from warren.runs.history_writer import remembered
from warren.runs.inputs import run_of
from warren.store.history_database import Database
from warren.store.run_folder import ReopenedFolder

CLUSTER = """\
hosts: [{name: h, devices: {CPU: 2}}, {name: g, devices: {CPU-slow: 1}}]
network: {model: lane}
"""
COSTS = """\
profiles:
  quick: {model: 1 MB, comp: {CPU: 10 ms, CPU-slow: 30 ms}, sync: {CPU: 2 ms, CPU-slow: 3 ms}}
"""
APPS = f"{CHECKOUT}/tests/cli/drawn_apps.py"
JOBS_TIMED = f"""\
jobs:
  - {{name: a, app: {APPS}:Sides, cost: quick, scale: 2, rounds: 12, user: ana, group: s}}
  - {{name: b, app: {APPS}:Line, cost: quick, rounds: 8, arrival: 0.05 s}}
  - {{name: c, app: {APPS}:Line, cost: quick, rounds: 5}}
"""
RUN = "cluster: cluster.yaml\nworkload: {jobs: jobs.yaml}\nscheduler: {place: srtf}\nname: night\n"
Rows = tuple[list[Profile], list[LiveRun], list[EndedJob]]


@pytest.fixture
def db(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "history.db"
    monkeypatch.setenv("WARREN_HISTORY", str(path))
    return path


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Path]:
    """A run that pads nothing, and its folder."""
    place = tmp_path_factory.mktemp("simulated")
    path = write_run(place / "in", run=RUN + COSTS, jobs=JOBS_TIMED, cluster=CLUSTER)
    from_python.simulate(path, out=place / "out")
    return run_of(path, None, ()), place / "out"


@pytest.fixture
def folder(simulated: tuple[Run, Path], tmp_path: Path) -> tuple[Run, Path]:
    """The same, to be changed."""
    run, out = simulated
    return run, shutil.copytree(out, tmp_path / "out")


def remember(run: Run, out: Path, error: Exception | None = None) -> None:
    opened = ReopenedFolder(str(out))
    with opened, remembered(run, opened):
        opened.keep()
        if error is not None:
            raise error


def kept(db: Path) -> Rows:
    with Database(db) as database:
        return database.profiles(), database.runs(), database.jobs()


def test_ended_jobs_and_what_tasks_took_are_kept(folder: tuple[Run, Path], db: Path) -> None:
    remember(*folder)
    profiles, (run,), jobs = kept(db)
    assert run.name == "night"
    (a,) = [job for job in jobs if job.name == "a"]
    assert (a.rounds, a.scale, a.user, a.group, a.status) == (12, 2, "ana", "s", "finished")
    assert {(job.name, job.rounds, job.arrival_s) for job in jobs} == {
        ("a", 12, 0.0), ("b", 8, 0.05), ("c", 5, 0.0),
    }  # fmt: skip
    costs = json.loads(a.costs)
    assert costs["CPU"]["comp_s"] == pytest.approx(0.010)
    assert sum(cost["tasks"] for job in jobs for cost in json.loads(job.costs).values()) == (
        11 * 2 + 7 + 4
    )
    assert {row.app: row.avg_tasks for row in profiles} == {  # but the first rounds
        "drawn_apps.py:Sides": 11 * 2,
        "drawn_apps.py:Line": 7 + 4,  # two jobs of one kind
    }
    for row in profiles:
        assert row.device_type == "CPU"  # whatever the run calls it
        assert row.comp_s is row.sync_s is None
        assert 0.010 <= (row.comp_avg_s or 0) <= 0.030
        assert 0.002 <= (row.sync_avg_s or 0) <= 0.003


def test_the_average_is_that_of_the_tasks_in_the_order_of_their_end(
    folder: tuple[Run, Path], db: Path
) -> None:
    remember(*folder)
    (row,) = [row for row in kept(db)[0] if row.app.endswith(":Sides")]
    journal = (folder[1] / "journal").read_bytes()
    done = [
        event
        for one, _ in frames(journal)
        if isinstance(one, Step)
        for event in one.events
        if type(event).__name__ == "TasksDone" and event.job == 0 and event.round > 0
    ]
    done.sort(key=lambda event: (event.end_ns, event.device))
    expected = averaged(None, ((event.busy_ns / 1e9, 1) for event in done))
    assert row.comp_avg_s == pytest.approx(expected)


def test_what_is_reported_twice_counts_once(folder: tuple[Run, Path], db: Path) -> None:
    remember(*folder)
    before = kept(db)
    remember(*folder)
    profiles, run, jobs = kept(db)
    assert (run, jobs) == before[1:]
    assert [replace(row, updated_at=0.0) for row in profiles] == [
        replace(row, updated_at=0.0) for row in before[0]
    ]


@pytest.mark.parametrize("part", [0.02, 0.3, 0.5, 0.9])
def test_a_run_that_was_cut_off_and_went_on_counts_as_one_that_was_not(
    folder: tuple[Run, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: float
) -> None:
    run, out = folder
    journal = (out / "journal").read_bytes()
    ends = [end for _, end in frames(journal)]
    found = []
    for name, sizes in (("once", [-1]), ("twice", [ends[int(part * len(ends))], -1])):
        monkeypatch.setenv("WARREN_HISTORY", str(tmp_path / name))
        for size in sizes:
            (out / "journal").write_bytes(journal[:size] if size > 0 else journal)
            remember(run, out)
        profiles, _, jobs = kept(tmp_path / name)
        found.append((profiles, {job.name: (job.rounds, job.status) for job in jobs}))
    (once, jobs_once), (twice, jobs_twice) = found
    assert jobs_once == jobs_twice
    assert [row.avg_tasks for row in once] == [row.avg_tasks for row in twice]
    for one, two in zip(once, twice, strict=True):
        assert one.comp_avg_s == pytest.approx(two.comp_avg_s)


def test_only_jobs_that_ended_are_kept_of_a_run_that_was_cut_off(
    folder: tuple[Run, Path], db: Path
) -> None:
    run, out = folder
    journal = (out / "journal").read_bytes()
    ends = [end for _, end in frames(journal)]
    (out / "journal").write_bytes(journal[: ends[len(ends) // 2]])
    remember(run, out)
    assert 0 < len(kept(db)[2]) < 3
    assert {job.name for job in kept(db)[2]} == {"c"}  # the shortest goes first


def test_a_run_that_pads_its_tasks_leaves_jobs_at_their_profiles_price_and_no_profile(
    db: Path, tmp_path: Path
) -> None:
    path, out = write_run(tmp_path / "in"), tmp_path / "out"
    from_python.simulate(path, out=out)
    remember(run_of(path, None, ()), out)
    profiles, _, jobs = kept(db)
    assert profiles == []
    assert sorted(job.name for job in jobs) == ["a", "b", "c"]
    for job in jobs:
        costs = json.loads(job.costs)
        assert costs.keys() == {"V100", "K80"}
        assert all(cost["tasks"] == 0 and cost["comp_s"] > 0 for cost in costs.values())


def test_the_plain_engine_leaves_jobs_and_no_profile(folder: tuple[Run, Path], db: Path) -> None:
    run, out = folder
    text = (out / "run.yaml").read_text()
    (out / "run.yaml").write_text(text.replace("engine: local", "engine: plain"))
    remember(run, out)
    profiles, _, jobs = kept(db)
    assert (profiles, len(jobs)) == ([], 3)
    assert all(cost["tasks"] > 0 for job in jobs for cost in json.loads(job.costs).values())


def test_a_run_that_had_not_begun_leaves_nothing(folder: tuple[Run, Path], db: Path) -> None:
    run, out = folder
    journal = (out / "journal").read_bytes()
    ends = [end for _, end in frames(journal)]
    for size in (0, 10, ends[0], ends[1]):
        (out / "journal").write_bytes(journal[:size])
        remember(run, out)
    assert not db.exists()


@pytest.mark.parametrize("name", ["bad.db", "bad.db/beside", "."])
def test_a_database_that_cannot_be_written_is_one_line_and_no_error(
    folder: tuple[Run, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    heard: Callable[[], str], name: str,
) -> None:  # fmt: skip
    (tmp_path / "bad.db").write_bytes(b"x" * 5000)
    monkeypatch.setenv("WARREN_HISTORY", str(tmp_path / name))
    remember(*folder)
    (line,) = heard().splitlines()
    assert line.startswith(f"the history was not kept: {tmp_path / name}: is no usable history ")


def test_an_error_of_the_run_goes_on_after_what_ended_was_kept(
    folder: tuple[Run, Path], db: Path
) -> None:
    full = SpecError(Problem(file="journal", message="disk is full"))
    with pytest.raises(SpecError, match="disk is full"):
        remember(*folder, full)
    assert len(kept(db)[2]) == 3


@pytest.mark.parametrize("options", [(), ("--no-history",)])
def test_a_run_leaves_the_history_alone_when_asked_to(
    warren: Warren, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    asked = Mock(wraps=remembered)
    monkeypatch.setattr(remembering, "remembered", asked)
    train = Mock(side_effect=KeyboardInterrupt)
    monkeypatch.setattr(training, "run_live", train)
    path = write_run(tmp_path / "in", jobs=JOBS)
    assert warren("run", path, "--out", tmp_path / "out", *options).code == 130
    assert [call.kwargs for call in asked.call_args_list] == [{"wanted": not options}]
    assert [call.args[0].history for call in train.call_args_list] == [not options]
