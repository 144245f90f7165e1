"""Losses at the worst moment: what nobody would ask for again, and what comes too late."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from device_world import stage
from live_worlds import APPS, drive, ended, job, of, shuffled, virtual, world

from warren.core.state import State
from warren.live.clock import ClusterClock
from warren.live.control.devices import DeviceManager
from warren.live.control.event_queue import PendingEvents
from warren.live.control.ledger import Ledger
from warren.live.control.local_engine import LivePort
from warren.live.control.recovery import Recovery
from warren.live.emulated_times import Pads
from warren.live.process.process_pool import ZygoteLost
from warren.live.process.specs import ServerRole
from warren.live.training.app.app_loader import build_app
from warren.live.training.parameter_store import ParameterStore
from warren.live.training.task_hashes import HashLog
from warren.live.training.task_runner import TaskRunner
from warren.live.transport.message import TaskStamp
from warren.live.transport.messages import (
    CompEnded,
    Drop,
    RunTask,
    TaskComputed,
    TaskLost,
    TrainerGone,
)
from warren.live.transport.server_messages import Push, RoundReport
from warren.model.decision import Assignment
from warren.model.events import AnyEvent, JobFailed, RolledBack, RoundsDone
from warren.model.job import Job


class Books:
    """A ledger over one device, and the core's state at the other end."""

    def __init__(self, *jobs: Job) -> None:
        self.pending = PendingEvents(jobs)
        self.ledger = Ledger(jobs, 1, self.pending)
        self.ledger.begin(ClusterClock(0), "class")
        self.state = State(*virtual(jobs, 1))

    def assign(self, one: Assignment) -> int:
        """Tell both."""
        self.state.assign(one)
        return self.ledger.assigned(one)

    def events(self, now_ns: int) -> list[AnyEvent]:
        """What the core is told until now; it refuses what cannot be."""
        self.pending.advance(now_ns)
        seen: list[AnyEvent] = []
        while got := self.pending.pop():
            for event in got:
                self.state.apply(event)
            seen += got
        return seen


def test_a_device_lost_before_a_job_of_its_queue_arrives_has_lost_no_task_of_it() -> None:
    books = Books(job(0, arrival_ns=100, scale=1))
    books.assign(Assignment(0, 0, 0, 1, (0,)))
    for one in list(books.ledger.in_progress(0)):
        books.ledger.tasks_lost(one, "killed", 50)
    assert [type(event).__name__ for event in books.events(100)] == ["JobArrived"]


@pytest.mark.parametrize("way", ["fail", "roll back"])
def test_a_barrier_that_waited_behind_another_jobs_task_passes_when_that_job_goes(way: str) -> None:
    books = Books(job(0, scale=1, rounds=1), job(1, scale=1))
    books.events(0)
    books.assign(Assignment(0, 1, 0, 1, (0,)))
    books.assign(Assignment(0, 0, 0, 1, (0,)))
    # The device ran both and was lost before it could say so; what it sent to servers came.
    report = RoundReport(0, 0, 0, 1.0, None, True, 30, (TaskStamp(0, 10, 20, 25),), 0, "hash")
    assert books.ledger.report(report) == []
    ends = books.ledger.fail(1, "broke", 40) if way == "fail" else None
    ends = books.ledger.roll_back(1, 0, "lost", 40) if ends is None else ends
    assert ends == [0]
    assert of(books.events(50), RoundsDone, 0)[0].finished


@pytest.mark.live
def test_a_job_whose_server_is_lost_before_it_arrives_runs_when_it_arrives(tmp_path: Path) -> None:
    jobs = [
        job(0, rounds=40, params={"sleep_s": 0.03}),
        job(1, arrival_ns=1_000_000_000, rounds=2),
    ]
    run, costs = world(tmp_path, jobs, 2)
    left = [1]

    def watch(event: AnyEvent) -> None:
        if isinstance(event, RoundsDone) and left:
            left.pop()
            for pid, role in port.processes().items():
                if isinstance(role, ServerRole) and role.job.index == 1:
                    os.kill(pid, signal.SIGKILL)

    # The job that comes later is assigned first on its devices, as a plan may do.
    plan = shuffled(run, seed=1)
    with LivePort(run, costs, tmp_path / "out") as port:
        events = drive(port, [a for a in plan if a.job == 0] + [a for a in plan if a.job], watch)
    assert ended(events) == {0: "finished", 1: "finished"}, of(events, JobFailed)


