"""Devices at work on one machine: by hand, and against a second clock that is slow and simple."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from contention_worlds import FULL, MS, TINY, full, on, rounds_on, run, run_late, spans_ms
from sim_worlds import (
    World,
    assignments_of,
    random_plan,
    random_world,
)

from warren.model.decision import Assignment
from warren.model.draws import is_drawn
from warren.model.events import TaskDropped, TasksDone
from warren.sim.shared_cpu import raised_ns


def test_a_device_alone_at_work_adds_handing_over_and_nothing_else() -> None:
    events = run(full([(0, 1, 3)], 2), *rounds_on(1, 0, 3))
    assert spans_ms(events, 0) == [(0, 21), (21, 42), (42, 63)]


def test_two_devices_that_start_at_one_instant_both_count() -> None:
    events = run(full([(0, 1, 2), (0, 1, 2)], 2), *rounds_on(0, 0, 2), *rounds_on(1, 1, 2))
    assert spans_ms(events, 0) == spans_ms(events, 1) == [(0, 35), (35, 70)]


@pytest.mark.parametrize("first", [0, 1])
def test_a_task_takes_the_time_of_the_devices_at_work_when_it_starts(first: int) -> None:
    made = full([(0, 1, 5), (50 * MS, 1, 1)], 2)
    events = run_late(made, 50, rounds_on(first, 0, 5), rounds_on(1 - first, 1, 1))
    assert spans_ms(events, 1) == [(50, 85)]
    assert spans_ms(events, 0) == [(0, 21), (21, 42), (42, 63), (63, 98), (98, 119)]


def test_three_devices_share_two_cores_until_one_is_done() -> None:
    made = full([(0, 1, 1), (0, 1, 2), (0, 1, 3)], 3)
    events = run(made, *rounds_on(0, 0, 1), *rounds_on(1, 1, 2), *rounds_on(2, 2, 3))
    assert spans_ms(events, 0) == [(0, 52.5)]
    assert spans_ms(events, 1) == [(0, 52.5), (52.5, 87.5)]
    assert spans_ms(events, 2) == [(0, 52.5), (52.5, 87.5), (87.5, 108.5)]


@pytest.mark.parametrize("leaver", [0, 1])
def test_a_device_that_is_done_at_the_very_instant_no_longer_counts(leaver: int) -> None:
    made = full([(0, 1, 1), (0, 1, 2)], 2)
    events = run(made, *rounds_on(leaver, 0, 1), *rounds_on(1 - leaver, 1, 2))
    assert spans_ms(events, 1) == [(0, 35), (35, 56)]


@pytest.mark.parametrize("rounds", [1, 2])
def test_a_device_is_at_work_while_it_synchronizes(rounds: int) -> None:
    # Job 0 has left COMP at 21 ms and synchronizes until 50 ms.
    made = full([(0, 1, rounds), (30 * MS, 1, 1)], 2, sync_ns=30 * MS)
    events = run_late(made, 30, rounds_on(0, 0, rounds), rounds_on(1, 1, 1))
    assert spans_ms(events, 1) == [(30, 65)]


def test_a_device_that_starts_when_its_barrier_passes_counts_at_that_instant() -> None:
    # Job 0 starts again at 50 ms, when job 1 comes; were it over, job 1 would be alone.
    for rounds, took in ((1, 21), (2, 35)):
        made = full([(0, 1, rounds), (50 * MS, 1, 1)], 2, sync_ns=30 * MS)
        events = run_late(made, 50, rounds_on(0, 0, rounds), rounds_on(1, 1, 1))
        assert spans_ms(events, 1) == [(50, 50 + took)]


def test_a_device_whose_queue_waits_for_others_or_for_an_arrival_is_not_at_work() -> None:
    made = full([(0, 1, 3), (90 * MS, 1, 1)], 3)
    onwards = [*rounds_on(0, 0, 2), Assignment(1, 0, 2, 1, (0,)), Assignment(2, 1, 0, 1, (0,))]
    events = run(made, *onwards)
    assert spans_ms(events, 0) == [(0, 21), (21, 42), (42, 63)]
    assert spans_ms(events, 1) == [(90, 111)]


def test_a_task_after_one_of_another_job_starts_later_by_what_its_row_says() -> None:
    made = full([(0, 1, 4), (0, 1, 2)], 1)
    turns = np.array([[4 * MS], [7 * MS]])
    costs = replace(made.costs, turn_ns_JT=turns)
    own, other = rounds_on(0, 0, 4), rounds_on(0, 1, 2)
    events = run(World(made.run, costs), *own[:2], *other, *own[2:])
    assert spans_ms(events, 0) == [(0, 21), (21, 42), (95, 116), (116, 137)]
    assert spans_ms(events, 1) == [(49, 70), (70, 91)]


def test_the_last_round_of_a_stretch_counts_what_comes_when_it_starts() -> None:
    made = full([(0, 1, 2), (21 * MS, 1, 1)], 2)
    events = run_late(made, 21, [Assignment(0, 0, 0, 2, (0,))], rounds_on(1, 1, 1))
    assert spans_ms(events, 0) == [(0, 56)]
    assert spans_ms(events, 1) == [(21, 56)]


def test_a_device_begins_nothing_else_while_it_computes_a_task_again() -> None:
    """The second and third task of a job, each for 20 ms more; job 1 has one task, which is not."""
    made = on(FULL, full([(0, 1, 4), (0, 1, 1)], 1), verify=1e-9)
    events = run(made, *rounds_on(0, 0, 4), *rounds_on(0, 1, 1))
    assert spans_ms(events, 0) == [(0, 21), (21, 42), (63, 84), (105, 126)]
    assert spans_ms(events, 1) == [(126, 147)]


def test_a_barrier_does_not_wait_for_a_task_that_is_computed_again() -> None:
    """Job 0 has its second trainer on device 0, and goes on at once on device 1, which is free."""
    made = on(FULL, full([(0, 1, 3)], 2), verify=1e-9)
    other = Assignment(1, 0, 2, 1, (0,))
    events = run(made, *rounds_on(0, 0, 2), other)
    assert spans_ms(events, 0) == [(0, 21), (21, 42), (42, 77)]  # two devices are at work then


def test_of_a_stretch_as_many_tasks_are_computed_again_as_are_expected_at_its_end() -> None:
    made = on(FULL, full([(0, 1, 12), (0, 1, 1)], 1), verify=0.1)
    events = run(made, Assignment(0, 0, 0, 12, (0,)), *rounds_on(0, 1, 1))
    # The first two of twelve, and one of ten: three more tasks of 21 ms.
    assert spans_ms(events, 1) == [(15 * 21, 16 * 21)]


def test_short_stretches_owe_parts_of_a_task_until_it_is_whole() -> None:
    """A quarter of the tasks: after the first two, one for two stretches of two rounds."""
    made = on(FULL, full([(0, 1, 8)], 1), verify=0.25)
    events = run(made, *(Assignment(0, 0, at, 2, (0,)) for at in (0, 2, 4, 6)))
    begins = [start for start, _ in spans_ms(events, 0)]
    assert begins == [0, 4 * 21, 6 * 21, 9 * 21]


def test_a_copy_counts_its_own_device() -> None:
    made = full([(0, 1, 1), (5 * MS, 1, 1)], 2)
    events = run_late(made, 5, rounds_on(0, 0, 1), [], copies=rounds_on(1, 0, 1))
    (dropped,) = [event for event in events if isinstance(event, TaskDropped)]
    assert (dropped.device, dropped.time_ns, dropped.busy_ns) == (1, 40 * MS, 35 * MS)


def seen_by_a_slow_clock(
    made: World, assignments: tuple[Assignment, ...]
) -> dict[tuple[int, ...], tuple[int, int]]:
    """(job, round, shard): COMP start and end. Looks at each instant at which anything ends.

    Assignments of one round and one shard, all submitted before time starts; network constant. A
    task that is computed again keeps its device for as long as it took.
    """
    second = {one.job: one.device for one in reversed(assignments)}
    computed: Counter[tuple[int, int]] = Counter()
    verified: Counter[int] = Counter()

    def is_verified(task: tuple[int, ...], device: int) -> bool:
        job, before = task[0], computed[device, task[0]]
        computed[device, job] += 1
        if not made.run.verify or second[job] != device or before == verified[job]:
            return False
        taken = verified[job] < 2 or is_drawn(*task, made.run.verify)
        verified[job] += taken
        return taken

    jobs, overheads = made.run.workload.jobs, made.run.cluster.overheads
    assert overheads is not None
    kinds = made.run.cluster.type_of_device
    queues = {d: [one for one in assignments if one.device == d] for d in range(len(kinds))}
    until, held = dict.fromkeys(queues, 0), dict.fromkeys(queues, 0)
    started: dict[tuple[int, ...], tuple[int, int]] = {}
    ends: dict[tuple[int, ...], int] = {}

    def may_start(one: Assignment, now: int) -> bool:
        before = [(one.job, one.round - 1, k) for k in range(jobs[one.job].scale)]
        passed = one.round == 0 or all(ends.get(task, now + 1) <= now for task in before)
        return passed and jobs[one.job].arrival_ns <= now

    clock = {0, *(job.arrival_ns for job in jobs)}
    while clock:
        now = min(clock)
        clock.remove(now)
        for device, queue in queues.items():
            if queue and until[device] == now and (*_task(queue[0]),) in started:
                queue.pop(0)
        due = [
            device
            for device, queue in queues.items()
            if queue and until[device] <= now and may_start(queue[0], now)
        ]
        at_work = sum(1 for device in queues if device in due or held[device] > now)
        for device, queue in queues.items():
            if device in due:
                task = _task(queue[0])
                comp_ns = int(made.costs.comp_ns_JT[task[0], kinds[device]])
                sync_ns = int(made.costs.sync_ns_JT[task[0], kinds[device]])
                cpu_ns = overheads.task_cpu_ns + overheads.round_cpu_ns / jobs[task[0]].scale
                comp_ns, sync_ns = raised_ns(overheads, at_work, comp_ns, sync_ns, cpu_ns)
                started[task] = (now, now + comp_ns)
                ends[task] = now + comp_ns + sync_ns
                until[device] = now + comp_ns * (2 if is_verified(task, device) else 1)
                held[device] = max(until[device], ends[task])
                clock |= {until[device], ends[task]}
    return started


def _task(one: Assignment) -> tuple[int, ...]:
    return (one.job, one.round, one.shards[0])


@pytest.mark.parametrize("verify", [0.0, 0.01, 0.3])
def test_random_runs_take_the_times_that_a_slow_clock_sees(verify: float) -> None:
    for seed in range(50):
        made = on(TINY, random_world(seed, "constant", noisy=False), verify)
        plan = assignments_of(random_plan(made, seed, 1))
        events = run(made, *plan)
        done = [event for event in events if isinstance(event, TasksDone)]
        found = {
            (one.job, one.round, one.shards[0]): (one.start_ns, one.comp_end_ns) for one in done
        }
        assert found == seen_by_a_slow_clock(made, plan)
