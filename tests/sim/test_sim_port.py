"""The port's contract: order of events, FIFO devices, barriers, refusals."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from sim_worlds import (
    assignments_of,
    drain,
    plan_of,
    random_plan,
    random_world,
    run_events,
    world_of,
)

from warren.model.decision import Assignment
from warren.model.errors import InfeasibleDecision, SpecError
from warren.model.events import RANK, CompDone, JobArrived, RoundsDone, TasksDone, Woken
from warren.model.job import Workload
from warren.model.measured import Switching
from warren.model.run import Scheduler
from warren.sim.plan_runner import run_plan
from warren.sim.port import SimPort


def test_two_devices_share_a_round_and_the_slower_one_sets_the_barrier() -> None:
    world = world_of([(5, 2, 2)], [[10, 30]], [[4, 1]], ["A", "B"])
    events = run_events(
        world,
        (
            Assignment(0, 0, 0, 1, (0,)),
            Assignment(1, 0, 0, 1, (1,)),
            Assignment(0, 0, 1, 1, (0, 1)),
        ),
    )
    assert events == [
        JobArrived(5, 0),
        CompDone(15, 0, 0, 1, (0,), 0),
        TasksDone(19, 0, 0, 1, (0,), 0, 5, 15, 10),
        CompDone(35, 0, 0, 1, (1,), 1),
        TasksDone(36, 0, 0, 1, (1,), 1, 5, 35, 30),
        RoundsDone(36, 0, 0, 1, False),
        CompDone(56, 0, 1, 1, (0, 1), 0),
        TasksDone(60, 0, 1, 1, (0, 1), 0, 36, 56, 20),
        RoundsDone(60, 0, 1, 1, True),
    ]


def test_a_head_that_waits_for_its_barrier_blocks_the_device() -> None:
    world = world_of([(0, 1, 2), (0, 1, 1)], [[10], [1]], [[5], [0]], ["A"])
    events = run_events(
        world, tuple(Assignment(0, *row, (0,)) for row in ((0, 0, 1), (0, 1, 1), (1, 0, 1)))
    )
    starts = sorted((e.job, e.round, e.start_ns) for e in events if isinstance(e, TasksDone))
    assert starts == [(0, 0, 0), (0, 1, 15), (1, 0, 25)]


def test_synchronization_overlaps_the_next_task_and_queues_only_on_a_lane() -> None:
    ends = {}
    for network in ("constant", "lane"):
        world = world_of([(0, 1, 1), (0, 1, 1)], [[10], [10]], [[25], [25]], ["A"], network)
        events = run_events(world, (Assignment(0, 0, 0, 1, (0,)), Assignment(0, 1, 0, 1, (0,))))
        ends[network] = [e.time_ns for e in events if isinstance(e, TasksDone)]
    assert ends == {"constant": [35, 45], "lane": [35, 60]}


def test_events_of_one_instant_come_together_in_order_of_rank() -> None:
    for seed in range(40):
        world = random_world(seed, "constant", noisy=False)
        port = SimPort(world.run, world.costs)
        port.submit(assignments_of(random_plan(world, seed, 3)))
        before = -1
        while batch := port.next_events():
            assert len({event.time_ns for event in batch}) == 1
            assert batch[0].time_ns > before
            before = batch[0].time_ns
            ranks = [RANK[type(event)] for event in batch]
            assert ranks == sorted(ranks)


def test_every_task_runs_once_and_no_device_runs_two_at_once() -> None:
    for seed in range(60):
        world = random_world(seed, "lane", noisy=seed % 2 == 0)
        events = run_events(world, assignments_of(random_plan(world, seed, 4)))
        done = [event for event in events if isinstance(event, TasksDone)]
        tasks = Counter(
            (e.job, r, k)
            for e in done
            for r in range(e.round, e.round + e.rounds)
            for k in e.shards
        )
        assert tasks == Counter(
            (job.index, r, k)
            for job in world.run.workload.jobs
            for r in range(job.rounds or 0)
            for k in range(job.scale)
        )
        free: dict[int, int] = {}
        for e in sorted(done, key=lambda e: (e.device, e.start_ns, e.comp_end_ns)):
            assert free.get(e.device, 0) <= e.start_ns <= e.comp_end_ns <= e.time_ns
            assert e.busy_ns <= e.comp_end_ns - e.start_ns
            free[e.device] = e.comp_end_ns


def test_a_wake_up_comes_once_an_instant_and_after_everything_else() -> None:
    world = world_of([(7, 1, 1)], [[1]], [[0]], ["A"])
    port = SimPort(world.run, world.costs)
    for time in (7, 7, 9, 3):
        port.wake_at(time)
    assert port.next_events() == (Woken(3),)
    port.wake_at(1)
    assert port.next_events() == (Woken(3),)
    assert port.next_events() == (JobArrived(7, 0), Woken(7))
    assert drain(port) == [Woken(9)]


def test_work_submitted_later_starts_when_it_is_submitted() -> None:
    world = world_of([(0, 1, 1), (50, 1, 1)], [[10], [10]], [[0], [0]], ["A"])
    port = SimPort(world.run, world.costs)
    assert port.next_events() == (JobArrived(0, 0),)
    assert port.next_events() == (JobArrived(50, 1),)
    port.submit((Assignment(0, 0, 0, 1, (0,)),))
    assert [type(event) for event in port.next_events()] == [CompDone, TasksDone, RoundsDone]
    assert port.next_events() == ()


def test_times_of_zero_end_and_never_go_back() -> None:
    world = world_of([(0, 2, 3)], [[0]], [[0]], ["A"])
    events = run_events(world, tuple(Assignment(0, 0, r, 1, (0, 1)) for r in range(3)))
    assert [e.finished for e in events if isinstance(e, RoundsDone)] == [False, False, True]
    assert {event.time_ns for event in events} == {0}


def test_unknown_rounds_and_copies_where_switching_is_charged_are_refused_all_at_once() -> None:
    world = world_of([(0, 1, 1), (0, 1, 1)], [[1], [1]], [[0], [0]], ["A"])
    jobs = tuple(replace(job, rounds=None) for job in world.run.workload.jobs)
    run = replace(
        world.run,
        cluster=replace(world.run.cluster, switching=Switching(scheme="hare")),
        workload=Workload(jobs=jobs),
        scheduler=Scheduler(place="fifo", copies_after=2.0),
    )
    with pytest.raises(SpecError) as caught:
        SimPort(run, world.costs)
    lines = str(caught.value).splitlines()
    assert len(lines) == 3
    assert "not with cluster.switching" in lines[0]
    assert "job-0" in lines[1]
    assert "job-1" in lines[2]


CYCLE = [(0, 1, 1, 0, 0), (1, 0, 1, 0, 0), (1, 1, 1, 0, 1), (0, 0, 1, 0, 1)]
"""Device 0 waits for job 0's first round, which stands behind job 1's second on device 1."""


@pytest.mark.parametrize(
    ("rows", "rule"),
    [
        (CYCLE, "job job-0, round 1, shard 0 on device h-0/A-0 never starts"),
        ([(0, 1, 1, 0, 0)], "never starts"),
        ([(0, 0, 1, 0, 0), (0, 0, 1, 0, 1)], "round 0, shard 0 on device h-0/A-. is planned twice"),
        ([(0, 0, 2, 0, 0), (0, 0, 2, 0, 1)], "stretch that does not name every shard"),
        ([(2, 0, 1, 0, 0), (2, 0, 1, 0, 1)], "shard 0 on device h-0/A-1 is planned twice"),
        ([(2, 0, 1, 0, 0), (2, 0, 2, 1, 0)], "stretch that does not name every shard"),
        ([(2, 0, 2, 0, 0), (1, 0, 1, 0, 0)], "never starts"),
        ([(0, 0, 1, 1, 0)], "shard that the job does not have"),
        ([(0, 0, 3, 0, 0)], "outside the rounds"),
        ([(0, -1, 1, 0, 0)], "outside the rounds"),
        ([(9, 0, 1, 0, 0)], "there are 3 jobs and 3 devices"),
        ([(0, 0, 1, 0, -1)], "there are 3 jobs and 3 devices"),
        ([(0, 0, 1, 0, 2)], "does not fit the device"),
    ],
)
def test_a_plan_that_cannot_run_is_refused_in_one_line(
    rows: list[tuple[int, int, int, int, int]], rule: str
) -> None:
    comp = [[10, -1], [10, 10], [10, 10]]
    jobs = [(0, 1, 2), (0, 1, 2), (0, 2, 2)]
    world = world_of(jobs, comp, [[1, 1]] * 3, ["A", "A", "B"])
    with pytest.raises(InfeasibleDecision, match=rule) as caught:
        run_plan(plan_of(rows), world.run, world.costs)
    assert "\n" not in str(caught.value)


def test_a_plan_that_leaves_jobs_unfinished_says_so_in_their_finish_times() -> None:
    world = world_of([(0, 1, 2), (0, 1, 1)], [[10], [10]], [[1], [1]], ["A"])
    outcome = run_plan(plan_of([(0, 0, 1, 0, 0)]), world.run, world.costs)
    assert outcome.finish_ns_J.tolist() == [-1, -1]
    assert len(outcome.timeline) == 1
    assert len(run_plan(plan_of([]), world.run, world.costs).timeline) == 0
