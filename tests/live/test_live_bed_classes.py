"""Classes and shapes of jobs on the links of a testbed: marks, losses, and the same bits."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from bed_worlds import host_of, on_hosts, standing_bed
from live_worlds import drive, hashes, job, of, plain_hashes, shuffled, world

from warren.core.ports import Restart
from warren.live.control.local_engine import LivePort
from warren.live.process.specs import ExecutorRole, ServerRole
from warren.live.testbed.class_counters import sent_bytes
from warren.model.costs import CostTable
from warren.model.decision import Assignment, Shape
from warren.model.events import (
    AnyEvent,
    JobArrived,
    RolledBack,
    RoundsDone,
    ServersMoved,
)
from warren.model.run import Run
from warren.model.testbed import Bed
from warren.model.units import NS_PER_S

pytestmark = [pytest.mark.live, pytest.mark.machine, pytest.mark.usefixtures("can_make_testbeds")]

WIDTH = 5000
MODEL_BYTES = 40 * WIDTH
ROUNDS = 7
RING = 2
JOBS = (
    job(0, rounds=ROUNDS, params={"width": WIDTH}),
    job(1, rounds=ROUNDS, params={"width": WIDTH}, user="bob"),
    job(RING, rounds=ROUNDS, sync="ring", params={"width": WIDTH}),
)
DEVICES = ["h0", "h0", "h1", "h1"]
RANKS = [Assignment(2 * rank + 1, RING, 0, ROUNDS, (rank,)) for rank in range(2)]
"""The ranks of the ring, one on each host."""


@pytest.fixture(scope="module")
def bed(can_make_testbeds: None) -> Iterator[Bed]:
    with standing_bed(2) as made:
        yield made


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    return plain_hashes(tmp_path_factory.mktemp("plain"), JOBS)


def on_bed(folder: Path, *, servers: int = 2) -> tuple[Run, CostTable]:
    run, costs = world(folder, JOBS, len(DEVICES), servers=servers)
    return on_hosts(run, DEVICES), costs


def tasks(run: Run) -> list[Assignment]:
    """All of all jobs; of those with servers on any device."""
    return RANKS + [one for one in shuffled(run, seed=3) if one.job != RING]


def counted(bed: Bed, body: Callable[[], list[AnyEvent]]) -> tuple[list[AnyEvent], list[int]]:
    """What happens, and the bytes of each class that the hosts send meanwhile."""

    def now() -> list[int]:
        each = zip(*(sent_bytes(bed, host) for host in range(2)), strict=True)
        return [sum(counts) for counts in each]

    before = now()
    events = body()
    return events, [after - one for after, one in zip(now(), before, strict=True)]


def test_classes_that_change_each_round_leave_the_bits_and_are_seen_by_the_links(
    bed: Bed, tmp_path: Path, plain: dict[int, str]
) -> None:
    """Job 0 is in classes 1 and 2, job 1 in 3 and 4, the ring in 5 and 6."""
    run, costs = on_bed(tmp_path)

    def body() -> list[AnyEvent]:
        def flip(event: AnyEvent) -> None:
            if isinstance(event, JobArrived):
                port.classify({event.job: 2 * event.job + 1}, {})
            elif isinstance(event, RoundsDone):
                first, second = 2 * event.job + 1, 2 * event.job + 2
                port.classify(
                    {event.job: first if event.round % 2 else second},
                    {} if event.round % 3 else {(0, event.job): first},
                )

        with LivePort(run, costs, tmp_path / "out") as port:
            return drive(port, tasks(run), flip)

    events, sent = counted(bed, body)
    assert hashes(events) == plain
    assert not of(events, RolledBack)
    # Each message of a task is of a job's own class, whichever it was then; some of both.
    assert all(count > MODEL_BYTES / 2 for count in sent[1:7])
    assert sent[7] == 0
    # Before a job is told of its class, and what is larger than small among the rest.
    assert sent[0] < 0.1 * sum(sent)


def test_after_a_loss_all_connections_have_the_class_that_stands(
    bed: Bed, tmp_path: Path, plain: dict[int, str]
) -> None:
    """An executor and a server are killed, then a rank's gang goes with its executor."""
    run, costs = on_bed(tmp_path)
    struck: list[type] = []

    def body() -> list[AnyEvent]:
        def strike(event: AnyEvent) -> None:
            if isinstance(event, RoundsDone) and event.round == 1 and len(struck) < 2:
                kind = ServerRole if struck else ExecutorRole
                for pid, role in port.processes().items():
                    if isinstance(role, kind):
                        struck.append(kind)
                        os.kill(pid, signal.SIGKILL)
                        break

        with LivePort(run, costs, tmp_path / "out") as port:
            port.submit(())
            port.classify(dict.fromkeys(range(len(JOBS)), 5), {})
            return drive(port, tasks(run), strike)

    events, sent = counted(bed, body)
    assert struck == [ExecutorRole, ServerRole]
    assert of(events, RolledBack)
    assert hashes(events) == plain
    assert sent[5] > 0.98 * sum(sent)


