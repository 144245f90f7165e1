"""A device that is free before a result is here begins another job's task, and stages the next."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from device_world import Peer, Stage, stage
from live_worlds import job

from warren.live.transport.messages import (
    CompEnded,
    DeviceFree,
    JobBroke,
    RunTask,
    Staged,
    StageState,
    TaskComputed,
    TaskLost,
    TaskRaised,
    TrainerGone,
)
from warren.live.transport.server_messages import Push, StateReleased

FIRST, SECOND = 11, 12


class Two:
    """Two jobs with a task each on one device; the first one's computes."""

    def __init__(self, world: Stage) -> None:
        self.world, self.controller = world, world.controller
        self.servers = world.servers[0], world.server_of(1)
        self.trainers = world.trainer(FIRST, 0), world.trainer(SECOND, 1)
        for one in (0, 1):
            world.assign(one, one, 0, (0,))
        for server in self.servers:
            world.answer(server, 0)
        self.trainers[0].hear(RunTask)

    def computed(self, one: int) -> None:
        """A trainer has a result."""
        self.trainers[one].say(TaskComputed(one, 0, 0, 0.5, b"\x01", b"marks"))


@pytest.fixture
def two() -> Iterator[Two]:
    with stage(job(0), job(1), gpu=0) as world:
        yield Two(world)


def ended(controller: Peer) -> CompEnded:
    """What is told next of a task that has left COMP."""
    return controller.hear(CompEnded)


def test_another_job_begins_when_the_device_is_free_and_reports_keep_their_order(two: Two) -> None:
    assert two.trainers[1].hears_none(RunTask)
    two.trainers[0].say(DeviceFree(0))
    two.trainers[1].hear(RunTask)
    # The later task has its result first: it is told of after the earlier one all the same.
    two.computed(1)
    assert two.controller.hears_none(CompEnded)
    two.computed(0)
    first, second = ended(two.controller), ended(two.controller)
    assert (first.seq, second.seq) == (0, 1)
    assert first.end_ns <= second.start_ns
    assert [server.hear(Push).round for server in two.servers] == [0, 0]


def test_a_trainer_that_is_lost_after_that_has_its_task_again_and_no_other_is_lost(
    two: Two,
) -> None:
    two.trainers[0].say(DeviceFree(0))
    two.trainers[1].hear(RunTask)
    two.controller.say(TrainerGone(0, FIRST, "killed"))
    assert two.controller.hear(TaskLost).job == 0
    two.computed(1)
    assert ended(two.controller).seq == 1
    again = two.world.trainer(13, 0)
    again.hear(RunTask)
    again.say(TaskComputed(0, 0, 0, 0.5, b"\x01", b"marks"))
    assert ended(two.controller).seq == 0


def test_a_task_that_raises_after_that_fails_its_job_alone(two: Two) -> None:
    two.trainers[0].say(DeviceFree(0))
    two.trainers[1].hear(RunTask)
    two.trainers[0].say(TaskRaised(0, "app failed"))
    assert two.controller.hear(JobBroke).job == 0
    two.computed(1)
    assert ended(two.controller).seq == 1


def test_a_state_is_staged_once_while_another_job_computes_and_stays_until_it_is_read(
    two: Two,
) -> None:
    asked = two.trainers[1].hear(StageState)
    assert (asked.job, asked.round, asked.shard) == (1, 0, 0)
    assert two.trainers[1].hears_none(StageState)
    assert two.servers[1].hears_none(StateReleased)
    two.trainers[1].say(Staged(1, 0))
    two.computed(0)
    assert two.trainers[1].hear(RunTask).state == asked.state


def test_a_processor_stages_nothing() -> None:
    with stage(job(0), job(1)) as world:
        two = Two(world)
        assert two.trainers[1].hears_none(StageState)
