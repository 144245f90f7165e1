"""What an executor does early, and what late, so that a barrier is short."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from device_world import SIZE, Peer, Stage, stage
from live_worlds import job

from warren.live import run_clock
from warren.live.device import report_buffer as reports
from warren.live.device.lanes import LaneTask
from warren.live.server import round_report as leftover
from warren.live.training.memory.shared_arena import Arena
from warren.live.training.memory.shared_memory import MappedMemories
from warren.live.training.task_hashes import RoundOutcome
from warren.live.transport.message import TaskStamp
from warren.live.transport.messages import (
    CompEnded,
    Drop,
    JobBroke,
    LeftComp,
    RunTask,
    TaskComputed,
    TaskRaised,
)
from warren.live.transport.server_messages import (
    Pull,
    Push,
    Pushed,
    RoundReport,
    StateReleased,
    StateSent,
)

COMPUTED = TaskComputed(0, 0, 0, 0.5, b"", b"")


def a_task(**fields: Any) -> LaneTask:
    """A task without pads, unless they are given."""
    given = {"seq": 1, "job": 0, "round": 0, "shard": 0, **fields}
    return LaneTask(**{"comp_pad_ns": 0, "sync_pad_ns": 0, **given})


@pytest.fixture
def now_ns(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The clock: what is in it."""
    found = [1000]
    monkeypatch.setattr(run_clock, "now_ns", lambda: found[0])
    return found


@contextmanager
def lying(device: Stage, *, rounds: int = 1) -> Iterator[tuple[Peer, RunTask, Arena]]:
    """A task of job 0 whose state lies in its server's memory: trainer, task, memory."""
    trainer = device.trainer(10)
    for round_no in range(rounds):
        device.assign(1 + round_no, 0, round_no, (0,))
    arena = Arena.create(SIZE, 1)
    arena.slot(0)[:] = b"\7" * SIZE
    assert device.servers[0].hear(Pull).round == 0
    device.servers[0].say(StateSent(0, 1, SIZE, ((0, SIZE),), (), (), arena.spot(0)))
    yield trainer, trainer.hear(RunTask), arena
    arena.close()


@pytest.mark.live
def test_a_state_is_read_in_its_servers_memory_and_let_go_of_after_its_task() -> None:
    with stage(job(0)) as device, lying(device) as (trainer, task, arena):
        windows = MappedMemories(read_only=True)
        arena.slot(0)[0] = 9
        seen = windows.view(task.state)
        assert bytes(seen) == b"\x09" + b"\7" * (SIZE - 1), "no copy was made"
        assert seen.readonly
        assert device.servers[0].hears_none(StateReleased)
        trainer.say(COMPUTED)
        assert device.servers[0].hear(Push).round == 0
        assert device.servers[0].hear(StateReleased).round == 0
        windows.close()


@pytest.mark.live
def test_a_state_that_was_sent_is_not_sent_again_for_another_task_of_its_round() -> None:
    """A policy may assign one task after another: between two of them the queue is empty."""
    with stage(job(0)) as device:
        trainer = device.trainer(10)
        for shard in range(3):
            device.assign(1 + shard, 0, 0, (shard,))
            if shard == 0:
                device.state(0)
            assert trainer.hear(RunTask).shard == shard
            trainer.say(TaskComputed(0, 0, shard, 0.5, b"", b""))
            assert device.servers[0].hear(Push).shard == shard
            device.servers[0].say(Pushed(0, shard))
            assert device.controller.hear(CompEnded).seq == 1 + shard
        assert device.servers[0].hears_none(Pull)
        # Nor does it stand in the way of the next ones.
        device.assign(4, 0, 1, (0,))
        device.state(1)
        assert trainer.hear(RunTask).round == 1


@pytest.mark.live
def test_a_state_can_be_read_when_its_server_is_gone() -> None:
    with stage(job(0)) as device, lying(device) as (_, task, arena):
        arena.close()
        windows = MappedMemories(read_only=True)
        assert bytes(windows.view(task.state)) == b"\7" * SIZE
        windows.close()