def test_a_shape_places_servers_before_their_job_begins_and_moves_them_after(
    bed: Bed, tmp_path: Path, plain: dict[int, str]
) -> None:
    """Job 0 before time zero, job 1 as it arrives. What only binds workers moves nothing; job 0
    leaves host 0 while it trains, and delays, each twice the last, let its new server come."""
    run, costs = on_bed(tmp_path, servers=1)
    at: dict[int, Counter[tuple[int, int | None]]] = {0: Counter(), 1: Counter()}
    shapes = {0: Shape(None, (1, 1, 0), (3, 2, 1)), 1: Shape(None, (0, 1))}
    came: list[AnyEvent] = []

    def look(event: AnyEvent) -> None:
        if isinstance(event, JobArrived) and event.job == 1:
            port.reshape({1: shapes[1]})
        if isinstance(event, ServersMoved):
            came.append(event)
        if not isinstance(event, RoundsDone) or event.job == RING or event.finished:
            return
        if event.round == 0:
            port.reshape({event.job: replace_workers(shapes[event.job])})
            for pid, role in port.processes().items():
                if isinstance(role, ServerRole) and role.job.index == event.job:
                    at[event.job][role.part, host_of(pid)] += 1
            if event.job == 0:
                port.reshape({0: Shape(None, (1,))})
        if event.job == 0 and not came:
            port.delay({0: NS_PER_S // 2 * 2**event.round})

    with LivePort(run, costs, tmp_path / "out") as port:
        port.reshape({0: shapes[0]})
        events = drive(port, tasks(run), look, held=True)
    assert hashes(events) == plain
    assert not of(events, RolledBack)
    assert at == {0: {(0, 1): 1, (1, 1): 1, (2, 0): 1}, 1: {(0, 0): 1, (1, 1): 1}}
    (moved,) = of(events, ServersMoved)
    assert (moved.job, moved.servers) == (0, (1,))
    assert moved.far_bytes > 0


def test_a_run_that_goes_on_learns_what_stands_and_takes_it(
    bed: Bed, tmp_path: Path, plain: dict[int, str]
) -> None:
    """Its jobs had begun, so their servers may be placed: there are none that would move."""
    run, costs = on_bed(tmp_path, servers=1)
    every = (True,) * len(JOBS)
    restart = Restart(
        now_ns=7, rounds_J=(0,) * len(JOBS), arrived_J=every, ended_J=(False,) * len(JOBS)
    )
    at: Counter[tuple[int, int | None]] = Counter()

    def body() -> list[AnyEvent]:
        def look(event: AnyEvent) -> None:
            if isinstance(event, RoundsDone) and event.job == 0 and not at:
                roles = port.processes().items()
                servers = [(pid, one) for pid, one in roles if isinstance(one, ServerRole)]
                at.update((one.part, host_of(pid)) for pid, one in servers if one.job.index == 0)

        port = LivePort(run, costs, tmp_path / "out")
        port.resume(restart)
        with port:
            port.reshape({0: Shape(None, (1, 0))})
            port.classify(dict.fromkeys(range(len(JOBS)), 6), {})
            return drive(port, tasks(run), look)

    events, sent = counted(bed, body)
    assert len(of(events, RolledBack)) == len(JOBS)
    assert hashes(events) == plain
    assert at == {(0, 1): 1, (1, 0): 1}
    assert sent[6] > 0.98 * sum(sent)


def replace_workers(shape: Shape) -> Shape:
    return Shape((0, 1), shape.servers, shape.model_bytes)
