"""What was read into SRTF for unequal devices: which ones a round takes, and for how long."""

from __future__ import annotations

import sys
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np

from warren.core.journal_reader import read_history
from warren.core.loop import Core
from warren.core.state import State
from warren.model.costs import CostTable
from warren.model.decision import Decision
from warren.model.run import Grain, Run
from warren.model.units import NS_PER_S
from warren.model.view import View
from warren.policy.common.round_times import gang_round_ns, no_faster
from warren.policy.place.hare.srtf import Srtf, SrtfMemory
from warren.policy.protocol import AnyPolicy
from warren.policy.registry import place_policy
from warren.sim.port import SimPort

sys.path.insert(0, str(Path(__file__).parents[1]))
import worlds


def journal_of(run: Run, costs: CostTable, policy: AnyPolicy) -> bytes:
    journal = bytearray()
    core = Core(
        run=run, costs=costs, policy=policy, port=SimPort(run, costs),
        sink=journal.extend, world="sim", check=True,
    )  # fmt: skip
    core.execute()
    return bytes(journal)


def finish_s(run: Run, costs: CostTable) -> list[float]:
    journal = journal_of(run, costs, place_policy("srtf"))
    found: list[float] = (read_history(journal).finish_ns_J / NS_PER_S).tolist()
    return found


class LooksAtAll(Srtf):
    """Takes no job to be served."""

    def decide(self, view: View, memory: SrtfMemory) -> tuple[Decision, SrtfMemory]:
        return super().decide(view, replace(memory, left=True))


def seconds(value: int) -> Grain:
    return Grain(text=f"{value} s", rounds=None, time_ns=value * NS_PER_S)


def test_a_round_takes_the_slowest_of_the_devices_that_end_it_soonest() -> None:
    # Against every set of devices: none gives a shorter round, and none as short is slower.
    for seed in range(40):
        run, costs = worlds.random_world(seed, jobs=1, devices=6)
        view = State(run, costs).view()
        cost_T = costs.comp_ns_JT[0] + costs.sync_ns_JT[0]
        free = np.flatnonzero(np.random.default_rng(seed).random(6) < 0.8)
        fitting = [int(one) for one in free if costs.fits_JT[0, view.type_D[one]]]
        for count in range(1, 5):
            found = no_faster(view, 0, free, count)
            assert len(set(found)) == len(found) == min(count, len(fitting))
            if found:
                speeds = [
                    sorted(cost_T[view.type_D[list(gang)]].tolist(), reverse=True)
                    for gang in combinations(fitting, len(found))
                ]
                pace = min(gang[0] for gang in speeds)
                slowest = max(gang for gang in speeds if gang[0] == pace)
                assert cost_T[view.type_D[found]].tolist() == slowest


def test_looking_only_at_what_changed_decides_as_looking_at_every_job_does() -> None:
    for seed in range(20):
        for grain in (Grain(), seconds(8)):
            run, costs = worlds.random_world(seed, jobs=8, devices=6)
            run = replace(run, grain=grain)
            assert journal_of(run, costs, Srtf()) == journal_of(run, costs, LooksAtAll())


def test_srtf_leaves_a_faster_device_to_others_where_a_slow_one_sets_the_pace() -> None:
    for grain in (Grain(), seconds(8)):
        jobs = [worlds.job(0, scale=2, rounds=4), worlds.job(1, rounds=9)]
        run = worlds.run(worlds.cluster(["fast", "slow", "slow"]), jobs, grain=grain)
        # The wide job is first: 4 rounds of 2 s, with the fast device or without.
        costs = worlds.costs([[1.0, 2.0], [1.0, 4.0]], [[0.0] * 2] * 2)
        assert finish_s(run, costs) == [8.0, 9.0]


def test_srtf_looks_again_at_a_job_on_slow_devices_when_the_grain_says() -> None:
    jobs = [worlds.job(0, rounds=10), worlds.job(1, rounds=20)]
    run = worlds.run(worlds.cluster(["fast", "slow"]), jobs, grain=seconds(10))
    costs = worlds.costs([[1.0, 5.0]] * 2, [[0.0] * 2] * 2)
    # Until 10 the long job has run 2 rounds of 5 s; it then moves to the fast device for 18 more.
    assert finish_s(run, costs) == [10.0, 28.0]


def test_the_round_time_of_a_gang_is_that_of_its_slowest_member_with_its_share_of_the_tasks() -> (
    None
):
    run = worlds.run(worlds.cluster(["A", "B"]), [worlds.job(0, scale=3)])
    view = State(run, worlds.costs([[1.0, 4.0]], [[0.5, 0.25]])).view()
    # A runs shard 0 and B shards 1 and 2; turned round, B has one task and A two.
    assert gang_round_ns(view, 0, [0, 1]) == 8.25 * NS_PER_S
    assert gang_round_ns(view, 0, [1, 0]) == 4.25 * NS_PER_S
    assert gang_round_ns(view, 0, [0]) == 3.5 * NS_PER_S