@pytest.mark.live
def test_a_trainer_hears_which_task_of_the_job_follows() -> None:
    with stage(job(0), job(1)) as device, lying(device, rounds=2) as (_, task, _):
        assert task.then == (1, 0)
    with stage(job(0)) as device, lying(device) as (_, task, _):
        assert task.then is None


@pytest.mark.live
def test_an_error_of_a_task_that_was_taken_back_does_not_fail_its_job() -> None:
    with stage(job(0)) as device, lying(device) as (trainer, _, _):
        device.controller.say(Drop(0, False))
        assert device.servers[0].hears_none(StateReleased)
        trainer.say(TaskRaised(0, "its state is gone", 0, 0))
        assert device.controller.hears_none(JobBroke)


@pytest.mark.live
def test_the_end_of_a_task_is_reported_though_the_next_state_never_comes() -> None:
    with stage(job(0)) as device, lying(device, rounds=2) as (trainer, _, _):
        trainer.say(COMPUTED)
        assert device.controller.hear(CompEnded).seq == 1


ENDED = CompEnded(1, 0, 0, 10, 20, False)


class Told:
    """A link that only notes."""

    def __init__(self) -> None:
        self.said: list[Any] = []

    def send(self, message: Any) -> None:
        """Note it."""
        self.said.append(message)


def test_an_ended_task_waits_for_the_barrier_but_not_for_long(now_ns: list[int]) -> None:
    told: Any = Told()
    one = reports.ReportBuffer(told)
    one.add(ENDED)
    one.tell(None, [a_task()])
    assert (told.said, one.due_ns) == ([], 1000 + reports.HELD_NS)
    now_ns[0] += reports.HELD_NS - 1
    one.tell(None, [a_task()])
    assert not told.said
    now_ns[0] += 1
    one.tell(None, [a_task()])
    assert (told.said, one.due_ns) == ([ENDED], None)


def test_an_ended_task_waits_until_the_next_one_has_settled(now_ns: list[int]) -> None:
    told: Any = Told()
    one = reports.ReportBuffer(told)
    one.add(ENDED)
    one.tell(a_task(began_ns=900), [])
    assert (told.said, one.due_ns) == ([], 900 + reports.SETTLED_NS)
    now_ns[0] = 900 + reports.SETTLED_NS
    one.tell(a_task(began_ns=900), [])
    assert (told.said, one.due_ns) == ([ENDED], None)


@pytest.mark.parametrize(("comp", "ahead"), [(False, False), (True, False), (False, True)])
def test_no_news_waits_where_tasks_are_emulated(comp: bool, ahead: bool) -> None:
    told: Any = Told()
    one = reports.ReportBuffer(told)
    one.add(ENDED)
    padded = a_task(comp_pad_ns=10**9, began_ns=time.monotonic_ns())
    one.tell(padded if comp else None, [padded] if ahead else [])
    assert (told.said, one.due_ns) == ([ENDED], None)


def test_other_news_takes_what_was_held_along_in_its_order() -> None:
    told: Any = Told()
    one = reports.ReportBuffer(told)
    one.add(ENDED)
    one.tell(None, [a_task()])
    one.add(LeftComp(3))
    one.tell(None, [a_task()])
    assert (told.said, one.due_ns) == ([ENDED, LeftComp(3)], None)
    one.add(ENDED)
    one.tell(None, [])
    assert told.said[2:] == [ENDED]


def test_what_a_barrier_left_is_due_when_trainers_have_begun(now_ns: list[int]) -> None:
    outcome = RoundOutcome(round=4, loss=0.5, metrics={"accuracy": 0.75}, finished=False)
    stamps = (TaskStamp(0, 10, 20, 30),)
    left = leftover.DeferredReport(3, 1, outcome, 40, stamps, now_ns[0])
    now_ns[0] += reports.SETTLED_NS - 1
    assert not left.due
    now_ns[0] += 1
    assert left.due
    told: Any = Told()
    left.report(told, 2, "hash")
    expected = RoundReport(3, 1, 4, 0.5, {"accuracy": 0.75}, False, 40, stamps, 2, "hash")
    assert told.said == [expected]
