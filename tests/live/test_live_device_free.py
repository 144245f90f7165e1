"""A device that is free before a result is here begins another job's task, and stages the next."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from device_world import SIZE, Peer, Stage, stage
from live_worlds import job
from processes import wait_until

from warren.live.transport.messages import (
    Assign,
    CompEnded,
    DeviceFree,
    Drop,
    JobBroke,
    Leave,
    Release,
    RunTask,
    Staged,
    StageState,
    TaskComputed,
    TaskLost,
    TaskRaised,
    TrainerGone,
)
from warren.live.transport.server_messages import Pull, Push, Pushed, StateReleased, StateSent
from warren.live.transport.sockets import Hub, server_address

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
    two.trainers[0].say(TaskRaised(0, "app failed", 0, 0))
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


def test_a_second_result_is_not_verified_while_a_first_one_is() -> None:
    with stage(job(0), job(1), verify=1.0, gpu=0) as world:
        servers = world.servers[0], world.server_of(1)
        trainers = world.trainer(FIRST, 0), world.trainer(SECOND, 1)
        again = [world.trainer(21 + one, one, verifies=True) for one in (0, 1)]
        for seq, (one, shard) in enumerate((one, shard) for shard in range(3) for one in (0, 1)):
            world.assign(seq, one, 0, (shard,))
        for server in servers:
            world.answer(server, 0)

        def take(one: int, shard: int) -> None:
            assert trainers[one].hear(RunTask).shard == shard

        def end(one: int, shard: int) -> None:
            trainers[one].say(TaskComputed(one, 0, shard, 0.5, b"\x01", b"marks"))
            push = servers[one].hear(Push)
            servers[one].say(Pushed(push.round, push.shard))

        for one in (0, 1):  # the first task of a trainer tells nothing
            take(one, 0)
            end(one, 0)
        take(0, 1)
        trainers[0].say(DeviceFree(0))
        take(1, 1)
        end(0, 1)
        assert again[0].hear(RunTask).shard == 1
        trainers[1].say(DeviceFree(1))
        end(1, 1)
        assert again[1].hears_none(RunTask)
        again[0].say(TaskComputed(0, 0, 1, 0.5, b"\x01", b"marks"))
        for one in (0, 1):  # and the device goes on
            take(one, 2)
            end(one, 2)
            if one == 0:
                again[0].hear(RunTask)
                again[0].say(TaskComputed(0, 0, 2, 0.5, b"\x01", b"marks"))


def test_what_was_staged_before_a_roll_back_does_not_hold(two: Two) -> None:
    two.trainers[1].hear(StageState)
    two.trainers[1].say(Staged(1, 0))
    two.controller.say(Drop(1, False))
    other = Peer(Hub(server_address(two.world._folder, 1, 1, 0)))
    two.world._others.append(other)
    two.controller.say(Assign(2, 1, 0, 1, (0,), 0, 1, (0,), job(1).task_limit_ns, False))
    two.computed(0)
    assert other.hear(Pull).round == 0
    other.say(StateSent(0, 1, SIZE, ((0, SIZE),)), bytes(SIZE))
    run = two.trainers[1].hear(RunTask)
    assert run.staged is False


def test_a_trainer_that_was_let_go_stages_nothing_any_more(two: Two) -> None:
    two.trainers[1].hear(StageState)
    two.controller.say(Release(1))
    two.trainers[1].hear(Leave)
    slots = two.world._executor._pipeline.slots
    assert wait_until(lambda: not slots.staging())  # it is another thread that has said so


class One:
    """A job of three tasks a round on one device; the first has computed, and the second begun."""

    def __init__(self, world: Stage) -> None:
        self.controller, self.server = world.controller, world.servers[0]
        self.world, self.trainer = world, world.trainer(FIRST, 0)
        world.assign(0, 0, 0, (0, 1, 2))
        world.answer(self.server, 0)
        self.begun(0)
        self.trainer.say(DeviceFree(0))
        self.begun(1)

    def begun(self, shard: int) -> None:
        """Its trainer is given a task."""
        assert self.trainer.hear(RunTask).shard == shard

    def computed(self, shard: int) -> None:
        """Its trainer has a result."""
        self.trainer.say(TaskComputed(0, 0, shard, 0.5, b"\x01", b"marks"))


@pytest.fixture
def one() -> Iterator[One]:
    with stage(job(0), gpu=0) as world:
        yield One(world)


def test_the_next_task_of_the_same_job_begins_while_the_last_result_is_brought_out(
    one: One,
) -> None:
    one.trainer.say(DeviceFree(0))
    # Two places for updates: the third task waits for the first result.
    assert one.trainer.hears_none(RunTask)
    one.computed(0)
    assert (one.server.hear(Push).shard, ended(one.controller).shard) == (0, 0)
    one.server.say(Pushed(0, 0))
    one.begun(2)
    one.computed(1)
    one.server.say(Pushed(0, 1))
    one.computed(2)
    assert [one.server.hear(Push).shard for _ in range(2)] == [1, 2]


def test_a_trainer_with_a_result_to_come_and_a_task_has_both_again_in_their_order(one: One) -> None:
    one.controller.say(TrainerGone(0, FIRST, "killed"))
    assert {one.controller.hear(TaskLost).shard for _ in range(2)} == {0, 1}
    one.trainer = one.world.trainer(13, 0)
    for shard in range(3):
        one.begun(shard)
        one.computed(shard)
        assert one.server.hear(Push).shard == shard
        one.server.say(Pushed(0, shard))


def test_a_result_that_came_before_its_trainer_ended_counts(one: One) -> None:
    one.computed(0)
    assert one.server.hear(Push).shard == 0
    one.controller.say(TrainerGone(0, FIRST, "killed"))
    assert one.controller.hear(TaskLost).shard == 1
    one.trainer = one.world.trainer(13, 0)
    one.begun(1)


def test_a_result_that_cannot_be_brought_out_fails_the_job(one: One) -> None:
    one.trainer.say(TaskRaised(0, "no memory", 0, 0))
    assert one.controller.hear(JobBroke).reason == "no memory"


def test_an_error_of_a_result_that_nobody_wants_leaves_the_task_that_computes(one: One) -> None:
    one.controller.say(Drop(0, False))
    assert one.trainer.hears_none(Leave)  # and the executor has heard it
    one.trainer.say(TaskRaised(0, "no memory", 0, 0))
    assert one.controller.hears_none(JobBroke)
    assert one.trainer.hears_none(Leave)


def test_a_trainer_whose_result_is_to_come_is_not_released(one: One) -> None:
    one.trainer.say(DeviceFree(0))
    one.computed(0)
    one.server.hear(Push)
    one.server.say(Pushed(0, 0))
    one.begun(2)
    one.trainer.say(DeviceFree(0))
    one.controller.say(Release(0))
    assert one.trainer.hears_none(Leave)
    one.computed(1)
    one.computed(2)
    one.controller.say(Release(0))
    one.trainer.hear(Leave)
