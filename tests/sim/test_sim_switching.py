"""A device that goes from one job to another spends the time of a switch, on both paths alike."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from sim_worlds import (
    World,
    assignments_of,
    outcome_of,
    plan_of,
    random_plan,
    random_world,
    run_events,
    world_of,
)  # fmt: skip
from test_sim_paths import assert_same

from warren.model.decision import Plan
from warren.model.errors import SpecError
from warren.model.measured import Switching
from warren.model.run import Scheduler
from warren.model.timeline import Timeline
from warren.sim.plan_runner import run_plan
from warren.sim.port import SimPort


def charged(world: World, switch_ns_JT: list[list[int]]) -> World:
    costs = replace(world.costs, switch_ns_JT=np.array(switch_ns_JT, dtype=np.int64))
    return replace(world, costs=costs)


def random_switches(world: World, seed: int) -> World:
    rng = random.Random(seed)
    jobs, types = world.costs.comp_ns_JT.shape
    return charged(world, [[rng.choice([0, 3, 70]) for _ in range(types)] for _ in range(jobs)])


def one_device(plan: Plan, jobs: list[tuple[int, int, int]]) -> list[tuple[int, int, int, int]]:
    """(job, round, start, COMP end) with T^c 10, T^s 4; a switch to job 0 takes 2, to job 1 5."""
    world = charged(world_of(jobs, [[10]] * 2, [[4]] * 2, ["A"]), [[2], [5]])
    outcome = outcome_of(world, run_events(world, assignments_of(plan)))
    assert_same(outcome, run_plan(plan, world.run, world.costs))
    line = outcome.timeline
    columns = (line.job_R, line.round_R, line.start_ns_R, line.comp_end_ns_R)
    return [tuple(map(int, row)) for row in zip(*columns, strict=True)]  # type: ignore[misc]


def test_each_change_of_job_is_charged_and_the_first_job_of_a_device_is_not() -> None:
    plan = plan_of([(0, 0, 1, 0, 0), (1, 0, 1, 0, 0), (0, 1, 1, 0, 0)])
    found = one_device(plan, [(0, 1, 2), (0, 1, 1)])
    assert found == [(0, 0, 0, 10), (1, 0, 15, 25), (0, 1, 27, 37)]


def test_going_on_with_a_job_after_its_barrier_or_inside_a_stretch_is_free() -> None:
    plan = plan_of([(0, 0, 1, 0, 0), (0, 1, 2, 0, 0), (1, 0, 1, 0, 0)])
    found = one_device(plan, [(0, 1, 3), (0, 1, 1)])
    assert found == [(0, 0, 0, 10), (0, 1, 14, 38), (1, 0, 43, 53)]


def test_a_switch_begins_when_the_task_could_start_not_while_its_device_waits() -> None:
    plan = plan_of([(0, 0, 1, 0, 0), (1, 0, 1, 0, 0)])
    found = one_device(plan, [(0, 1, 1), (100, 1, 1)])
    assert found == [(0, 0, 0, 10), (1, 0, 105, 115)]


def starts_by_rule(world: World, plan: Plan, line: Timeline) -> list[int]:
    """Each row's start, from the ends of other rows: device free, barrier, arrival, switch."""
    columns = zip(line.job_R, line.round_R, line.shard_R, line.device_R, strict=True)
    row_of = {tuple(map(int, key)): row for row, key in enumerate(columns)}
    starts, last_row = [0] * len(line), dict[int, int]()
    assert world.costs.switch_ns_JT is not None
    for one in assignments_of(plan):
        shard = one.shards[0] if len(one.shards) == 1 else -1
        row = row_of[one.job, one.round, shard, one.device]
        before_R = (line.job_R == one.job) & (line.round_R < one.round)
        arrival_ns = world.run.workload.jobs[one.job].arrival_ns
        starts[row] = int(line.end_ns_R[before_R].max(initial=arrival_ns))
        last = last_row.get(one.device)
        if last is not None:
            starts[row] = max(starts[row], int(line.comp_end_ns_R[last]))
            if line.job_R[last] != one.job:
                kind = world.run.cluster.type_of_device[one.device]
                starts[row] += int(world.costs.switch_ns_JT[one.job, kind])
        last_row[one.device] = row
    return starts


@pytest.mark.parametrize("network", ["constant", "lane"])
@pytest.mark.parametrize("grain", [1, 6])
def test_both_paths_charge_what_the_rule_says(grain: int, network: str) -> None:
    switched = 0
    for seed in range(40):
        free = random_world(seed, network, noisy=seed % 2 == 1)
        world = random_switches(free, seed)
        plan = random_plan(world, seed, grain)
        outcome = outcome_of(world, run_events(world, assignments_of(plan)))
        assert_same(outcome, run_plan(plan, world.run, world.costs))
        assert outcome.timeline.start_ns_R.tolist() == starts_by_rule(world, plan, outcome.timeline)
        switched += (outcome.finish_ns_J > run_plan(plan, free.run, free.costs).finish_ns_J).any()
    assert switched > 10


def test_switches_that_take_no_time_change_nothing() -> None:
    for seed in range(20):
        world = random_world(seed, "constant", noisy=False)
        zero = charged(world, np.zeros_like(world.costs.comp_ns_JT).tolist())
        plan = random_plan(world, seed, 3)
        assert_same(run_plan(plan, world.run, world.costs), run_plan(plan, zero.run, zero.costs))


def test_copies_of_late_tasks_are_refused_where_switching_is_charged() -> None:
    world = random_world(1, "constant", noisy=False)
    cluster = replace(world.run.cluster, switching=Switching(scheme="hare"))
    run = replace(world.run, cluster=cluster, scheduler=Scheduler(copies_after=2.0))
    with pytest.raises(SpecError, match=r"copies_after: not with cluster\.switching"):
        SimPort(run, world.costs)
