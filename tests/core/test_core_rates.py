"""Policies see what each job sent in its last round, measured from barrier to barrier."""

from __future__ import annotations

import sys
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from core_faults import FaultyPort, Trouble

from warren.core.loop import Core
from warren.model.costs import CostTable
from warren.model.decision import Decision, Group, Question, Shape
from warren.model.events import JobArrived, RolledBack, RoundsDone
from warren.model.run import Grain, Run
from warren.model.view import View
from warren.policy.registry import place_policy
from warren.sim.port import SimPort

sys.path.insert(0, str(Path(__file__).parents[1]))
import question_worlds
import worlds

MB = 10**6
SIZES = np.array([0, 3 * MB, 5 * MB, 7 * MB, 11 * MB, 13 * MB])


class Watching:
    """Places as another policy does, and works out each job's rate from the events alone."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.barriers = inner, defaultdict[int, list[tuple[int, int]]](list)
        self.looked = self.known = 0
        self.triggers = inner.triggers | {JobArrived, RoundsDone, RolledBack}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def decide(self, view: View, memory: Any) -> tuple[Decision, Any]:
        for event in view.changes:
            if isinstance(event, RoundsDone):
                self.barriers[event.job].append((event.barrier_ns, event.rounds))
            elif isinstance(event, RolledBack):
                self.barriers[event.job] = []
        rates = view.rate_J.tolist()
        for job, rate in enumerate(rates):
            job_size, scale = int(SIZES[job]), int(view.scale_J[job])
            passed = self.barriers[job]
            expected = -1.0
            if job_size and len(passed) > 1:
                (before, _), (last, rounds) = passed[-2:]
                expected = 2 * job_size * scale * rounds / ((last - before) / 1e9)
                self.known += 1
            assert rate == pytest.approx(expected, rel=1e-6)
        self.looked += 1
        return self.inner.decide(view, memory)


def world(seed: int, grain: Grain | None = None) -> tuple[Run, CostTable]:
    run, costs = worlds.random_world(seed, jobs=6, devices=3, grain=grain)
    return run, replace(costs, model_bytes_J=SIZES)


@pytest.mark.parametrize("place", ["hlas", "srtf"])
@pytest.mark.parametrize("grain", [None, Grain(rounds=3)])
@pytest.mark.parametrize("seed", range(4))
def test_a_rate_is_that_between_the_last_two_barriers(
    place: str, grain: Grain | None, seed: int
) -> None:
    run, costs = world(seed, grain)
    policy = Watching(place_policy(place))
    core = Core(
        run=run, costs=costs, policy=policy, port=SimPort(run, costs), sink=len, world="sim",
    )  # fmt: skip
    core.execute()
    assert policy.looked > 10
    assert policy.known > 10 or grain


def test_a_roll_back_makes_a_rate_unknown_until_two_barriers_have_passed() -> None:
    known = 0
    for seed in range(5):
        run, costs = world(seed)
        policy = Watching(place_policy("srtf"))
        port: Any = FaultyPort(run, costs, Trouble(seed=seed, rate=0.1))
        core = Core(run=run, costs=costs, policy=policy, port=port, sink=len, world="live")
        core.execute()
        known += policy.known
    assert known > 10


def shares(answer: Decision, *rates_bps: float) -> list[float]:
    """What part of a link each of two jobs takes, on hosts with links of these rates."""
    run, costs = question_worlds.small_world(rounds=5)
    hosts = tuple(
        replace(host, nic_bps=rate) for host, rate in zip(run.cluster.hosts, rates_bps, strict=True)
    )
    run = replace(run, cluster=replace(run.cluster, hosts=hosts))
    costs = replace(costs, model_bytes_J=np.array([100 * MB, 0]))
    found: list[list[float]] = []

    def look(view: View, memory: int) -> Decision:
        found.append(view.link_share_J.tolist())
        assert all(
            share == -1 if rate < 0 else share > 0
            for share, rate in zip(found[-1], view.rate_J.tolist(), strict=True)
        )
        if memory:
            return Decision()
        return answer

    watcher = question_worlds.Answering(
        "watch", look, Question.SHAPE, Question.GROUP, triggers=frozenset({JobArrived, RoundsDone})
    )
    core, _, _ = question_worlds.core_of(run, costs, question_worlds.Bound(), (watcher,))
    core.execute()
    return found[-1]


def test_a_share_is_of_the_slowest_link_that_a_job_may_use() -> None:
    # A round of one task: 1 s of COMP and 0.5 s of synchronization, 200 MB in 1.5 s.
    rate = 200 * MB / 1.5
    nothing = Decision()
    assert shares(nothing, 8e9, 8e8) == pytest.approx([rate / 1e8, -1])
    assert shares(nothing, 8e9, 1.6e9) == pytest.approx([rate / 2e8, -1])
    on_first = Decision(shapes={0: Shape((0,), (0,))})
    assert shares(on_first, 8e9, 8e8) == pytest.approx([rate / 1e9, -1])
    server_away = Decision(shapes={0: Shape((0,), (1,))})
    assert shares(server_away, 8e9, 8e8) == pytest.approx([rate / 1e8, -1])
    group = Decision(groups=(Group((0,), (0,)),), shapes={0: Shape(None, (0,))})
    assert shares(group, 8e9, 8e8) == pytest.approx([rate / 1e9, -1])


def test_a_measured_rate_of_the_network_is_that_of_all_links() -> None:
    run, _ = question_worlds.small_world()
    network = replace(run.cluster.network, outer_bps=4e8)
    assert replace(run.cluster, network=network).link_bytes_per_s == (5e7, 5e7)
    assert run.cluster.link_bytes_per_s == (25e9 / 8, 25e9 / 8)
