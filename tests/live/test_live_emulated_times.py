"""An emulated run in virtual time: its tasks last as long as their pads, as in the simulator.

Real servers, executors and a real controller (``history_world``), and a clock that only moves when
all of them wait. ``test_live_emulation.py`` has the processes; how exactly a machine keeps these
times is measured by ``benchmarks/emulated_times.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import history_world
import pytest
import straggler as slow
from history_jobs import ROUNDS, a_job, reference
from history_modules import virtual_modules
from history_world import Process, VirtualPort, World
from live_worlds import drive, of, virtual

from warren.model.costs import CostTable
from warren.model.decision import Assignment
from warren.model.events import AnyEvent, JobArrived, RoundsDone, TasksDone, Woken
from warren.model.job import Job
from warren.model.run import Run

COMP_S, SYNC_S, SCALE = 1.0, 0.4, 0.08
MS = 1_000_000


class TimedWorld(World):
    """A world in which all that does not wait takes no time; its controller wakes up by itself."""

    def __init__(self, folder: str, scale: int) -> None:
        super().__init__(0, folder, reference("Whole", scale), 1)
        self.slowness, self.waits = 0.0, True
        hears = ("server_says", "server_forked", "task_begins")
        self.watch = SimpleNamespace(**dict.fromkeys(hears, lambda *what: None))

    def wait(self, timeout_ms: float | None) -> None:
        acting, until_ns = self.acting, None
        if timeout_ms is not None:
            until_ns = self.controller.wake_ns = self.now_ns + int(timeout_ms * MS)
        while not acting.poller.ready() and (until_ns is None or self.now_ns < until_ns):
            self.step()
        self.acting = acting

    def sleepers(self) -> Iterable[Process]:
        return [*super().sleepers(), self.controller]


@pytest.fixture(autouse=True, scope="module")
def _virtual() -> Iterator[None]:
    with virtual_modules(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(history_world, "STEP_NS", 2)
        yield


def played(run: Run, costs: CostTable, folder: Path, play: Callable[[VirtualPort], Any]) -> Any:
    """What ``play`` makes of the port of a run in virtual time."""
    world = World.now = TimedWorld(str(folder), run.workload.jobs[0].scale)
    port = VirtualPort(replace(run, sources={}, verify=0.0), costs, folder, warm_limit=0)
    port.world = world
    port.start()
    try:
        return play(port)
    finally:
        world.close()
        port._outputs.close()


def jobs(count: int, scale: int = 2) -> list[Job]:
    one = a_job("Whole", scale, None, None)
    return [replace(one, index=at, name=f"job-{at}") for at in range(count)]


def test_comp_and_sync_last_as_long_as_the_profile_says_and_no_delay_adds_up(
    tmp_path: Path,
) -> None:
    """Two jobs of two tasks take turns: COMP of one hides the synchronization of the other."""
    run, costs = virtual(jobs(2), 2, scale=SCALE, comp_s=COMP_S, sync_s=SYNC_S)
    rows = [
        Assignment(shard, index, round_no, 1, (shard,))
        for round_no in range(ROUNDS)
        for index in range(2)
        for shard in range(2)
    ]
    events: list[AnyEvent] = played(run, costs, tmp_path, lambda port: drive(port, rows))
    done = of(events, TasksDone)
    assert len(done) == 4 * ROUNDS
    for row in done:
        assert row.busy_ns / 1e9 == pytest.approx(COMP_S, rel=1e-3)
        assert (row.end_ns - row.comp_end_ns) / 1e9 == pytest.approx(SYNC_S, rel=1e-3)
    end_s = of(events, RoundsDone)[-1].time_ns / 1e9
    assert end_s == pytest.approx(2 * ROUNDS * COMP_S + SYNC_S, rel=1e-3)


def test_the_comm_lane_is_serial(tmp_path: Path) -> None:
    """Four tasks compute one after another, and are synchronized one after another."""
    (one,) = jobs(1, scale=4)
    run, costs = virtual([one], 1, scale=SCALE, comp_s=0.5, sync_s=2.0)
    rows = [Assignment(0, 0, round_no, 1, (0, 1, 2, 3)) for round_no in range(ROUNDS)]
    events: list[AnyEvent] = played(run, costs, tmp_path, lambda port: drive(port, rows))
    for row in of(events, TasksDone):
        assert row.busy_ns / 1e9 == pytest.approx(4 * 0.5, rel=1e-3)
        assert (row.end_ns - row.start_ns) / 1e9 == pytest.approx(0.5 + 4 * 2.0, rel=1e-3)


def test_arrivals_and_wakes_come_at_their_cluster_times(tmp_path: Path) -> None:
    arrival_ns, wake_ns = 2_000_000_000, 3_000_000_000
    first, late = jobs(2)
    late = replace(late, arrival_ns=arrival_ns)
    run, costs = virtual([first, late], 2, scale=SCALE, comp_s=COMP_S)

    def play(port: VirtualPort) -> list[AnyEvent]:
        port.wake_at(wake_ns)
        return drive(port, [Assignment(j, j, 0, ROUNDS, (0, 1)) for j in range(2)])

    events: list[AnyEvent] = played(run, costs, tmp_path, play)
    assert [event.time_ns for event in of(events, JobArrived)] == [0, arrival_ns]
    assert [event.time_ns for event in of(events, Woken)] == [wake_ns]
    begins_ns = min(row.start_ns for row in of(events, TasksDone, 1))
    assert begins_ns == pytest.approx(arrival_ns, rel=1e-3)


@pytest.mark.parametrize("stretch", [1, ROUNDS])
def test_a_round_delay_counts_once(stretch: int, tmp_path: Path) -> None:
    """Round 2 begins later by the delay. Its tasks last as long as ever, and so do later rounds."""
    delay_s, round_s = 3.0, COMP_S + SYNC_S
    run, costs = virtual(jobs(1), 2, scale=SCALE, comp_s=COMP_S, sync_s=SYNC_S)
    rows = [Assignment(s, 0, n, stretch, (s,)) for n in range(0, ROUNDS, stretch) for s in (0, 1)]

    def play(port: VirtualPort) -> list[AnyEvent]:
        def watch(event: AnyEvent) -> None:
            if isinstance(event, RoundsDone) and event.round == 0:
                port.delay({0: int(delay_s * 1e9)})  # of the round behind the next barrier

        return drive(port, rows, watch)

    events: list[AnyEvent] = played(run, costs, tmp_path, play)
    ends_s = [event.barrier_ns / 1e9 for event in of(events, RoundsDone)]
    begins_s = [n * round_s + (delay_s if n >= 2 else 0.0) for n in range(ROUNDS)]
    assert ends_s == pytest.approx([begin_s + round_s for begin_s in begins_s], rel=1e-3)
    for row in of(events, TasksDone):
        assert row.start_ns / 1e9 == pytest.approx(begins_s[row.round], rel=1e-3)
        assert row.rounds > 1 or row.busy_ns / 1e9 == pytest.approx(COMP_S, rel=1e-3)


def straggler(after: float | None) -> tuple[Run, CostTable]:
    told = virtual(jobs(1), 2, scale=SCALE, comp_s=slow.COMP_S, sync_s=slow.SYNC_S)
    return slow.with_straggler(told, after)


@pytest.mark.parametrize("after", [None, 2.0])
def test_a_straggler_costs_as_much_as_simulated_with_copies_and_without(
    after: float | None, tmp_path: Path
) -> None:
    run, costs = straggler(after)
    expected = slow.simulated((run, costs))
    found = played(run, costs, tmp_path, lambda port: slow.history_of((run, costs), port))
    assert found.saved[0].sha256 == reference("Whole", 2).sha256[-1]
    assert len(found.timeline) == 2 * ROUNDS
    assert (found.copies, found.copies_won) == (expected.copies, expected.copies_won)
    assert (found.copies_won > 0) == (after is not None)
    assert found.finish_ns_J[0] == pytest.approx(expected.finish_ns_J[0], rel=1e-3)


def test_with_copies_a_straggler_costs_less_than_half() -> None:
    without, copied = (slow.simulated(straggler(after)) for after in (None, 2.0))
    assert copied.finish_ns_J[0] < 0.5 * without.finish_ns_J[0]
