"""``warren calibrate``: files that other commands read, made by the real engine of this machine."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from cli_runs import CHECKOUT, Warren, write_run

from warren.model.costs import ProfileRow
from warren.model.events import TasksDone
from warren.profile.published import BATCHES
from warren.runs.calibration import engine_overheads as calibrating
from warren.runs.calibration.phases import CalibrationPhase, run_phases
from warren.runs.calibration.profile_rows import switch_time_ns, with_build
from warren.store.files import read
from warren.workload.run_file import load_cluster, load_run

pytestmark = pytest.mark.live

APPS = f"{CHECKOUT}/tests/cli/drawn_apps.py"
CLUSTER = """\
hosts: [{name: h, devices: {CPU: 2}}]
engine: local
"""
JOBS = f"""\
- {{name: a, app: {APPS}:Sides, scale: 2, rounds: 6, batch: 16}}
- {{name: b, app: {APPS}:Line, rounds: 8, batch: 64}}
- {{name: c, app: {APPS}:Line, model: my-net, rounds: 2, batch: 64}}
"""


@pytest.fixture(autouse=True)
def _own_history_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARREN_HISTORY", str(tmp_path / "history.db"))


def test_phases_come_to_rest_and_give_tasks_and_processor_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = {kind: calibrating._KINDS[kind] for kind in ("empty", "net", "ring")}
    monkeypatch.setattr(calibrating, "_KINDS", used)
    monkeypatch.setattr(calibrating, "REPEATS", 0)
    run, of_kind = calibrating._run(2, pin=False)
    small, steady = of_kind["empty"], of_kind["net"]
    phases = [
        CalibrationPhase(name="warm", jobs=(*small, *steady), devices=2, rounds=2),
        CalibrationPhase(name="small", jobs=small, devices=2, rounds=10),
        CalibrationPhase(name="steady", jobs=steady[:1], devices=1, rounds=10),
        CalibrationPhase(name="in turn", jobs=small[:2], devices=1, rounds=4, together=2),
        CalibrationPhase(name="moved", jobs=of_kind["ring"][:1], devices=2, rounds=2, turning=True),
    ]
    begun: list[int] = []
    begin_ns = time.monotonic_ns()
    samples, numerics, built_ns = run_phases(
        run, phases, begun.append, str(tmp_path / "out"), warm=True
    )
    whole_ns = time.monotonic_ns() - begin_ns
    assert begun == [1, 2, 3, 4, 5]
    assert "torch" in numerics
    assert {*small, *steady} <= built_ns.keys()
    assert all(10**6 < took_ns < whole_ns for took_ns in built_ns.values())
    assert [len(one.tasks) for one in samples] == [2 * (len(small) + 4), 10 * len(small), 10, 8, 4]
    ranks = sorted((task.round, task.shards, task.device) for task in samples.pop().tasks)
    assert ranks == [(0, (0,), 0), (0, (1,), 1), (1, (0,), 1), (1, (1,), 0)]
    in_turn = sorted(samples.pop().tasks, key=lambda task: task.start_ns)
    assert [task.job for task in in_turn] == [*small[:1] * 2, *small[1:2] * 2] * 2
    for before, after in pairwise(samples):
        end_ns = max(task.end_ns for task in before.tasks)
        assert end_ns < min(task.start_ns for task in after.tasks)
    # The steady task computes for milliseconds, the other one hardly at all.
    each = [one.trainers_ns / len(one.tasks) for one in samples[1:]]
    assert each[1] > 2 * each[0] > 0
    # On a core for no longer than it took, whatever else the machine does; and for milliseconds.
    assert 10**6 < each[1] < 1.5 * median_busy(samples[2].tasks)
    assert all(one.own_ns > 0 for one in samples)


def median_busy(tasks: list) -> int:  # type: ignore[type-arg]
    return sorted(task.busy_ns for task in tasks)[len(tasks) // 2]


def short_phases(
    devices: int, of: Mapping[str, tuple[int, ...]], repeat: int, every: Any = calibrating._phases
) -> list[CalibrationPhase]:
    """All phases of a repeat, with a third of the rounds."""
    phases = every(devices, of, repeat)
    return [replace(one, rounds=max(2, one.rounds // 3)) for one in phases]


def test_the_constants_of_this_machine_go_into_a_file_that_a_cluster_names(
    warren: Warren, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibrating, "REPEATS", 1)
    monkeypatch.setattr(calibrating, "_phases", short_phases)
    out = tmp_path / "machine.yaml"
    begin_ns = time.monotonic_ns()
    found = warren("calibrate", "--local", "--out", out, "--json")
    whole_ns = time.monotonic_ns() - begin_ns
    assert found.code == 0, found.err
    assert found.json == yaml.safe_load(out.read_text())
    assert [line for line in found.err if line.startswith("repeat")] == [
        "repeat 1 of 2",
        "repeat 2 of 2",
    ]
    (tmp_path / "c.yaml").write_text(CLUSTER + "overheads: machine.yaml\n")
    overheads = load_cluster(str(tmp_path / "c.yaml"), read).overheads
    assert overheads is not None
    assert overheads.cores == len(os.sched_getaffinity(0))
    # More than any process can do, which is 10 us, and less than all took together.
    assert 10_000 < overheads.dispatch_ns < whole_ns
    assert 10_000 < overheads.task_cpu_ns + overheads.round_cpu_ns < whole_ns
    assert overheads.slowdown >= 1
    # A process is forked and builds a small app, which takes a millisecond at least.
    assert 10**6 < overheads.ring_start_ns + overheads.ring_rank_ns < whole_ns
    assert overheads.of_tasks
    assert overheads.of_gangs
    told = found.json["constants"]
    assert {"task_alone", "task_busy", "barrier", "barrier_decided", "step"} <= told.keys()
    assert 0 <= found.json["machine"]["busy_before"] <= 1


def test_rows_of_a_run_are_measured_once_and_then_stand_in_its_profiles(
    warren: Warren, tmp_path: Path
) -> None:
    path = write_run(tmp_path / "in", cluster=CLUSTER, jobs=JOBS)
    out = tmp_path / "in" / "rows.yaml"
    my_net = "profiles={my-net: {model: 1 MB, comp: {CPU: 1 ms}}}"
    begin_s = time.monotonic()
    found = warren(
        "calibrate", "--local", "--jobs", path, "--set", my_net, "-o", out, "--tasks", "3"
    )
    whole_s = time.monotonic() - begin_s
    assert found.code == 0, found.err
    assert found.out == ""
    rows = yaml.safe_load(out.read_text())
    assert rows.keys() == {"format", "measured:a", "measured:b"}
    assert rows["measured:a"]["batch"] == 16
    assert rows["measured:a"]["model"] > 0
    assert 1e-5 < rows["measured:a"]["overhead"]["CPU"] < whole_s
    assert 0 <= rows["measured:a"]["switch"]["CPU"] == rows["measured:b"]["switch"]["CPU"] < whole_s
    assert 1e-3 < rows["measured:a"]["build"]["CPU"] < whole_s
    with_rows = "profiles=rows.yaml"
    drop = "workload.jobs=two.yaml"
    (tmp_path / "in" / "two.yaml").write_text("\n".join(JOBS.splitlines()[:2]))
    run = load_run(path, read, {"profiles": "rows.yaml", "workload.jobs": "two.yaml"}, BATCHES)
    assert {row.model for row in run.profiles} == {"measured:a", "measured:b"}
    told = warren("simulate", path, "--set", with_rows, "--set", drop, "--json")
    assert told.code == 0, told.err
    assert not any("measuring" in line for line in told.err)
    a_s = 6 * (2 * rows["measured:a"]["comp"]["CPU"] + rows["measured:a"]["sync"]["CPU"])
    b_s = 8 * (rows["measured:b"]["comp"]["CPU"] + rows["measured:b"]["sync"]["CPU"])
    assert 0 < told.json["makespan_s"] <= a_s + b_s
    slower = "cluster.overheads={constants: {cores: 2, dispatch: 1 s}}"
    raised = warren("simulate", path, "--set", with_rows, "--set", drop, "--set", slower, "--json")
    assert raised.json["makespan_s"] > 6 + told.json["makespan_s"]
    assert raised.json["lower_bound"] is None
    assert "overheads" in raised.json["gap_reason"]
    folder = tmp_path / "raised"
    options = ["--set", with_rows, "--set", drop, "--set", slower, "--out", folder]
    assert warren("simulate", path, *options).code == 0
    checked = warren("report", folder, "--check")
    assert checked.code == 0, checked.out


def test_a_trainer_that_was_not_there_leaves_its_row_without_a_time_to_build(tiny: str) -> None:
    run = load_run(tiny, read, {}, BATCHES)
    row = ProfileRow(
        model="m", batch=1, model_bytes=1, memory_bytes=0, comp_s={"CPU": 1.0}, sync_s={}, source={}
    )
    assert with_build(run, row, None) == row
    assert run.cluster.emulate is not None  # rows are in the cluster's seconds
    assert with_build(run, row, 5e8).build_s == {"CPU": 0.5 / run.cluster.emulate.time_scale}


def done(job: int, start_ns: int, busy_ns: int) -> TasksDone:
    end_ns = start_ns + busy_ns
    return TasksDone(end_ns, job, 0, 1, (0,), 0, start_ns, end_ns, busy_ns)


def turns(*runs: tuple[int, tuple[int, ...]]) -> list[TasksDone]:
    tasks = [(job, busy_ns) for job, times in runs for busy_ns in times]
    return [done(job, 1000 * at, busy_ns) for at, (job, busy_ns) in enumerate(tasks)]


def test_a_switch_is_what_the_first_task_of_a_turn_takes_longer_than_the_others() -> None:
    assert switch_time_ns([turns((0, (99, 50)), (1, (60, 52, 48)), (0, (59, 51, 49)))]) == 9.5
    # A machine that becomes slower by turns, and one turn that was disturbed.
    slower = turns((0, (99, 99)), *((k % 2, (14 * k, 10 * k)) for k in range(1, 8)))
    assert switch_time_ns([slower]) == 16
    disturbed = turns((0, (9, 9)), (1, (900, 5)), (0, (12, 10)), (1, (12, 10)), (0, (12, 10)))
    assert switch_time_ns([disturbed]) == 2


def test_a_switch_takes_no_less_than_nothing_and_one_job_has_none() -> None:
    assert switch_time_ns([turns((0, (9, 9)), (1, (5, 10)))]) == 0
    assert switch_time_ns([turns((0, (9, 9, 9)))]) is None
    assert switch_time_ns([]) is None


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "calibrate: --local: is missing; allowed: --local, or --rings"),
        (["--local", "--set", "seed=1"], "calibrate: --set: needs --jobs RUN.yaml"),
        (["--local", "--jobs", "none.yaml"], "none.yaml: cannot be read"),
        (["--local", "--tasks", "2"], "--tasks: must be at least 3, got '2'"),
    ],
)
def test_wrong_options_say_what_is_allowed(warren: Warren, options: list[str], said: str) -> None:
    found = warren("calibrate", *options)
    assert found.code == 2
    assert said in "\n".join(found.err)


def test_a_run_without_a_job_to_measure_is_refused(warren: Warren, tiny: str) -> None:
    found = warren("calibrate", "--local", "--jobs", tiny)
    assert found.code == 2
    assert found.err == [
        f"warren: {tiny}: workload.jobs: nothing to measure: no job has an app without model and "
        "cost"
    ]
