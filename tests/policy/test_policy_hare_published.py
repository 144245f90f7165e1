"""hare-published above 400 tasks: a stand-in gives the order, Algorithm 1 places to the letter."""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from warren.core.state import State
from warren.model.costs import CostTable
from warren.model.run import Run
from warren.policy.place.hare import published as hare_published
from warren.policy.registry import place_policy
from warren.solve.relaxation.hare_wspt import stand_in_middles

sys.path.insert(0, str(Path(__file__).parents[1]))
import worlds


def columns(run: Run, costs: CostTable) -> dict[str, np.ndarray]:
    view = State(run, costs).view()
    return {
        "arrival_ns_J": view.arrival_ns_J, "weight_J": view.weight_J, "scale_J": view.scale_J,
        "rounds_J": view.rounds_J, "comp_ns_JT": costs.comp_ns_JT, "sync_ns_JT": costs.sync_ns_JT,
        "fits_JT": costs.fits_JT, "type_D": view.type_D,
    }  # fmt: skip


def test_one_task_a_job_on_one_device_gives_the_middles_of_the_relaxation() -> None:
    # With (9) for every subset the relaxation is Smith's rule: 2 (weight 3), 1, 4 seconds.
    jobs = [worlds.job(0), worlds.job(1, weight=3.0), worlds.job(2)]
    run = worlds.run(worlds.cluster(["A"]), jobs)
    costs = worlds.costs([[4.0], [2.0], [1.0]], [[0.0]] * 3)
    _, _, middle_s = stand_in_middles(**columns(run, costs))
    assert middle_s.tolist() == pytest.approx([5.0, 1.0, 2.5])


def test_rounds_of_a_job_alone_are_spread_evenly_over_its_time() -> None:
    """Each is half done in the middle of its own turn: 1, 3, 5, 7, 9 s."""
    run = worlds.run(worlds.cluster(["A"]), [worlds.job(0, rounds=5)])
    _, _, middle_s = stand_in_middles(**columns(run, worlds.costs([[2.0]], [[0.0]])))
    assert middle_s.tolist() == pytest.approx([1.0, 3.0, 5.0, 7.0, 9.0])


def test_rounds_of_a_job_that_others_delay_are_spread_around_its_mean_busy_time() -> None:
    """Smith's rule: job 1 from 0 to 1 s, job 0 in three turns of 2 s after it."""
    jobs = [worlds.job(0, rounds=3), worlds.job(1)]
    run = worlds.run(worlds.cluster(["A"]), jobs)
    _, _, middle_s = stand_in_middles(**columns(run, worlds.costs([[2.0], [1.0]], [[0.0]] * 2)))
    assert middle_s.tolist() == pytest.approx([2.0, 4.0, 6.0, 0.5])


def test_rounds_follow_arrival_and_one_another_as_4_and_7_say() -> None:
    for seed in range(40):
        run, costs = worlds.random_world(seed)
        table = columns(run, costs)
        job_G, round_G, middle_s_G = stand_in_middles(**table)
        assert len(job_G) == table["rounds_J"].sum()
        turn_s = (np.where(costs.fits_JT, costs.comp_ns_JT + costs.sync_ns_JT, 2**60)).min(1) / 1e9
        arrival_s = (table["arrival_ns_J"] - table["arrival_ns_J"].min()) / 1e9
        for (j, r, h), (k, s, i) in pairwise(zip(job_G, round_G, middle_s_G, strict=True)):
            assert h >= arrival_s[j]
            if j == k:
                assert s == r + 1
                assert i - h >= turn_s[j] * (1 - 1e-9)


def test_above_the_limit_the_plan_is_algorithm_1_on_the_stand_ins_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hare_published, "MAX_TASKS", 10)
    for seed in range(8):
        run, costs = worlds.random_world(seed)
        view = State(run, costs).view()
        policy = place_policy("hare-published")
        decision, memory = policy.decide(view, policy.initial(view))
        plan = decision.plan
        assert plan is not None
        job_G, round_G, middle_s_G = stand_in_middles(**columns(run, costs))
        order = [(job_G[g], round_G[g]) for g in np.argsort(middle_s_G, kind="stable")]
        expected = [(j, r, k) for j, r in order for k in range(view.scale_J[j])]
        assert list(zip(plan.job_R, plan.round_R, plan.shard_R, strict=True)) == expected
        # Line 12 on the first tasks: with all devices free, the first ones that fit, in turn.
        first = [d for d, kind in enumerate(view.type_D) if costs.fits_JT[plan.job_R[0], kind]]
        assert plan.device_R[0] == first[0]
        assert "stand-in" in policy.explain(view, memory, 0)
