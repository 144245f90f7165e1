"""The planner of ``hare``: what it finds, and what more budget does."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import numpy as np
import pytest
from test_policy_papers import finish_ns, least_weighted_c, weighted_s

from warren.core.state import State
from warren.model.costs import CostTable
from warren.model.run import Grain, Run
from warren.model.units import NS_PER_S
from warren.policy.place.hare.planner import Planner
from warren.policy.registry import place_policy

sys.path.insert(0, str(Path(__file__).parents[1]))
import worlds

pytestmark = pytest.mark.slow

PLAN_COLUMNS = ("job", "round", "rounds", "shard", "device")


@pytest.mark.parametrize("network", ["constant", "lane"])
@pytest.mark.parametrize("grain", [Grain(), Grain(text="3 rounds", rounds=3)])
def test_more_budget_never_gives_hare_a_worse_schedule(network: str, grain: Grain) -> None:
    for seed in range(25):
        run, costs = worlds.random_world(seed, jobs=7, devices=3, network=network, grain=grain)  # type: ignore[arg-type]
        last = np.inf
        for budget in (0, 5_000, 20_000, 80_000):
            value = weighted_s(run, finish_ns(run, costs, "hare", budget=budget))
            assert value <= last
            last = value


def test_hare_is_never_worse_than_any_order_it_starts_from() -> None:
    for seed in range(12):
        run, costs = worlds.random_world(seed, network="lane" if seed % 2 else "constant")
        view = State(run, costs).view()
        found = weighted_s(run, finish_ns(run, costs, "hare"))
        for priority, step in Planner(view, "weighted-jct").orders():
            alone = Planner(view, "weighted-jct")
            alone.try_list(priority, step)
            assert found <= alone.value * (1 + 1e-12)


def eight_tasks(seed: int) -> tuple[Run, CostTable]:
    """Two or three jobs of eight tasks together, on three devices of unequal speed."""
    rng = random.Random(seed)
    shapes: list[tuple[int, int]] = []
    while sum(scale * rounds for scale, rounds in shapes) != 8:
        shapes = [(rng.randint(1, 3), rng.randint(1, 3)) for _ in range(rng.randint(2, 3))]
    jobs = [
        worlds.job(
            index, scale=scale, rounds=rounds, weight=rng.choice([0.5, 1.0, 4.0]),
            arrival_ns=rng.choice([0, 0, 1]) * NS_PER_S,
        )
        for index, (scale, rounds) in enumerate(shapes)
    ]  # fmt: skip
    comp = [[float(rng.randint(1, 9)) for _ in "ABC"] for _ in jobs]
    sync = [[float(rng.randint(1, int(one))) for one in row] for row in comp]
    return worlds.run(worlds.cluster(["A", "B", "C"]), jobs), worlds.costs(comp, sync)


def test_hare_finds_the_optimum_of_tiny_worlds_where_orders_of_jobs_do_not() -> None:
    above = 0
    for seed in range(12):
        run, costs = eight_tasks(seed)
        arrived = sum(job.weight * job.arrival_ns for job in run.workload.jobs) / NS_PER_S
        optimum = least_weighted_c(run, costs) - arrived
        assert weighted_s(run, finish_ns(run, costs, "hare")) == pytest.approx(optimum)
        # Without search: the best of six orders, each task on the device that ends it first.
        above += weighted_s(run, finish_ns(run, costs, "hare", budget=0)) > 1.05 * optimum
    assert above > 0


def test_hare_plans_for_the_makespan_when_asked_to() -> None:
    shorter = 0
    for seed in range(15):
        run, costs = worlds.random_world(seed, jobs=8, devices=3)
        first = min(job.arrival_ns for job in run.workload.jobs)
        last: float = np.inf
        for budget in (0, 10_000, 100_000):
            ends = finish_ns(run, costs, "hare", budget=budget, objective="makespan")
            assert ends.max() - first <= last
            last = float(ends.max() - first)
        weighted = finish_ns(run, costs, "hare", budget=100_000)
        assert last <= 1.05 * (weighted.max() - first)
        shorter += last < weighted.max() - first
    assert shorter > 5


def test_the_same_seed_gives_the_same_plan() -> None:
    for grain in (Grain(), Grain(text="3 rounds", rounds=3)):
        run, costs = worlds.random_world(4, jobs=8, devices=4, grain=grain)
        plans = []
        for _ in range(2):
            view, policy = State(run, costs).view(), place_policy("hare")
            plan = policy.decide(view, policy.initial(view))[0].plan
            assert plan is not None
            plans.append([getattr(plan, f"{name}_R").tolist() for name in PLAN_COLUMNS])
        assert plans[0] == plans[1]


def test_hare_plans_the_finish_times_that_come_true() -> None:
    for seed in range(12):
        run, costs = worlds.random_world(seed, network="lane" if seed % 2 else "constant")
        view = State(run, costs).view()
        policy = place_policy("hare")
        _, memory = policy.decide(view, policy.initial(view))
        assert memory.finish_ns_J.tolist() == finish_ns(run, costs, "hare").tolist()
