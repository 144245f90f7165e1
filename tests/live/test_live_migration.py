"""Blocks that migrate between servers while their job trains: same bits, and nothing is lost."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from live_worlds import accepted, drive, ended, job, of, shuffled, treat_devices_as_gpus, world

from warren.live.control.local_engine import LivePort
from warren.live.control.plain_engine import PlainPort
from warren.live.process.specs import ServerRole
from warren.model.decision import Assignment, Shape
from warren.model.events import (
    AnyEvent,
    JobFailed,
    ParamsSaved,
    RolledBack,
    RoundsDone,
    ServersMoved,
    Woken,
)
from warren.model.job import Checkpoint, Evaluate, Job
from warren.model.run import Run
from warren.model.units import NS_PER_S

pytestmark = pytest.mark.live

ROUNDS = 18
LOSSES = 6
"""Servers are lost in so many first rounds of a job that has twice as many."""
JOBS = (
    job(0, rounds=ROUNDS, evaluate=Evaluate(every=7)),
    job(1, rounds=ROUNDS, params={"width": 6000}),  # its states lie in shared memory
    job(2, "Slow", rounds=ROUNDS, params={"sleep_s": 0.002}, checkpoint=Checkpoint(every=6)),
)


def plain_bits(run: Run, folder: Path, rounds: int = ROUNDS) -> dict[int, str]:
    with PlainPort(run, folder) as port:
        return bits(
            drive(port, [Assignment(0, one.index, 0, rounds, (0, 1)) for one in run.workload.jobs])
        )


def bits(events: list[AnyEvent]) -> dict[int, str]:
    return {event.job: event.sha256 for event in of(events, ParamsSaved)}


def mover(port: LivePort, seed: int, every: int = 1) -> Callable[[AnyEvent], None]:
    """At barriers, lets a job have another number of servers, or other parts of the model there."""
    draw = random.Random(seed)

    def watch(event: AnyEvent) -> None:
        if isinstance(event, RoundsDone) and not event.finished and event.round % every == 0:
            servers = draw.randint(1, 3)
            sizes = tuple(draw.randint(0, 5) for _ in range(servers))
            stated = sizes if sum(sizes) and draw.random() < 0.7 else None
            port.reshape({event.job: Shape(None, (0,) * servers, stated)})

    return watch


def longer(event: RoundsDone) -> int:
    """A delay that gives servers time to come, which a busy machine makes long."""
    return NS_PER_S // 4 * 2 ** min(6, event.round // 2)


@pytest.mark.parametrize(("seed", "devices", "gpus"), [(1, 2, False), (2, 4, False), (3, 2, True)])
def test_a_job_whose_blocks_migrate_again_and_again_has_the_bits_of_the_plain_loop(
    seed: int, devices: int, gpus: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every shape is answered as soon as the one before it stands, or sooner: the last counts."""
    run, costs = world(tmp_path, JOBS, devices)
    expected = plain_bits(run, tmp_path / "plain")
    if gpus:  # each server keeps its part on one of them
        treat_devices_as_gpus(monkeypatch)
        run = replace(run, scheduler=replace(run.scheduler, shape="cruise"))
    with LivePort(run, costs, tmp_path / "out") as port:
        events = drive(port, shuffled(run, seed), mover(port, seed), held=True)
    assert bits(events) == expected
    assert not of(events, RolledBack)
    moves = Counter(event.job for event in of(events, ServersMoved) if not event.reason)
    # Ten and more where the machine has nothing else to do: heirs take time to come up.
    assert sum(moves.values()) >= 4, moves
    tasks = [(row.job, row.round, row.shards) for row in accepted(events)]
    assert len(set(tasks)) == len(tasks) == len(JOBS) * ROUNDS * 2


@pytest.mark.parametrize("scale", [0.5])
def test_emulated_tasks_go_on_where_blocks_migrate(scale: float, tmp_path: Path) -> None:
    run, costs = world(tmp_path, JOBS[:2], 3, scale=scale, comp_s=0.01, sync_s=0.01)
    expected = plain_bits(run, tmp_path / "plain")
    with LivePort(run, costs, tmp_path / "out") as port:
        events = drive(port, shuffled(run, 5), mover(port, 5, every=3), held=True)
    assert bits(events) == expected
    assert of(events, ServersMoved)


