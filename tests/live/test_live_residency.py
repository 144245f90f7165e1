"""Whose models stay in a device's memory: never over the budget, Hare's rule, nobody at work."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from device_world import Stage, stage
from hypothesis import given
from hypothesis import strategies as st
from live_worlds import job

from warren.live.device.local_trainer import LocalTrainer
from warren.live.device.residency import DeviceMemoryPlan, evicted
from warren.live.process.linux import SHORT_OF_MEMORY
from warren.live.transport.messages import (
    BUILDING,
    Build,
    DeviceFree,
    Evict,
    Evicted,
    Prepared,
    RunTask,
    Staged,
    StageState,
    TaskComputed,
    TaskLost,
    TrainerGone,
)
from warren.live.transport.ring_messages import BeginRing, RankDone, RankGone, RankReady
from warren.live.transport.server_messages import Push, Pushed

JOBS = range(6)
SIZES = st.lists(st.integers(1, 9), min_size=len(JOBS), max_size=len(JOBS))


@given(
    order=st.permutations(JOBS),
    sizes=SIZES,
    coming=st.lists(st.sampled_from(JOBS), max_size=8),
    busy=st.sets(st.sampled_from(JOBS), max_size=2),
    left_bytes=st.integers(-5, 60),
)
def test_who_leaves_is_never_busy_and_what_stays_fits_by_the_rule(
    order: list[int], sizes: list[int], coming: list[int], busy: set[int], left_bytes: int
) -> None:
    resident = {one: sizes[one] for one in order}
    gone = evicted(resident, coming, busy, left_bytes)
    assert not set(gone) & busy
    stay = [one for one in order if one not in gone]
    idle = [one for one in stay if one not in busy]
    taken = sum(sizes[one] for one in stay)
    assert taken <= left_bytes or not idle

    def rank(one: int) -> tuple[int, int]:
        soon = coming.index(one) if one in coming else len(coming)
        return soon, -order.index(one)

    # Each that leaves would not fit beside the busy ones and all that stay and come before it.
    for one in gone:
        before = [other for other in idle if rank(other) < rank(one)]
        needed = sum(sizes[other] for other in [*before, *busy, one] if other in resident)
        assert needed > left_bytes
    assert [rank(one) for one in gone] == sorted((rank(one) for one in gone), reverse=True)


@given(
    sizes=SIZES,
    budget=st.integers(9, 40),
    steps=st.lists(st.tuples(st.sampled_from(JOBS), st.booleans()), max_size=40),
)
def test_those_that_are_let_in_fit_whatever_comes(
    sizes: list[int], budget: int, steps: list[tuple[int, bool]]
) -> None:
    plan, here = DeviceMemoryPlan(), set[int]()
    for one in JOBS:
        plan.learn(one, Prepared(one, sizes[one], budget))
    for one, waits in steps:
        admitted, gone = plan.admit(one, [one], {one})
        assert set(gone) <= here
        assert one not in gone
        if not admitted and not waits:
            for other in gone:
                plan.left(other)
                here.discard(other)
            admitted, gone = plan.admit(one, [one], {one})
            assert (admitted, list(gone)) == (True, [])
        elif not admitted:
            for other in gone:  # later, when another is asked for
                plan.left(other)
                here.discard(other)
        if admitted:
            here.add(one)
        assert sum(sizes[other] for other in here) <= budget


def test_of_a_processor_everything_fits() -> None:
    plan = DeviceMemoryPlan()
    plan.learn(0, Prepared(0))
    assert plan.admit(0, [], {0}) == (True, ())
    assert plan.admit(1, [], {1}) == (True, ())


def test_a_job_that_fits_nowhere_is_let_in_alone() -> None:
    plan = DeviceMemoryPlan()
    plan.learn(0, Prepared(0, 5, 10))
    plan.learn(1, Prepared(1, 20, 10))
    assert plan.admit(0, [0, 1], {0})[0]
    assert plan.admit(1, [1], {0, 1}) == (False, [])  # 0 is at work
    assert plan.admit(1, [1], {1}) == (False, [0])
    assert plan.admit(1, [1], {1}) == (False, [])
    plan.left(0)
    assert plan.admit(1, [1], {1}) == (True, ())


def test_a_trainer_that_kept_its_memory_counts() -> None:
    plan = DeviceMemoryPlan()
    plan.learn(0, Prepared(0, 6, 4, True))
    plan.learn(1, Prepared(1, 5, 4))
    assert plan.admit(1, [1], {1}) == (False, [0])


@pytest.fixture
def two() -> Iterator[Stage]:
    """Two jobs on a device with memory for one of them."""
    with stage(job(0), job(1), gpu=0) as world:
        yield world


def test_a_device_computes_with_memory_that_another_job_has_given_back(two: Stage) -> None:
    servers = two.servers[0], two.server_of(1)
    trainers = two.trainer(11, 0), two.trainer(12, 1)
    for one, trainer in enumerate(trainers):
        trainer.say(Prepared(one, 6, 10))
    assert two.controller.hears_none(TrainerGone)  # all of it is heard
    for one in (0, 1):
        two.assign(one, one, 0, (0,))
    for server in servers:
        two.answer(server, 0)
    trainers[0].hear(RunTask)
    # Its memory is at work: the other one is not even staged.
    assert trainers[1].hears_none(StageState)
    trainers[0].say(TaskComputed(0, 0, 0, 0.5, b"\x01", b"marks"))
    servers[0].hear(Push)
    trainers[0].hear(Evict)
    assert trainers[1].hears_none(RunTask)
    trainers[0].say(Evicted(0))
    trainers[1].hear(RunTask)


def test_a_task_is_computed_again_when_those_at_work_have_given_their_memory_back() -> None:
    with stage(job(0), job(1), verify=1.0, gpu=0) as world:
        servers = world.servers[0], world.server_of(1)
        trainers = world.trainer(11, 0), world.trainer(12, 1)
        again = world.trainer(21, 0, verifies=True)
        for one, trainer in enumerate(trainers):
            trainer.say(Prepared(one, 6, 12))
        again.say(Prepared(0, 12, 12))
        for seq, (one, shard) in enumerate([(0, 0), (0, 1), (1, 0)]):
            world.assign(seq, one, 0, (shard,))
        for server in servers:
            world.answer(server, 0)

        def end(one: int, shard: int) -> None:
            trainers[one].say(TaskComputed(one, 0, shard, 0.5, b"\x01", b"marks"))
            push = servers[one].hear(Push)
            servers[one].say(Pushed(push.round, push.shard))

        trainers[0].hear(RunTask)
        end(0, 0)  # the first task of a trainer tells nothing
        assert trainers[0].hear(RunTask).shard == 1
        trainers[0].say(DeviceFree(0))
        trainers[1].hear(RunTask)
        end(0, 1)
        trainers[0].hear(Evict)
        trainers[0].say(Evicted(0))
        assert again.hears_none(RunTask)  # the other job is at work
        end(1, 0)
        trainers[1].hear(Evict)
        assert again.hears_none(RunTask)
        trainers[1].say(Evicted(1))
        assert again.hear(RunTask).shard == 1


def test_a_rank_of_a_ring_has_the_memory_of_its_device_as_a_trainer_has(two: Stage) -> None:
    trainer = two.trainer(11, 0)
    trainer.say(Prepared(0, 6, 10))
    rank = two.rank(RankReady(1, 1, 6, 10))
    assert two.controller.hears_none(TrainerGone)  # all of it is heard
    two.assign(0, 0, 0, (0,))
    two.assign_rank(1, 1, 0, 1)
    two.answer(two.servers[0], 0)
    trainer.hear(RunTask)
    trainer.say(TaskComputed(0, 0, 0, 0.5, b"\x01", b"marks"))
    trainer.hear(Evict)
    assert rank.hears_none(BeginRing)
    trainer.say(Evicted(0))
    rank.hear(BeginRing)
    two.assign(2, 0, 0, (1,))
    assert rank.hears_none(Evict)  # its rounds have the device
    rank.say(RankDone(1, 1, 1))
    rank.hear(Evict)
    assert trainer.hears_none(RunTask)
    rank.say(Evicted(1))
    trainer.hear(RunTask)


def test_a_rank_that_has_ended_has_no_memory_of_its_device(two: Stage) -> None:
    trainer = two.trainer(11, 0)
    first = two.rank(RankReady(1, 1, 6, 4, resident=True))
    trainer.say(Prepared(0, 6, 4))
    again = two.rank(RankReady(1, 2, 6, 4, resident=True))
    assert two.controller.hears_none(TrainerGone)
    two.controller.say(RankGone(1, 1, 0))  # late: its successor is here, and has its memory
    two.assign(0, 0, 0, (0,))
    two.answer(two.servers[0], 0)
    again.hear(Evict)
    first.say(Evicted(1))  # later than it ended: nobody has heard of it
    assert trainer.hears_none(RunTask)
    two.controller.say(RankGone(1, 2, 0))
    trainer.hear(RunTask)


def test_trainers_on_a_gpu_build_their_apps_when_they_are_asked_to_at_once_if_memory_lasts(
    two: Stage,
) -> None:
    trainers = [two.building_trainer(11 + one, one) for one in (0, 1)]
    for trainer in trainers:
        trainer.hear(Build)
    with stage(job(0)) as processor:
        assert processor.building_trainer(11).hears_none(Build)


def test_who_follows_a_trainer_whose_memory_ran_out_builds_with_the_device_alone(
    two: Stage,
) -> None:
    other, short = two.trainer(11, 0), two.building_trainer(12, 1)
    other.say(Prepared(0, 3, 10, resident=True))
    short.hear(Build)
    two.controller.say(TrainerGone(1, 12, SHORT_OF_MEMORY))
    assert two.controller.hear(TaskLost).round == BUILDING
    follows = two.building_trainer(13, 1)
    other.hear(Evict)
    assert follows.hears_none(Build)
    two.assign(0, 0, 0, (0,))
    two.answer(two.servers[0], 0)
    other.say(Evicted(0))
    follows.hear(Build)
    third = two.building_trainer(14, 0, verifies=True)
    assert third.hears_none(Build)
    assert other.hears_none(RunTask)  # all of the device is the other's
    follows.say(Prepared(1, 6, 4, resident=True))
    other.hear(RunTask)  # both fit
    third.hear(Build)


def test_a_task_that_ran_out_of_memory_runs_again_and_nobody_goes_before_it(two: Stage) -> None:
    servers = two.servers[0], two.server_of(1)
    short, other = two.trainer(11, 0), two.trainer(12, 1)
    for one, trainer in enumerate((short, other)):
        trainer.say(Prepared(one, 3, 10))
    assert two.controller.hears_none(TrainerGone)
    for one in (0, 1):
        two.assign(one, one, 0, (0, 1))
    for server in servers:
        two.answer(server, 0)
    short.hear(RunTask)
    other.hear(StageState)
    other.say(Staged(1, 0))
    two.controller.say(TrainerGone(0, 11, SHORT_OF_MEMORY))
    follows = two.building_trainer(13, 0)
    other.hear(Evict)
    assert follows.hears_none(Build)
    other.say(Evicted(1))
    follows.hear(Build)
    follows.say(Prepared(0, 3, 7, resident=True))
    task = follows.hear(RunTask)
    assert (task.round, task.shard) == (0, 0)
    assert other.hears_none(RunTask)


def test_who_is_to_build_alone_waits_for_who_builds_and_a_late_end_takes_nothing_from_it(
    two: Stage,
) -> None:
    two.building_trainer(11, 0).hear(Build)
    builds = two.building_trainer(12, 1)
    builds.hear(Build)
    two.controller.say(TrainerGone(0, 11, SHORT_OF_MEMORY))
    assert two.controller.hear(TaskLost).job == 0
    follows = two.building_trainer(13, 0)
    assert follows.hears_none(Build)
    two.controller.say(TrainerGone(0, 11, SHORT_OF_MEMORY))  # as if it were told late
    builds.say(Prepared(1, 3, 10))
    follows.hear(Build)
    two.controller.say(TrainerGone(0, 13, "killed by SIGKILL"))
    two.assign(0, 1, 0, (0,))
    two.answer(two.server_of(1), 0)
    builds.hear(RunTask)  # nobody has the device to itself any more


@pytest.mark.parametrize("stays", [True, False])
def test_a_second_build_of_an_app_counts_in_what_its_process_needs(stays: bool) -> None:
    builds, gone = [10], []
    settled: Any = SimpleNamespace(
        settle=lambda: (sum(builds), 60 - sum(builds), stays or len(builds) == 1)
    )
    trainer: Any = SimpleNamespace(
        _role=SimpleNamespace(verify=0.1),
        _repeated=SimpleNamespace(
            prepare=lambda: builds.append(10), evict=lambda: gone.append("again")
        ),
        _local=SimpleNamespace(leave=lambda: gone.append("store")),
    )
    assert LocalTrainer._settle(trainer, settled) == (20, 40, stays)
    assert gone == ([] if stays else ["store", "again"])


def test_a_second_trainer_gives_its_memory_back_too() -> None:
    with stage(job(0), job(1), verify=1.0, gpu=0) as world:
        again = world.trainer(21, 0, verifies=True)
        again.say(Prepared(0, 6, 4, resident=True))
        trainer = world.trainer(12, 1)
        trainer.say(Prepared(1, 6, 4))
        assert world.controller.hears_none(TrainerGone)
        world.assign(0, 1, 0, (0,))
        world.answer(world.server_of(1), 0)
        again.hear(Evict)
        assert trainer.hears_none(RunTask)
        again.say(Evicted(0))
        trainer.hear(RunTask)
