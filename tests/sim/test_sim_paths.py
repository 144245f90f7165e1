"""The event path and the compiled path are one simulator."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from sim_worlds import assignments_of, outcome_of, random_plan, random_world, run_events

from warren.model.timeline import PlanOutcome, Timeline
from warren.sim.plan_runner import run_plan
from warren.sim.port import SimPort


def assert_same(one: PlanOutcome, other: PlanOutcome) -> None:
    for field in fields(Timeline):
        np.testing.assert_array_equal(
            getattr(one.timeline, field.name), getattr(other.timeline, field.name), field.name
        )
    np.testing.assert_array_equal(one.finish_ns_J, other.finish_ns_J)


@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize("network", ["constant", "lane"])
@pytest.mark.parametrize("grain", [1, 6])
def test_event_path_and_compiled_path_give_identical_timelines(
    grain: int, network: str, noisy: bool
) -> None:
    for seed in range(50):
        world = random_world(seed, network, noisy)
        plan = random_plan(world, seed, grain)
        events = run_events(world, assignments_of(plan))
        compiled = SimPort(world.run, world.costs).run_plan(plan)
        assert compiled is not None
        assert_same(outcome_of(world, events), compiled)
        assert (compiled.finish_ns_J >= 0).all()
        assert compiled.timeline.tasks_R.sum() == sum(
            job.scale * (job.rounds or 0) for job in world.run.workload.jobs
        )
        assert_same(compiled, run_plan(plan, world.run, world.costs))
