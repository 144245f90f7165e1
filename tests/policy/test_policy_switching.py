"""What ``hare`` does where switching between jobs is charged."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from test_policy_papers import finish_ns, weighted_s

from warren.core.state import State
from warren.model.costs import CostTable
from warren.model.units import NS_PER_S
from warren.policy.registry import place_policy
from warren.runs.bound_of_run import columns_of
from warren.sim.plan_runner import run_plan
from warren.solve.bounds.lower_bounds import lower_bounds

sys.path.insert(0, str(Path(__file__).parents[1]))
import worlds


def charged(costs: CostTable, switch_s: float) -> CostTable:
    switch_ns_JT = np.full(costs.comp_ns_JT.shape, int(switch_s * NS_PER_S))
    return replace(costs, switch_ns_JT=switch_ns_JT)


@pytest.mark.parametrize("network", ["constant", "lane"])
def test_the_times_that_hare_plans_with_have_every_switch(network: str) -> None:
    policy = place_policy("hare", {"budget": 20_000})
    for seed in range(12):
        run, costs = worlds.random_world(seed, devices=3, network=network)  # type: ignore[arg-type]
        costs = charged(costs, 0.5)
        view = State(run, costs).view()
        decision, memory = policy.decide(view, policy.initial(view))
        assert decision.plan is not None
        ran = run_plan(decision.plan, run, costs)
        assert memory.finish_ns_J.tolist() == ran.finish_ns_J.tolist()


def test_hare_is_never_worse_for_knowing_of_switches_and_gains_most_where_they_are_dear() -> None:
    saved = {0.01: 0.0, 20.0: 0.0}
    for seed in range(10):
        run, costs = worlds.random_world(seed, jobs=5, devices=3)
        view = State(run, costs).view()
        policy = place_policy("hare", {"budget": 0})
        blind, _ = policy.decide(view, policy.initial(view))
        assert blind.plan is not None
        for switch_s in saved:
            dear = charged(costs, switch_s)
            without = weighted_s(run, run_plan(blind.plan, run, dear).finish_ns_J)
            found = weighted_s(run, finish_ns(run, dear, "hare", budget=0))
            assert found <= without * (1 + 1e-12)
            saved[switch_s] += 1 - found / without
    assert saved[20.0] / 10 > 0.3
    assert saved[0.01] < saved[20.0]


def test_more_budget_never_gives_a_worse_schedule_with_switches_either() -> None:
    for seed in range(8):
        run, costs = worlds.random_world(seed, jobs=4, devices=2)
        last = np.inf
        for budget in (0, 5_000, 50_000):
            value = weighted_s(run, finish_ns(run, charged(costs, 1.0), "hare", budget=budget))
            assert value <= last
            last = value


@pytest.mark.parametrize("place", ["hare", "srtf", "gavel-fifo", "sched-homo", "sched-allox"])
def test_the_bound_without_switches_holds_with_them(place: str) -> None:
    for seed in range(4):
        run, costs = worlds.random_world(seed)
        rounds_J = np.array([job.rounds for job in run.workload.jobs])
        bound = lower_bounds(**columns_of(run, costs, rounds_J))
        assert bound.weighted_jct_s is not None
        ended = finish_ns(run, charged(costs, 0.3), place)
        assert weighted_s(run, ended) >= bound.weighted_jct_s * (1 - 1e-9)
