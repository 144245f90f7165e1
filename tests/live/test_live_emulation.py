"""An emulated device keeps the times of its pads."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from live_worlds import drive, ended, job, of, shuffled, world

from warren.live.controller import LivePort
from warren.model.events import AnyEvent, RoundsDone, TasksDone
from warren.model.plan import Assignment

pytestmark = pytest.mark.live

COMP_S, SYNC_S, SCALE = 1.0, 0.4, 0.04
"""40 ms and 16 ms of real time."""
ROUNDS = 12


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
    with LivePort(run, costs, folder / "out") as port:
        return drive(port, rows)


def _seconds(times_ns: list[int]) -> list[float]:
    return sorted(time / 1e9 for time in times_ns)


def test_comp_and_sync_last_as_long_as_the_profile_says(padded: list[AnyEvent]) -> None:
    rows = of(padded, TasksDone)
    comp = _seconds([row.busy_ns for row in rows])
    sync = _seconds([row.time_ns - row.comp_end_ns for row in rows])
    assert comp[len(comp) // 2] == pytest.approx(COMP_S, rel=0.01)
    assert sync[len(sync) // 2] == pytest.approx(SYNC_S, rel=0.02)


def test_delays_of_messages_do_not_add_up(padded: list[AnyEvent]) -> None:
    # COMP hides the other job's synchronisation, so the devices never wait.
    end_s = of(padded, RoundsDone)[-1].time_ns / 1e9
    assert end_s == pytest.approx(2 * ROUNDS * COMP_S + SYNC_S, rel=0.03)


def test_the_comp_lane_is_serial(padded: list[AnyEvent]) -> None:
    for device in range(2):
        rows = [row for row in of(padded, TasksDone) if row.device == device]
        rows.sort(key=lambda row: row.start_ns)
        assert all(one.comp_end_ns <= after.start_ns for one, after in pairwise(rows))


def test_the_comm_lane_is_serial_and_overruns_are_counted(tmp_path: Path) -> None:
    # Synchronisation is longer than COMP here, so it queues: one every SYNC_S at best.
    jobs = [job(0, rounds=3, scale=4), job(1, rounds=2, params={"sleep_s": 0.05}, user="bob")]
    run, costs = world(tmp_path, jobs, 1, scale=SCALE, comp_s=0.5, sync_s=2.0)
    rows = [Assignment(0, 0, round_no, 1, (0, 1, 2, 3)) for round_no in range(3)]
    rows += [Assignment(0, 1, round_no, 1, (0, 1)) for round_no in range(2)]
    with LivePort(run, costs, tmp_path / "out") as port:
        events = drive(port, rows)
        overruns = port.overruns
    assert ended(events) == {0: "finished", 1: "finished"}
    first = of(events, TasksDone, 0)[0]
    assert first.busy_ns / 1e9 == pytest.approx(4 * 0.5, rel=0.05)
    assert first.time_ns / 1e9 == pytest.approx(0.5 + 4 * 2.0, rel=0.05)
    assert overruns[1] == 4
    assert overruns[0] == 0


def test_an_arrival_comes_at_its_cluster_time(tmp_path: Path) -> None:
    jobs = [job(0, rounds=1), job(1, rounds=1, arrival_ns=5_000_000_000)]
    run, costs = world(tmp_path, jobs, 1, scale=SCALE, comp_s=COMP_S, sync_s=SYNC_S)
    with LivePort(run, costs, tmp_path / "out") as port:
        port.wake_at(3_000_000_000)
        events = drive(port, shuffled(run, seed=2))
    starts = [row.start_ns for row in of(events, TasksDone, 1)]
    assert min(starts) == pytest.approx(5e9, rel=0.01)
    times = {type(event).__name__: event.time_ns for event in events}
    assert times["JobArrived"] == 5_000_000_000
    assert times["Woken"] == 3_000_000_000
