"""Rounds that begin later than they could: when tasks start, the same bits, losses meanwhile."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from live_worlds import accepted, drive, ended, hashes, job, of, world

from warren.live.control.local_engine import LivePort
from warren.live.control.plain_engine import PlainPort
from warren.live.control.ring_gangs import GangManager
from warren.live.process.specs import RankRole, ServerRole
from warren.live.transport.ring_messages import GangReady
from warren.model.decision import Assignment
from warren.model.events import AnyEvent, JobArrived, RolledBack, RoundsDone
from warren.model.units import NS_PER_S

pytestmark = pytest.mark.live

ROUNDS = 5
RING = 1
JOBS = (job(0, rounds=ROUNDS), job(RING, rounds=ROUNDS, sync="ring"))
DELAY_NS = NS_PER_S // 4
LONG_NS = 86_400 * NS_PER_S
"""Of a delay that is void: a test that had to wait for it would not end."""


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    folder = tmp_path_factory.mktemp("plain")
    run, _ = world(folder, JOBS, 1)
    with PlainPort(run, folder / "out") as port:
        return hashes(drive(port, [Assignment(0, j, 0, ROUNDS, (0, 1)) for j in range(2)]))


def tasks(stretch: int) -> list[Assignment]:
    """Rounds of each job in stretches, each task on a device of its own."""
    return [
        Assignment(2 * job + shard, job, first, min(stretch, ROUNDS - first), (shard,))
        for first in range(0, ROUNDS, stretch)
        for job in range(2)
        for shard in range(2)
    ]


def delayer(port: LivePort, delay_ns: int) -> Callable[[AnyEvent], None]:
    """Delays the next round of a job when it arrives and at each of its barriers."""

    def watch(event: AnyEvent) -> None:
        if isinstance(event, JobArrived) or (isinstance(event, RoundsDone) and not event.finished):
            port.delay({event.job: delay_ns})

    return watch


@pytest.mark.parametrize(("stretch", "servers", "scale"), [(1, 1, None), (2, 2, None), (1, 2, 0.5)])
def test_each_round_begins_so_long_after_the_barrier_and_bits_are_the_same(
    plain: dict[int, str], tmp_path: Path, stretch: int, servers: int, scale: float | None
) -> None:
    """In an emulated run, too, by its own time.

    Answers come before the tasks of their rounds, but inside a stretch: those have a whole delay.
    """
    run, costs = world(tmp_path, JOBS, 4, servers=servers, scale=scale, comp_s=0.02 * bool(scale))
    with LivePort(run, costs, tmp_path / "out") as port:
        events = drive(port, tasks(stretch), delayer(port, DELAY_NS), held=True)
    assert ended(events) == {0: "finished", 1: "finished"}
    assert hashes(events) == plain
    for one in range(2):
        barriers = [event.barrier_ns for event in of(events, RoundsDone, one)]
        assert len(barriers) == ROUNDS
        for after in range(1, ROUNDS):
            assert barriers[after] >= barriers[after - 1] + DELAY_NS
        for row in accepted(events):
            if row.job == one and row.round >= 1:
                assert row.start_ns >= barriers[row.round - 1] + DELAY_NS


def test_a_ring_is_delayed_whose_first_barrier_passes_before_the_controller_knows_its_gang(
    plain: dict[int, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ranks are forked with what was decided before."""
    ready, told = GangManager.ready, dict[int, tuple[GangManager, bytes, GangReady]]()

    def kept_back(gangs: GangManager, peer: bytes, said: GangReady) -> None:
        told[said.job] = (gangs, peer, said)

    def watch(event: AnyEvent) -> None:
        delay(event)
        if isinstance(event, RoundsDone) and event.job in told:
            ready(*told.pop(event.job))

    monkeypatch.setattr(GangManager, "ready", kept_back)
    run, costs = world(tmp_path, JOBS, 4)
    with LivePort(run, costs, tmp_path / "out") as port:
        delay = delayer(port, DELAY_NS)
        events = drive(port, tasks(1), watch, held=True)
    assert not told
    assert hashes(events) == plain
    first_ns, second_ns, *_ = (event.barrier_ns for event in of(events, RoundsDone, RING))
    assert second_ns >= first_ns + DELAY_NS


@pytest.mark.parametrize("kind", [ServerRole, RankRole])
def test_what_holds_a_round_may_be_lost_and_the_delay_is_void(
    plain: dict[int, str], tmp_path: Path, kind: type
) -> None:
    """The delay is of a day; the job goes back and is over."""
    which = RING if kind is RankRole else 0
    run, costs = world(tmp_path, JOBS, 4)
    told: list[int] = []

    def watch(event: AnyEvent) -> None:
        if isinstance(event, JobArrived) and event.job == which:
            # So that the answer below comes before the next barrier.
            port.delay({which: DELAY_NS})
        if not isinstance(event, RoundsDone) or event.job != which:
            return
        told.append(event.round)
        if len(told) == 1:
            port.delay({which: LONG_NS})
        if len(told) == 2:
            # The barrier after the answer: the next round is held, or will be by the next one.
            pids = [
                pid
                for pid, role in port.processes().items()
                if isinstance(role, kind) and role.job.index == which  # type: ignore[attr-defined]
            ]
            time.sleep(0.2)
            os.kill(pids[-1], signal.SIGKILL)

    with LivePort(run, costs, tmp_path / "out") as port:
        events = drive(port, tasks(1), watch, held=True)
    assert [event.job for event in of(events, RolledBack)] == [which]
    assert ended(events) == {0: "finished", 1: "finished"}
    assert hashes(events) == plain


def test_a_delay_that_the_last_barrier_meets_holds_nobody(tmp_path: Path) -> None:
    run, costs = world(tmp_path, JOBS, 4)

    def watch(event: AnyEvent) -> None:
        if isinstance(event, RoundsDone) and not event.finished:
            port.delay({event.job: LONG_NS if event.round == ROUNDS - 2 else DELAY_NS})

    with LivePort(run, costs, tmp_path / "out") as port:
        events = drive(port, tasks(1), watch, held=True)
    assert ended(events) == {0: "finished", 1: "finished"}
