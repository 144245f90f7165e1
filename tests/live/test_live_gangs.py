"""When gangs are formed, and second trainers: who begins now has the cores first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from live_worlds import drive, ended, job, of, world

from warren.live.control.local_engine import LivePort
from warren.live.control.ring_gangs import GangManager, LiveGang
from warren.live.process.process_pool import ProcessPool
from warren.live.process.specs import RankRole, Role, TrainerRole
from warren.live.transport.ring_messages import GangReady
from warren.model.decision import Assignment
from warren.model.events import AnyEvent, JobArrived
from warren.model.job import Job

pytestmark = pytest.mark.live

MS = 1_000_000


class _Ready(Exception):
    """A gang is there: the test has seen all that it wants."""


class Told(list[tuple[str, int]]):
    """What is begun and what is there, in order, by job: "fork" of a rank, "ready" of a gang.

    ``then`` is done when something of that is told for the first time.
    """

    def __init__(self) -> None:
        super().__init__()
        self.then: dict[tuple[str, int], Callable[[], object]] = {}

    def add(self, what: str, job: int) -> None:
        self.append((what, job))
        self.then.pop((what, job), lambda: None)()


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    found = Told()
    fork, ready = ProcessPool.fork, GangManager.ready

    def forked(self: ProcessPool, role: Role) -> int:
        if isinstance(role, RankRole):
            found.add("fork", role.job.index)
        return fork(self, role)

    def is_ready(self: GangManager, peer: bytes, said: GangReady) -> None:
        found.add("ready", said.job)
        ready(self, peer, said)

    monkeypatch.setattr(ProcessPool, "fork", forked)
    monkeypatch.setattr(GangManager, "ready", is_ready)
    return found


def ring(
    index: int, devices: list[int], arrival_ms: int = 0, app: str = "Slow", **params: object
) -> tuple[Job, list[Assignment]]:
    """A job of three rounds, and where its ranks are."""
    what = job(
        index, app, sync="ring", scale=len(devices), arrival_ns=arrival_ms * MS, params=params
    )
    return what, [Assignment(device, index, 0, 3, (k,)) for k, device in enumerate(devices)]


def trained(
    folder: Path, rings: list[tuple[Job, list[Assignment]]], devices: int
) -> dict[int, str]:
    """How each ended; assigned in the order in which they are given."""
    jobs = sorted((one for one, _ in rings), key=lambda one: one.index)
    run, costs = world(folder, jobs, devices=devices)
    with LivePort(run, costs, folder / "run") as port:
        return ended(drive(port, [row for _, rows in rings for row in rows]))


def test_a_gang_whose_devices_are_busy_or_whose_job_is_to_come_waits_for_those_that_begin_now(
    told: Told, tmp_path: Path
) -> None:
    """Jobs 1 and 2 begin at once; 0 waits for a device of 1, and 3 is to come in an hour."""

    def seen() -> None:
        raise _Ready

    told.then["ready", 3] = seen
    rings = [ring(1, [0, 1]), ring(2, [2]), ring(0, [1]), ring(3, [3], 3_600_000)]
    with pytest.raises(_Ready):
        trained(tmp_path, rings, 4)
    assert told[:3] == [("fork", 1), ("fork", 1), ("fork", 2)]
    at = {what: told.index(what) for what in told}
    assert max(at["ready", 1], at["ready", 2]) < at["fork", 0]
    assert at["ready", 0] < at["fork", 3]  # in order of arrival, one after another


def test_a_gang_whose_devices_come_to_it_waits_for_no_other(told: Told, tmp_path: Path) -> None:
    """Job 1 arrives while 0, which is not built before 1 is begun, is on its way."""
    built = tmp_path / "built"
    told.then["fork", 1] = built.touch
    rings = [ring(0, [0], app="WaitsToBuild", file=str(built)), ring(1, [1], 300)]
    assert set(trained(tmp_path, rings, 2).values()) == {"finished"}
    assert told.index(("fork", 1)) < told.index(("ready", 0))


def test_a_gang_that_never_comes_holds_up_no_other(tmp_path: Path) -> None:
    """Job 0 cannot be built; 1 waits for its device, and nothing else happens."""
    rings = [ring(0, [0], app="RaisesAtBirth"), ring(1, [0])]
    assert trained(tmp_path, rings, 1) == {0: "failed", 1: "finished"}


def test_no_second_trainer_is_there_before_its_job_has_arrived(tmp_path: Path) -> None:
    """On a slow machine the second job arrives later, so that the first has its own before."""
    for arrival_ms in (300, 3_000, 30_000):
        seen = second_trainers(tmp_path / f"{arrival_ms}", arrival_ms)
        before = [second for arrived, second in seen if not arrived]
        assert not any(1 in second for second in before)
        if {0} in before:
            break
    assert {0} in before
    assert any(1 in second for arrived, second in seen if arrived)


def second_trainers(folder: Path, arrival_ms: int) -> list[tuple[bool, set[int]]]:
    """At each event: whether job 1 has arrived, and which jobs have a second trainer."""
    jobs = [
        job(0, scale=1, rounds=20, params={"sleep_s": 0.03}),
        job(1, scale=1, rounds=20, arrival_ns=arrival_ms * MS, params={"sleep_s": 0.03}),
    ]
    folder.mkdir()
    run, costs = world(folder, jobs)
    seen: list[tuple[bool, set[int]]] = []
    with LivePort(replace(run, verify=1.0), costs, folder / "run") as port:

        def watch(event: AnyEvent) -> None:
            second = {
                role.job.index
                for role in port.processes().values()
                if isinstance(role, TrainerRole) and role.verifies
            }
            arrived = bool(seen and seen[-1][0]) or of([event], JobArrived, 1) != []
            seen.append((arrived, second))

        drive(port, [Assignment(j, j, 0, 20, (0,)) for j in (0, 1)], watch)
    return seen


@pytest.mark.parametrize("lease_ns", [None, 10**9])
def test_a_gang_with_a_rank_on_a_host_that_is_away_is_formed_when_that_is_back(
    lease_ns: int | None,
) -> None:
    one, rows = ring(0, [0, 1])
    up, formed = {0}, list[tuple[int, ...]]()
    local = SimpleNamespace(testbed=None)
    cluster = SimpleNamespace(lease_ns=lease_ns)
    context: Any = SimpleNamespace(jobs=[one], local=local, run=SimpleNamespace(cluster=cluster))
    manager: Any = SimpleNamespace(is_up=up.__contains__, tell=lambda *_: None)
    ledger: Any = SimpleNamespace(
        passed=lambda _: 0, ended=lambda _: False, head=lambda _: None, arrived=lambda _: True
    )
    gangs = GangManager(context, None, manager, ledger, lambda _: 0)  # type: ignore[arg-type]

    def form(job: Job, state: Any, devices: tuple[int, ...]) -> LiveGang:
        formed.append(devices)
        return LiveGang(1, 0, 0, devices)

    gangs._form = form  # type: ignore[method-assign, assignment]
    for row in rows:
        gangs.assigned(row)
    gangs.go_on()
    # Without leases no host is away: its executor will be up soon.
    assert formed == ([] if lease_ns else [(0, 1)])
    up.add(1)
    gangs.go_on()
    assert formed == [(0, 1)]
