"""Same job, any schedule, same bits: the local engine against the plain one."""

from __future__ import annotations

import csv
from itertools import pairwise
from pathlib import Path

import pytest
from live_worlds import drive, ended, hashes, job, of, shuffled, world
from safetensors.numpy import load_file

from warren.live.control.local_engine import LivePort
from warren.live.control.plain_engine import PlainPort
from warren.model.decision import Assignment
from warren.model.events import AnyEvent, JobArrived, RoundsDone, TasksDone
from warren.model.job import Evaluate, Job, Stop

pytestmark = pytest.mark.live

JOBS = (
    job(0),
    # Wide enough that its buffers travel without being copied.
    job(
        1,
        scale=3,
        params={"width": 6000},
        arrival_ns=20_000_000,
        user="bob",
        evaluate=Evaluate(every=2),
    ),
    # Its metric falls below the target after some rounds: when, must not depend on the schedule.
    job(2, rounds=None, scale=1, stop=Stop(metric="mse", falls_to=2.0), params={"width": 16}),
)
ROUNDS = 30


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[AnyEvent]]:
    folder = tmp_path_factory.mktemp("plain")
    run, _ = world(folder, JOBS, 1)
    whole = [
        Assignment(0, one.index, 0, one.rounds or ROUNDS, tuple(range(one.scale))) for one in JOBS
    ]
    with PlainPort(run, folder / "out") as port:
        return folder / "out", drive(port, whole)


def test_the_plain_engine_answers_one_assignment_a_job(
    plain: tuple[Path, list[AnyEvent]],
) -> None:
    _, events = plain
    assert ended(events) == dict.fromkeys(range(3), "finished")
    rows = of(events, TasksDone)
    assert [row.job for row in rows] == [0, 1, 2]
    assert all(one.time_ns <= after.start_ns for one, after in pairwise(rows))
    assert of(events, RoundsDone, 2)[0].rounds < ROUNDS


@pytest.mark.parametrize(("devices", "servers"), [(1, 1), (2, 1), (3, 1), (2, 2), (2, 5)])
def test_any_schedule_on_any_servers_gives_the_bits_of_the_plain_engine(
    plain: tuple[Path, list[AnyEvent]], tmp_path: Path, devices: int, servers: int
) -> None:
    out, expected = plain
    run, costs = world(tmp_path, JOBS, devices, servers=servers)
    with LivePort(run, costs, tmp_path / "out") as port:
        events = drive(port, shuffled(run, seed=devices, rounds_of={2: ROUNDS}))
    assert ended(events) == dict.fromkeys(range(3), "finished")
    assert hashes(events) == hashes(expected)
    _in_order(events, devices)
    for one in JOBS:
        _same_files(out, tmp_path / "out", one)
        assert _outcome(events, one.index) == _outcome(expected, one.index)


def _same_files(one: Path, other: Path, which: Job) -> None:
    name = f"params/{which.name}.safetensors"
    a, b = load_file(one / name), load_file(other / name)
    assert a.keys() == b.keys()
    assert all(a[key].tobytes() == b[key].tobytes() for key in a)
    assert _metrics(one, which) == _metrics(other, which)


def _metrics(out: Path, which: Job) -> list[dict[str, str]]:
    rows = csv.DictReader((out / f"metrics/{which.name}.csv").read_text().splitlines())
    return [{key: value for key, value in row.items() if key != "time_s"} for row in rows]


def _outcome(events: list[AnyEvent], index: int) -> tuple[int, float | None, object]:
    last = of(events, RoundsDone, index)[-1]
    return last.round + last.rounds, last.loss, last.metrics


def _in_order(events: list[AnyEvent], devices: int) -> None:
    """Times never go back, lanes are serial, no task starts before its round is open."""
    times = [event.time_ns for event in events]
    assert times == sorted(times)
    for device in range(devices):
        rows = [row for row in of(events, TasksDone) if row.device == device]
        rows.sort(key=lambda row: row.start_ns)
        assert all(one.comp_end_ns <= after.start_ns for one, after in pairwise(rows))
        assert all(row.busy_ns == row.comp_end_ns - row.start_ns > 0 for row in rows)
    arrived = {event.job: event.time_ns for event in of(events, JobArrived)}
    assert arrived == {one.index: one.arrival_ns for one in JOBS}
    passed = {(e.job, e.round): e.barrier_ns for e in of(events, RoundsDone)}
    for row in of(events, TasksDone):
        assert row.start_ns >= passed.get((row.job, row.round - 1), arrived[row.job])
        assert row.end_ns <= passed[row.job, row.round]