def test_a_jobs_folder_is_made_while_another_job_removes_the_empty_one_above(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    above, plain, left = tmp_path / "checkpoints", os.mkdir, [1, 2, 3]
    above.mkdir()

    def mkdir(path: str | Path, mode: int = 0o777) -> None:
        if Path(path).name == "job" and left:
            left.pop()
            above.rmdir()
        plain(path, mode)

    monkeypatch.setattr(os, "mkdir", mkdir)
    log = HashLog(above / "job" / "marks", 1)
    log.append(0, 0, b"8 bytes!")
    log.close()
    assert (above / "job" / "marks").exists()
    assert not left


def test_a_checkpoint_inside_a_stretch_is_needed_until_its_round_is_in_the_journal() -> None:
    books = Books(job(0, scale=1, rounds=9))
    books.events(0)
    books.assign(Assignment(0, 0, 0, 9, (0,)))
    told: list[tuple[int, int]] = []
    servers: Any = SimpleNamespace(checkpoint_committed=lambda *what: told.append(what))
    none: Any = None
    recovery = Recovery(none, books.ledger, none, servers)
    for number in range(5):
        at = 10 * number
        stamps = (TaskStamp(0, at, at + 5, at + 6),)
        saved = 3 if number >= 3 else 0
        report = RoundReport(0, 0, number, 1.0, None, False, at + 7, stamps, saved)
        books.ledger.report(report)
        recovery.saved(report)
    kept = []
    for event in of(books.events(60), RoundsDone):
        recovery.delivered(event)
        recovery.journalled()
        kept.append(list(told))
    # With the barrier of round 2 as its last, a run would go back to round 2 or earlier.
    assert kept == [[], [], [], [(0, 3)], [(0, 3)]]


def test_a_zygote_that_is_lost_while_it_starts_is_replaced_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port: Any = LivePort(*virtual((job(0),), 1), tmp_path)
    pool = SimpleNamespace(fds=(7,), close=lambda *, last: None)
    seen: list[str] = []

    def start() -> None:
        seen.append("start")
        if len(seen) < 3:
            raise ZygoteLost(f"lost again {len(seen)}")

    monkeypatch.setattr(port, "_start_pool", start)
    port._pool_or_none, port._poller_or_none = pool, SimpleNamespace(unregister=lambda fd: None)
    port._servers = SimpleNamespace(known=lambda job: False)
    errors: list[str] = []
    port._recovery = SimpleNamespace(
        check_zygotes=lambda error: errors.append(str(error)),
        all_lost=lambda pool, at, reason: seen.append(f"all lost: {reason}"),
        pop_ended=list,
    )
    port._zygote_lost(ZygoteLost("lost"))
    assert seen == ["start", "start", "start", "all lost: lost"]
    assert errors == ["lost", "lost again 1", "lost again 2"]


def test_news_of_a_lost_executor_is_not_taken_for_its_successors() -> None:
    sent: list[bytes] = []
    context: Any = SimpleNamespace(
        devices=(SimpleNamespace(name="d"),),
        gpus=(None,),
        local=SimpleNamespace(pin=False, look_ahead=1, spill=False),
        jobs=(),
        folder="",
        outputs=SimpleNamespace(run_log=""),
        run=virtual((), 1)[0],
        pool=SimpleNamespace(fork=lambda role: 1),
        hub=SimpleNamespace(send=lambda peer, message: sent.append(peer)),
    )
    ledger: Any = SimpleNamespace(ended=lambda job: False)
    manager = DeviceManager(context, Pads(*virtual((), 1)), ledger)
    manager.start()
    assert manager.ready(0, 0, b"first")
    manager.executor_ended(0, "killed")
    assert manager.ready(0, 1, b"second")
    assert not manager.ready(0, 0, b"first")
    manager.tell(0, Drop(0, True))
    assert sent == [b"second"]


def test_what_is_assigned_before_the_core_hears_of_a_return_is_assigned_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = job(0, scale=1)
    port: Any = LivePort(*virtual((one,), 1), tmp_path)
    sent: list[Assignment] = []
    monkeypatch.setattr(port, "_assign", lambda seq, one, decided_ns: sent.append(one))
    first, second = (Assignment(0, 0, number, 1, (0,)) for number in (0, 1))
    port._ledger.begin(ClusterClock(0), "class")
    port._pending.advance(0)
    port._pending.pop()
    port.submit((first,))
    stamps = (TaskStamp(0, 10, 20, 25),)
    port._ledger.report(RoundReport(0, 0, 0, 1.0, None, False, 30, stamps))
    port._ledger.roll_back(0, 0, "its server ended", 40)
    while not of(port._pending.pop(), RoundsDone):
        pass
    port.submit((second,))
    assert of(port._pending.pop(), RolledBack)
    port.submit((first,))
    port.submit((second,))
    assert sent == [first, first, second]


def computed(loss: float) -> TaskComputed:
    """Of the first task of job 0."""
    return TaskComputed(0, 0, 0, loss, b"", b"")


@pytest.mark.parametrize("successor", [False, True])
def test_what_a_trainer_said_before_its_end_is_not_taken_for_its_successors_word(
    successor: bool,
) -> None:
    with stage(job(0, scale=1)) as device:
        first = device.trainer(10)
        device.assign(1, 0, 0, (0,))
        device.state(0)
        first.hear(RunTask)
        device.controller.say(TrainerGone(0, 10, "killed"))
        device.controller.hear(TaskLost)
        second = device.trainer(11) if successor else None
        if second is not None:
            second.hear(RunTask)
        first.say(computed(1.0))
        assert device.servers[0].hears_none(Push)
        second = second or device.trainer(11)
        if not successor:
            second.hear(RunTask)
        second.say(computed(2.0))
        assert device.servers[0].hear(Push).loss == 2.0


DONE = (TaskStamp(0, 100, 200, 300),)


def test_a_task_done_by_a_lost_device_is_reported_by_the_next_one() -> None:
    with stage(job(0)) as device:
        trainer = device.trainer(10)
        device.assign(7, 0, 0, (0, 1))
        device.state(0, DONE)
        assert device.controller.hear(CompEnded) == CompEnded(7, 0, 0, 100, 200, False)
        assert trainer.hear(RunTask).shard == 1


@pytest.mark.parametrize("have", [(), (0,)])
def test_a_task_whose_update_has_not_reached_all_servers_runs_again(have: tuple[int, ...]) -> None:
    with stage(job(0), servers=2) as device:
        trainer = device.trainer(10)
        device.assign(7, 0, 0, (0, 1))
        device.state(0, DONE, have)
        assert trainer.hear(RunTask).shard == (1 if have else 0)


def test_a_server_says_which_updates_it_has(tmp_path: Path) -> None:
    (tmp_path / "apps.py").write_text(APPS)
    one = job(0, scale=2)
    app = build_app(one, str(tmp_path))
    runner = TaskRunner(app, one)
    whole = ParameterStore(app, one).state()[0]
    store = ParameterStore(app, one, part=1, parts=2)
    for shard in (1, 0):
        result = runner.run(whole, 0, shard)
        update = memoryview(result.update[0])
        parts = tuple(update[begin:end] for begin, end in store.ranges)
        store.add(shard, replace(result, update=parts))
        assert store.results.have(0) == ((1,) if shard else (1, 0))
    store.step()
    assert (store.results.have(0), store.results.have(1)) == ((0, 1), ())
