"""A trainer a device and job: kept while memory lasts, the one used longest ago goes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from live_worlds import drive, ended, job, of, shuffled, virtual, world

from warren.live.control.devices import DeviceManager
from warren.live.control.local_engine import LivePort
from warren.live.emulated_times import Pads
from warren.live.oracle.plain import train
from warren.live.process.free_memory import scarce
from warren.live.process.specs import ExecutorRole, TrainerRole
from warren.live.training import numerics
from warren.live.training.app.app_loader import build_app
from warren.live.transport.messages import AnyMessage, Drop, Release
from warren.model.events import ParamsSaved

JOBS = tuple(job(index) for index in range(5))


class World:
    """A crew of one device; ``queued`` are jobs that have a task there."""

    def __init__(self) -> None:
        self.forked: list[int] = []
        self.told: list[AnyMessage] = []
        self.queued: list[int] = []
        self.ended: list[int] = []
        self.over: set[int] = set()
        context: Any = SimpleNamespace(
            devices=(SimpleNamespace(name="d"),),
            gpus=(None,),
            home_of=lambda job: None,
            local=SimpleNamespace(pin=False, look_ahead=1, spill=False),
            jobs=JOBS,
            folder=Path(),
            outputs=SimpleNamespace(run_log="", log=lambda index: ""),
            run=virtual(JOBS, 1)[0],
            pool=SimpleNamespace(fork=self._fork, kill=None, end=self.ended.append),
            hub=SimpleNamespace(send=lambda peer, message: self.told.append(message)),
            tmp=lambda index: "",
            rehearse=False,
            memory=None,
            inputs=SimpleNamespace(of_device=lambda device: None),
        )
        ledger: Any = SimpleNamespace(
            wants=lambda device, job: job in self.queued, ended=lambda job: job in self.over
        )
        self.manager = DeviceManager(context, Pads(*virtual(JOBS, 1)), ledger)
        self.manager.start()
        self.manager.ready(0, 0, b"peer")

    def _fork(self, role: TrainerRole | ExecutorRole) -> int:
        if isinstance(role, TrainerRole):
            self.forked.append(role.job.index)
        return len(self.forked)

    def need(self, *jobs: int) -> None:
        for index in jobs:
            self.manager.need_trainer(0, JOBS[index])


def test_a_trainer_stays_while_there_is_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warren.live.process.free_memory.scarce", lambda: False)
    one = World()
    one.need(0, 1, 2, 0, 1, 2)
    assert (one.forked, one.told) == ([0, 1, 2], [])


def test_where_memory_is_scarce_the_trainers_used_longest_ago_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = World()
    monkeypatch.setattr("warren.live.process.free_memory.scarce", lambda: False)
    one.need(0, 1, 2, 3, 0)
    monkeypatch.setattr("warren.live.process.free_memory.scarce", lambda: True)
    one.queued = [1]
    one.need(4)
    assert one.told == [Release(2), Release(3)]  # job 1 has work, job 0 was used last


@pytest.mark.parametrize("work", [False, True])
def test_one_that_was_let_go_comes_again_only_where_it_has_work(
    monkeypatch: pytest.MonkeyPatch, work: bool
) -> None:
    monkeypatch.setattr("warren.live.process.free_memory.scarce", lambda: True)
    one = World()
    one.need(0, 1)
    assert one.told == [Release(0)]
    one.queued = [0] if work else []
    role: Any = SimpleNamespace(device=0, job=JOBS[0], verifies=False)
    assert one.manager.trainer_ended(role, 7, "left") is work
    assert one.manager.losses(0, 0) == 0


@pytest.mark.parametrize("back", [False, True])
def test_a_trainer_that_was_asked_for_while_its_executor_was_away_ends_with_its_job(
    monkeypatch: pytest.MonkeyPatch, back: bool
) -> None:
    monkeypatch.setattr("warren.live.process.free_memory.scarce", lambda: False)
    one = World()
    one.manager.executor_ended(0, "killed by SIGKILL")
    one.need(3)
    if back:
        assert one.manager.ready(0, 1, b"another peer")
    one.over.add(3)
    one.manager.drop(3, ended=True)
    # An executor lets it go; where there is none, nobody else would.
    assert (one.told, len(one.ended)) == (([Drop(3, True)], 0) if back else ([], 1))


def test_memory_is_scarce_when_an_eighth_is_left_of_the_machine_or_of_its_limit(
    tmp_path: Path,
) -> None:
    meminfo = tmp_path / "meminfo"

    def says(left: int) -> bool:
        meminfo.write_text(f"MemTotal: 800 kB\nMemFree: 1 kB\nMemAvailable: {left} kB\n")
        return scarce(meminfo, tmp_path)

    assert (says(99), says(100), scarce(tmp_path / "none", tmp_path)) == (True, False, False)
    (tmp_path / "memory.current").write_text("701\n")
    for limit, expected in (("max", False), ("800", True), ("900", False)):
        (tmp_path / "memory.max").write_text(limit)
        assert says(400) is expected


@pytest.mark.live
def test_trainers_that_come_and_go_all_the_time_give_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warren.live.process.free_memory.scarce", lambda: True)
    jobs = [job(index, rounds=3, scale=2) for index in range(3)]
    run, costs = world(tmp_path, jobs, 1)
    with LivePort(run, costs, tmp_path / "out") as port:
        events = drive(port, shuffled(run, seed=2))
    assert set(ended(events).values()) == {"finished"}
    apps = [build_app(one, str(tmp_path)) for one in jobs]
    numerics.pin()  # the module has set what it likes
    right = [train(app, one).digest for app, one in zip(apps, jobs, strict=True)]
    assert [of(events, ParamsSaved, one.index)[0].sha256 for one in jobs] == right
