"""An emulated task of a real process takes no less than its pads, and lanes are serial.

How long it takes beyond that hangs on the machine: ``benchmarks/emulated_times.py`` measures it.
``test_live_emulated_times.py`` has the exact times, by a clock of its own. Nothing is computed
again here: beside another worker's tests, that would be more than two cores do.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest
from live_worlds import drive, ended, job, of, world

from warren.live.control.local_engine import LivePort
from warren.model.decision import Assignment
from warren.model.events import AnyEvent, JobArrived, RoundsDone, TasksDone, Woken

pytestmark = pytest.mark.live

COMP_S, SYNC_S, SCALE = 1.0, 0.4, 0.08
"""80 ms and 32 ms of real time: tasks that share two busy cores must fit."""
ROUNDS = 8
ARRIVAL_NS, WAKE_NS = 5_000_000_000, 3_000_000_000


@pytest.fixture(scope="module")
def padded(tmp_path_factory: pytest.TempPathFactory) -> list[AnyEvent]:
    """Two jobs of two tasks take turns on two devices."""
    folder = tmp_path_factory.mktemp("padded")
    jobs = [job(index, rounds=ROUNDS) for index in range(2)]
    run, costs = world(folder, jobs, 2, scale=SCALE, comp_s=COMP_S, sync_s=SYNC_S)
    rows = [
        Assignment(shard, index, round_no, 1, (shard,))
        for round_no in range(ROUNDS)
        for index in range(2)
        for shard in range(2)
    ]
    with LivePort(replace(run, verify=0.0), costs, folder / "out") as port:
        return drive(port, rows)


def test_comp_and_sync_take_no_less_than_the_profile_says(padded: list[AnyEvent]) -> None:
    for row in of(padded, TasksDone):
        assert row.busy_ns >= COMP_S * 1e9
        assert row.time_ns - row.comp_end_ns >= SYNC_S * 1e9
    assert of(padded, RoundsDone)[-1].time_ns >= (2 * ROUNDS * COMP_S + SYNC_S) * 1e9


def test_the_comp_lane_is_serial(padded: list[AnyEvent]) -> None:
    for device in range(2):
        rows = [row for row in of(padded, TasksDone) if row.device == device]
        rows.sort(key=lambda row: row.start_ns)
        assert all(one.comp_end_ns <= after.start_ns for one, after in pairwise(rows))


@pytest.fixture(scope="module")
def long_syncs(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[AnyEvent], Counter[int]]:
    """Device 0: synchronization is longer than COMP, then tasks that are longer than their pad.

    Device 1: a job that arrives later.
    """
    folder = tmp_path_factory.mktemp("long")
    jobs = [
        job(0, rounds=2, scale=4),
        job(1, rounds=2, params={"sleep_s": 0.1}, user="bob"),
        job(2, rounds=1, arrival_ns=ARRIVAL_NS),
    ]
    run, costs = world(folder, jobs, 2, scale=SCALE, comp_s=0.5, sync_s=2.0)
    rows = [Assignment(0, 0, round_no, 1, (0, 1, 2, 3)) for round_no in range(2)]
    rows += [Assignment(0, 1, round_no, 1, (0, 1)) for round_no in range(2)]
    rows += [Assignment(1, 2, 0, 1, (0,)), Assignment(1, 2, 0, 1, (1,))]
    with LivePort(replace(run, verify=0.0), costs, folder / "out") as port:
        port.wake_at(WAKE_NS)
        return drive(port, rows), port.overruns


def test_the_comm_lane_is_serial(long_syncs: tuple[list[AnyEvent], Counter[int]]) -> None:
    events, _ = long_syncs
    for row in of(events, TasksDone, 0):
        assert row.busy_ns >= 4 * 0.5 * 1e9
        assert row.time_ns - row.start_ns >= (0.5 + 4 * 2.0) * 1e9


def test_overruns_are_counted(long_syncs: tuple[list[AnyEvent], Counter[int]]) -> None:
    events, overruns = long_syncs
    assert ended(events) == dict.fromkeys(range(3), "finished")
    assert overruns[1] == 4
    assert all(row.busy_ns / 1e9 >= 2 * 0.1 / SCALE for row in of(events, TasksDone, 1))


def test_arrivals_and_wakes_come_at_their_cluster_times(
    long_syncs: tuple[list[AnyEvent], Counter[int]],
) -> None:
    events, _ = long_syncs
    assert [event.time_ns for event in of(events, JobArrived)] == [0, 0, ARRIVAL_NS]
    assert [event.time_ns for event in of(events, Woken)] == [WAKE_NS]
    first = of(events, TasksDone, 2)[0]
    assert first.start_ns >= ARRIVAL_NS
