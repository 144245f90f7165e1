"""How ``hare`` dispatches stretches in time: as ``srtf`` does, and better."""

from __future__ import annotations

import sys
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_policy_papers import finish_ns, weighted_s

from warren.core.state import State
from warren.model.run import Grain
from warren.model.units import NS_PER_S
from warren.model.view import View
from warren.policy.place.hare.planner import Planner
from warren.policy.place.hare.problem import finish_ns_of, gangs_of, instance_of
from warren.solve.lists.dispatch_options import TypePreferences, nearby, plain_srtf
from warren.solve.lists.shortest_remaining import by_remaining

sys.path.insert(0, str(Path(__file__).parents[1]))
import worlds

pytestmark = pytest.mark.slow


def seconds(value: float) -> Grain:
    return Grain(text=f"{value} s", rounds=None, time_ns=int(value * NS_PER_S))


GRAINS = (Grain(text="3 rounds", rounds=3), seconds(2), seconds(3.5), seconds(7))


def srtf_of(view: View) -> TypePreferences:
    gangs = gangs_of(view)
    return plain_srtf(gangs, gangs.round_ns_J, view.costs.fits_JT.shape[1])


def dispatched(view: View, preferences: TypePreferences) -> tuple[Any, Any]:
    rows, finish_ns_J, _ = by_remaining(instance_of(view, False), preferences)
    return rows, finish_ns_J


@pytest.mark.parametrize("grain", [Grain(), *GRAINS], ids=str)
def test_without_prices_stretches_end_when_srtf_ends_them(grain: Grain) -> None:
    for seed in range(60):
        run, costs = worlds.random_world(seed, jobs=8, devices=5, grain=grain)
        view = State(run, costs).view()
        rows, finish_ns_J = dispatched(view, srtf_of(view))
        assert finish_ns_J.tolist() == finish_ns(run, costs, "srtf").tolist()
        # As a plan a device that srtf keeps waiting starts at once.
        assert np.all(finish_ns_of(view, rows) <= finish_ns_J)


@pytest.mark.parametrize("objective", ["weighted-jct", "makespan"])
@pytest.mark.parametrize("grain", GRAINS, ids=str)
def test_hare_is_never_behind_srtf_at_a_coarse_grain(grain: Grain, objective: str) -> None:
    ahead = 0
    for seed in range(40):
        run, costs = worlds.random_world(seed, jobs=8, devices=5, grain=grain)
        ends = finish_ns(run, costs, "hare", budget=0, objective=objective)
        other = finish_ns(run, costs, "srtf")
        if objective == "makespan":
            assert ends.max() <= other.max()
            ahead += ends.max() < other.max()
        else:
            assert weighted_s(run, ends) <= weighted_s(run, other)
            ahead += weighted_s(run, ends) < weighted_s(run, other)
    assert ahead > 10


def test_whatever_is_preferred_each_task_runs_once_and_no_later_than_expected() -> None:
    for seed in range(40):
        run, costs = worlds.random_world(seed, jobs=8, devices=5, grain=GRAINS[seed % 4])
        view, random = State(run, costs).view(), np.random.default_rng(seed)
        for preferences in Planner(view, "weighted-jct").preferences():
            preferred = preferences
            for _ in range(4):
                preferred = nearby(preferred, random)
                rows, finish_ns_J = dispatched(view, preferred)
                job, first, rounds, shard, device = rows
                tasks = {
                    (one, round_, part)
                    for one, begin, count, part in zip(job, first, rounds, shard, strict=True)
                    for round_ in range(begin, begin + count)
                }
                assert len(tasks) == rounds.sum() == (view.scale_J * view.rounds_J).sum()
                assert costs.fits_JT[job, view.type_D[device]].all()
                executed = finish_ns_of(view, rows)
                assert np.all((executed > 0) & (executed <= finish_ns_J))


def test_remaining_time_over_weight_is_the_best_order_on_one_device() -> None:
    random = np.random.default_rng(3)
    for _ in range(20):
        rounds, weights = random.integers(1, 9, size=5), random.integers(1, 9, size=5)
        jobs = [
            worlds.job(index, rounds=int(rounds[index]), weight=float(weights[index]))
            for index in range(5)
        ]
        run = worlds.run(worlds.cluster(["A"]), jobs, grain=Grain(text="2 rounds", rounds=2))
        view = State(run, worlds.costs([[1.0]] * 5, [[0.0]] * 5)).view()
        plain = srtf_of(view)
        weighted = plain._replace(length_J=plain.length_J / weights)
        least = min(
            np.cumsum(rounds[list(order)]) @ weights[list(order)]
            for order in permutations(range(5))
        )
        assert dispatched(view, weighted)[1] @ weights == least * NS_PER_S


def test_a_job_waits_for_a_type_that_is_worth_it_unless_its_gang_needs_more() -> None:
    jobs = [worlds.job(0, rounds=10), worlds.job(1, rounds=10), worlds.job(2, scale=2, rounds=1)]
    run = worlds.run(worlds.cluster(["fast", "slow"]), jobs, grain=seconds(40))
    view = State(run, worlds.costs([[1.0, 4.0]] * 3, [[0.0] * 2] * 3)).view()
    free = srtf_of(view)
    # First the wide job, on the slow device until 4 s, on the fast one until 1 s.
    assert (dispatched(view, free)[1] / NS_PER_S).tolist() == [11.0, 44.0, 4.0]
    waits = dispatched(view, free._replace(patience=3.0))[1]
    assert (waits / NS_PER_S).tolist() == [11.0, 21.0, 4.0]
    # Where the first job's seconds on the fast device are dear, it takes the slow one.
    price_s_JT = np.array([[50.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
    priced = dispatched(view, free._replace(patience=3.0, price_s_JT=price_s_JT))[1]
    assert (priced / NS_PER_S).tolist() == [44.0, 11.0, 4.0]


def test_stretches_on_slow_devices_are_as_many_as_it_takes() -> None:
    jobs = [worlds.job(index, rounds=30) for index in range(7)]
    run = worlds.run(worlds.cluster(["fast"] + ["slow"] * 6), jobs, grain=seconds(10))
    costs = worlds.costs([[1.0, 9.0]] * 7, [[0.0] * 2] * 7)
    view = State(run, costs).view()
    rows, finish_ns_J = dispatched(view, srtf_of(view))
    # On the fast device a job is three stretches; room is made for twice that.
    assert rows.shape[1] > 2 * 7 * 3
    assert rows[2].sum() == 7 * 30
    assert finish_ns_J.tolist() == finish_ns(run, costs, "srtf").tolist()