def loser(port: LivePort, seed: int, kills: int) -> Callable[[AnyEvent], None]:
    """Kills servers at some barriers, while blocks of their job migrate.

    At first all, so that who serves is among them, then an old one or a new one.
    """
    draw, move = random.Random(seed), mover(port, seed)
    at = draw.sample(range(LOSSES), kills)

    def watch(event: AnyEvent) -> None:
        move(event)
        if isinstance(event, RoundsDone) and event.job == 2 and event.round in at:
            first = len(at) == kills
            at.remove(event.round)
            port.delay({2: NS_PER_S // 5})
            roles = port.processes().items()
            servers = [
                pid for pid, role in roles if isinstance(role, ServerRole) and role.job.index == 2
            ]
            for pid in servers if first else [draw.choice(servers)]:
                with contextlib.suppress(ProcessLookupError):  # it has ended
                    os.kill(pid, signal.SIGKILL)

    return watch


@pytest.mark.parametrize("seed", range(2))
def test_a_server_that_is_lost_on_the_way_costs_rounds_and_no_bits(
    seed: int, tmp_path: Path
) -> None:
    run, costs = world(tmp_path, [replace(one, rounds=2 * LOSSES) for one in JOBS], 3)
    expected = plain_bits(run, tmp_path / "plain", 2 * LOSSES)
    with LivePort(run, costs, tmp_path / "out") as port:
        events = drive(port, shuffled(run, seed), loser(port, seed, kills=2), held=True)
    assert not of(events, JobFailed)
    assert bits(events) == expected
    assert {event.job for event in of(events, RolledBack)} == {2}
    assert [event for event in of(events, ServersMoved) if not event.reason]


def test_heirs_that_do_not_come_up_leave_the_servers_where_they_are(tmp_path: Path) -> None:
    """The first shape is void and costs no round; the same one, answered again, stands."""
    one = job(0, "Slow", rounds=20, params={"build_s": 0.6})
    run, costs = world(tmp_path, (one,), 2)
    expected = plain_bits(run, tmp_path / "plain", 20)
    shape = Shape(None, (0, 0), (1, 2))

    def watch(event: AnyEvent) -> None:
        roles = port.processes().items()
        heirs = [pid for pid, role in roles if isinstance(role, ServerRole) and role.donors]
        if heirs and not struck:
            struck.append(heirs[-1])
            os.kill(heirs[-1], signal.SIGKILL)
        if isinstance(event, RoundsDone) and event.round == 0:
            port.reshape({0: shape})
        if isinstance(event, RoundsDone) and not event.finished and len(moves) < 2:
            port.delay({0: longer(event)})
        if isinstance(event, ServersMoved):
            moves.append(event)
            if event.reason:
                port.reshape({0: shape})

    moves: list[ServersMoved] = []
    struck: list[int] = []
    with LivePort(run, costs, tmp_path / "out") as port:
        events = drive(port, shuffled(run, 1), watch, held=True)
    assert bits(events) == expected
    assert not of(events, RolledBack)
    void, stands = moves
    assert (void.servers, void.reason) == ((0,), "a new one ended: killed by SIGKILL")
    assert (stands.servers, stands.model_bytes, stands.reason) == ((0, 0), (1, 2), "")


def test_a_job_that_cannot_have_several_servers_goes_on_with_the_one_it_has(
    tmp_path: Path,
) -> None:
    """Its optimizer looks at all tensors at once, which new servers say before they are up."""
    one = job(0, "Whole", rounds=20)
    run, costs = world(tmp_path, (one,), 2)
    expected = plain_bits(run, tmp_path / "plain", 20)
    void: list[ServersMoved] = []

    def watch(event: AnyEvent) -> None:
        if isinstance(event, RoundsDone) and event.round == 0:
            port.reshape({0: Shape(None, (0, 0))})
        if isinstance(event, RoundsDone) and not event.finished and not void:
            port.delay({0: longer(event)})
        if isinstance(event, ServersMoved):
            void.append(event)

    with LivePort(run, costs, tmp_path / "out") as port:
        events = drive(port, shuffled(run, 1), watch, held=True)
    assert bits(events) == expected
    assert not of(events, RolledBack)
    (told,) = void
    assert told.servers == (0,)
    assert "cannot have 2 servers" in told.reason


def test_a_shape_that_only_binds_workers_moves_no_block(tmp_path: Path) -> None:
    run, costs = world(tmp_path, JOBS[:1], 2)

    def watch(event: AnyEvent) -> None:
        if isinstance(event, RoundsDone) and not event.finished:
            port.reshape({0: Shape((0,), ())})

    with LivePort(run, costs, tmp_path / "out") as port:
        events = drive(port, shuffled(run, 1), watch)
    assert ended(events) == {0: "finished"}
    assert not of(events, ServersMoved)


def test_a_job_that_ends_while_its_blocks_were_to_migrate_ends_all_its_servers(
    tmp_path: Path,
) -> None:
    short: Job = replace(JOBS[0], rounds=3)
    run, costs = world(tmp_path, (short,), 2)

    def watch(event: AnyEvent) -> None:
        if isinstance(event, RoundsDone) and event.round == 1:
            port.reshape({0: Shape(None, (0, 0))})

    with LivePort(run, costs, tmp_path / "out") as port:
        events = drive(port, shuffled(run, 1), watch)
        assert ended(events) == {0: "finished"}
        roles = port.processes().values()
        assert not [role for role in roles if isinstance(role, ServerRole)]


@pytest.mark.parametrize("takes_s", [0.0, 0.3])
def test_a_shape_that_is_answered_while_its_job_arrives_loses_no_task(
    takes_s: float, tmp_path: Path
) -> None:
    """A plan has assigned it before; the answer takes until after the arrival."""
    late = job(0, rounds=3, params={"sleep_s": 0.1}, arrival_ns=500_000_000)
    run, costs = world(tmp_path, (late,), 2)
    rows = [Assignment(s, 0, r, 1, (s,)) for r in range(3) for s in range(2)]

    def watch(event: AnyEvent) -> None:
        if isinstance(event, Woken):
            time.sleep(0.005 + takes_s)
            port.reshape({0: Shape(None, (0, 0))})

    with PlainPort(run, tmp_path / "plain") as plain:
        expected = bits(drive(plain, [Assignment(0, 0, 0, 3, (0, 1))]))
    with LivePort(run, costs, tmp_path / "out") as port:
        port.wake_at(495_000_000)
        events = drive(port, rows, watch)
    assert bits(events) == expected
    assert len(accepted(events)) == len(rows)


def test_checkpoints_are_made_at_barriers_where_blocks_move(tmp_path: Path) -> None:
    """Every fourth round; shapes are answered two rounds before, and a delay lets servers come."""
    rounds = 15
    one = job(0, rounds=rounds, params={"sleep_s": 0.05}, checkpoint=Checkpoint(every=4))
    run, costs = world(tmp_path, (one,), 2)
    rows = [Assignment(s, 0, r, 1, (s,)) for r in range(rounds) for s in range(2)]
    struck: list[int] = []

    def watch(event: AnyEvent) -> None:
        if not isinstance(event, RoundsDone) or event.finished:
            return
        if event.round % 4 == 1:
            port.reshape({0: Shape(None, (0,) * (1 + (event.round // 4 + 1) % 2))})
            port.delay({0: NS_PER_S})
        if event.round == rounds - 2 and not struck:
            roles = port.processes().items()
            struck.extend(pid for pid, role in roles if isinstance(role, ServerRole))
            os.kill(struck[0], signal.SIGKILL)

    with LivePort(run, costs, tmp_path / "out") as port:
        events = drive(port, rows, watch, held=True)
    assert len(of(events, ServersMoved)) >= 2
    (back,) = of(events, RolledBack)
    assert back.round == 12
