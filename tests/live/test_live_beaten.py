"""What an executor does with a copy, and with a task that was done elsewhere."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from device_world import Peer, Stage, stage
from live_worlds import job

from warren.live.transport.message import TaskStamp
from warren.live.transport.messages import (
    CompEnded,
    Drop,
    JobBroke,
    LeftComp,
    LostRace,
    RunTask,
    TaskComputed,
    TaskLost,
    TaskRaised,
    TrainerGone,
)
from warren.live.transport.server_messages import Pull, Push

DONE = TaskComputed(0, 0, 0, 0.5, b"", b"")


def computing(device: Stage) -> Peer:
    """The trainer of job 0, which computes assignment 1: task 0 of round 0."""
    trainer = device.trainer(10)
    device.assign(1, 0, 0, (0,))
    device.state(0)
    assert trainer.hear(RunTask).shard == 0
    return trainer


def beat(device: Stage, seq: int = 1) -> None:
    """Say that it was done elsewhere; it is on COMP."""
    device.controller.say(LostRace(seq))
    assert device.controller.hears_none(LeftComp)


def test_a_copy_goes_before_what_has_not_begun() -> None:
    with stage(job(0)) as device:
        trainer = device.trainer(10)
        device.assign(1, 0, 1, (0,))
        assert device.servers[0].hear(Pull).round == 1
        device.assign(2, 0, 0, (0,), copy=True)
        device.state(0)
        task = trainer.hear(RunTask)
        assert (task.round, task.shard) == (0, 0)


def test_a_beaten_task_on_comp_stays_there_to_its_end_and_pushes_nothing() -> None:
    with stage(job(0)) as device:
        trainer = computing(device)
        beat(device)
        trainer.say(DONE)
        assert device.controller.hear(CompEnded).seq == 1
        assert device.servers[0].hears_none(Push)


def test_a_beaten_task_of_a_job_that_has_ended_keeps_the_device_to_its_end() -> None:
    with stage(job(0), job(1)) as device:
        trainer = computing(device)
        beat(device)
        device.controller.say(Drop(0, True))
        assert device.controller.hears_none(CompEnded)
        trainer.say(DONE)
        assert device.controller.hear(CompEnded).seq == 1


def test_a_beaten_task_that_has_not_begun_never_does() -> None:
    with stage(job(0)) as device:
        trainer = computing(device)
        device.assign(2, 0, 0, (1,))
        device.assign(3, 0, 0, (2,))
        device.controller.say(LostRace(2))
        assert device.controller.hear(LeftComp).seq == 2
        trainer.say(DONE)
        assert trainer.hear(RunTask).shard == 2


def test_a_beaten_task_that_has_left_comp_is_said_to_have() -> None:
    with stage(job(0)) as device:
        trainer = computing(device)
        trainer.say(DONE)
        assert device.controller.hear(CompEnded).seq == 1
        device.controller.say(LostRace(1))
        assert device.controller.hear(LeftComp).seq == 1


@pytest.mark.parametrize(
    "end",
    [
        lambda device, trainer: trainer.say(TaskRaised(0, "ValueError: no", 0, 0)),
        lambda device, trainer: device.controller.say(TrainerGone(0, 10, "killed")),
    ],
)
def test_how_a_beaten_task_ends_is_nobodys_loss(end: Callable[[Stage, Peer], None]) -> None:
    with stage(job(0)) as device:
        trainer = computing(device)
        beat(device)
        end(device, trainer)
        assert device.controller.hear(CompEnded).seq == 1
        assert device.controller.hears_none(TaskLost)
        assert device.controller.hears_none(JobBroke)


def test_a_task_done_on_another_device_is_neither_run_nor_reported_as_run_here() -> None:
    with stage(job(0)) as device:
        trainer = device.trainer(10)
        device.assign(7, 0, 0, (0,))
        device.assign(8, 0, 0, (1,))
        device.state(0, (TaskStamp(0, 100, 200, 300, 3),))
        assert trainer.hear(RunTask).shard == 1
        assert device.controller.hears_none(CompEnded)
