"""When gangs are formed, and second trainers: who begins now has the cores first."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from live_worlds import drive, ended, job, of, world

from warren.live.control.local_engine import LivePort
from warren.live.control.ring_gangs import GangManager
from warren.live.process.process_pool import ProcessPool
from warren.live.process.specs import RankRole, Role, TrainerRole
from warren.live.transport.ring_messages import GangReady
from warren.model.decision import Assignment
from warren.model.events import AnyEvent, JobArrived
from warren.model.job import Job

pytestmark = [pytest.mark.live, pytest.mark.timed]

MS = 1_000_000


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """What is begun and what is there, in order, by job: "fork" of a rank, "ready" of a gang."""
    found: list[tuple[str, int]] = []
    fork, ready = ProcessPool.fork, GangManager.ready

    def forked(self: ProcessPool, role: Role) -> int:
        if isinstance(role, RankRole):
            found.append(("fork", role.job.index))
        return fork(self, role)

    def is_ready(self: GangManager, peer: bytes, said: GangReady) -> None:
        found.append(("ready", said.job))
        ready(self, peer, said)

    monkeypatch.setattr(ProcessPool, "fork", forked)
    monkeypatch.setattr(GangManager, "ready", is_ready)
    return found


def ring(
    index: int, devices: list[int], arrival_ms: int = 0, build_s: float = 0.2, app: str = "Slow"
) -> tuple[Job, list[Assignment]]:
    """A job of three rounds, and where its ranks are."""
    what = job(
        index, app, sync="ring", scale=len(devices), arrival_ns=arrival_ms * MS,
        params={"build_s": build_s} if app == "Slow" else {},
    )  # fmt: skip
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
    told: list[tuple[str, int]], tmp_path: Path
) -> None:
    """Jobs 1 and 2 begin at once; 0 waits for a device of 1, and 3 is to come."""
    rings = [ring(1, [0, 1]), ring(2, [2]), ring(0, [1]), ring(3, [3], 2500)]
    assert set(trained(tmp_path, rings, 4).values()) == {"finished"}
    assert told[:3] == [("fork", 1), ("fork", 1), ("fork", 2)]
    at = {what: told.index(what) for what in told}
    assert max(at["ready", 1], at["ready", 2]) < at["fork", 0]
    assert at["ready", 0] < at["fork", 3]  # in order of arrival, one after another


def test_a_gang_whose_devices_come_to_it_waits_for_no_other(
    told: list[tuple[str, int]], tmp_path: Path
) -> None:
    """Job 1 arrives while 0, which takes long to be built, is on its way."""
    rings = [ring(0, [0], build_s=2.0), ring(1, [1], 300)]
    assert set(trained(tmp_path, rings, 2).values()) == {"finished"}
    assert told.index(("fork", 1)) < told.index(("ready", 0))


def test_a_gang_that_never_comes_holds_up_no_other(tmp_path: Path) -> None:
    """Job 0 cannot be built; 1 waits for its device, and nothing else happens."""
    rings = [ring(0, [0], app="RaisesAtBirth"), ring(1, [0])]
    assert trained(tmp_path, rings, 1) == {0: "failed", 1: "finished"}


def test_no_second_trainer_is_there_before_its_job_has_arrived(tmp_path: Path) -> None:
    jobs = [
        job(0, scale=1, rounds=20, params={"sleep_s": 0.03}),
        job(1, scale=1, rounds=20, arrival_ns=300 * MS, params={"sleep_s": 0.03}),
    ]
    run, costs = world(tmp_path, jobs)
    seen: list[tuple[bool, set[int]]] = []
    with LivePort(replace(run, verify=1.0), costs, tmp_path / "run") as port:

        def watch(event: AnyEvent) -> None:
            second = {
                role.job.index
                for role in port.processes().values()
                if isinstance(role, TrainerRole) and role.verifies
            }
            arrived = bool(seen and seen[-1][0]) or of([event], JobArrived, 1) != []
            seen.append((arrived, second))

        drive(port, [Assignment(j, j, 0, 20, (0,)) for j in (0, 1)], watch)
    before = [second for arrived, second in seen if not arrived]
    assert {0} in before
    assert not any(1 in second for second in before)
    assert any(1 in second for arrived, second in seen if arrived)
