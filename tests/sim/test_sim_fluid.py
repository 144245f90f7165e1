"""Rings whose bytes share links as fluids do: numbers by hand, and a second simulation."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from fluid_worlds import drawn, fluid, step_by_step, with_costs
from sim_worlds import Planned, World, plan_of
from test_sim_rings import MB, Rows, S, ends_s, gang

from warren.core.loop import Core
from warren.cost.max_min import fluid_round_s_J
from warren.cost.run_rings import (
    fluid_network,
    host_of_D,
    least_fluid_exchange_s_J,
    ring_exchanges,
    with_rings,
)
from warren.model.cluster import Network
from warren.model.run import Run, Truth
from warren.sim.build import sim_port
from warren.sim.network.flows import TiedRings
from warren.sim.network.fluid import FluidRounds
from warren.sim.network.ring_gangs import RingGang


def test_a_ring_alone_takes_computation_latency_and_its_bytes_over_its_slowest_card() -> None:
    """2 MB over 1 MB/s for two workers: 1 + 0.02 + 2 s; within a host over 100 MB/s: 1.03 s."""
    one = fluid([1, 1, 2], [(0, 2, 10), (0, 2, 10)], [4, 1, 4])
    found = ends_s(one, gang(0, [0, 1], 10) + gang(1, [2, 3], 10))
    assert found == pytest.approx([10 * 3.02, 10 * 1.03])


def test_rings_in_step_have_half_of_their_link_each() -> None:
    one = fluid([2, 2], [(0, 2, 5), (0, 2, 5)])
    found = ends_s(one, gang(0, [0, 2], 5) + gang(1, [1, 3], 5))
    assert found == pytest.approx([5 * 5.02] * 2)


def test_rings_that_send_while_the_other_computes_do_not_disturb_each_other() -> None:
    """2 s of COMP, 1 s of sending; the second ring begins 1.5 s later, so they never meet."""
    one = with_costs(fluid([2, 2], [(0, 2, 20), (1500 * MB, 2, 20)]), [2.0, 2.0], [1.0, 1.0])
    found = ends_s(one, gang(0, [0, 2], 20) + gang(1, [1, 3], 20))
    assert found == pytest.approx([20 * 3.02, 1.5 + 20 * 3.02])


def test_what_is_left_of_an_exchange_goes_on_at_the_new_rate() -> None:
    """One sends 2 MB from 1.02 s on. The other, a second later, has half of the link from 2.02 s
    on: a MB is left, which takes 2 s. Then the other's second MB goes alone."""
    one = fluid([2, 2], [(0, 2, 1), (S, 2, 1)])
    assert ends_s(one, gang(0, [0, 2], 1) + gang(1, [1, 3], 1)) == pytest.approx([4.02, 5.02])


def test_a_ring_bound_elsewhere_leaves_the_rest_of_a_shared_link() -> None:
    """Hosts of 1, 4, 4 MB/s. Ring 0 on the first two has 1; ring 1 on the last two has 3: its
    2 MB in 2/3 s."""
    one = fluid([1, 2, 1], [(0, 2, 1), (0, 2, 1)], [1, 4, 4])
    found = ends_s(one, gang(0, [0, 1], 1) + gang(1, [2, 3], 1))
    assert found == pytest.approx([3.02, 1.02 + 2 / 3])


def test_rings_without_bytes_or_with_one_worker_send_nothing() -> None:
    one = with_costs(fluid([2, 2], [(0, 2, 3), (0, 1, 3), (0, 1, 3)]), [1.0] * 3, [0.0, 9.0, 9.0])
    found = ends_s(one, gang(0, [0, 2], 3) + gang(1, [1], 3) + gang(2, [3], 3))
    assert found == pytest.approx([3 * 1.02, 3 * 1.01, 3 * 1.01])


@pytest.mark.parametrize("model_mb", [0.0, 0.001])
def test_rounds_that_take_no_time_take_one_nanosecond(model_mb: float) -> None:
    fast = fluid([2, 2], [(0, 2, 7), (0, 2, 7)], [10**10, 10**10])
    one = with_costs(fast, [0.0] * 2, [model_mb] * 2)
    cluster = replace(one.run.cluster, network=Network(model="fluid"))
    free = World(replace(one.run, cluster=cluster), one.costs)
    assert ends_s(free, gang(0, [0, 2], 7) + gang(1, [1, 3], 7)) == [7e-9, 7e-9]


@pytest.mark.parametrize("seed", range(60))
def test_rings_end_when_a_simulation_of_every_step_in_fractions_says(seed: int) -> None:
    """To a nanosecond for each rounding on the way; the order in which rings begin hides nothing
    here, since each place in a queue is the plan's."""
    one, rows = drawn(seed)
    assert ends_s(one, rows) == pytest.approx(step_by_step(one, rows), abs=1e-6)


def journal(one: World, rows: Rows) -> bytes:
    written = bytearray()
    core = Core(
        run=one.run, costs=one.costs, policy=Planned(plan_of(rows)),
        port=sim_port(one.run, one.costs), sink=written.extend, world="sim", check=True,
    )  # fmt: skip
    core.execute()
    return bytes(written)


def test_rings_end_no_earlier_than_with_all_links_to_themselves() -> None:
    """What bounds count on: T^s as ``with_rings`` states it, after the longest COMP."""
    for seed in range(30):
        one, rows = drawn(seed)
        least_s = with_rings(one.run, one.costs).sync_ns_JT[:, 0] / S
        for job, end_s in zip(one.run.workload.jobs, ends_s(one, rows), strict=True):
            comp_s = float(one.costs.comp_ns_JT[job.index, 0]) / S
            lasts_s = end_s - job.arrival_ns / S
            assert lasts_s >= (job.rounds or 0) * (comp_s + least_s[job.index]) - 1e-12 * end_s


def test_the_same_rings_leave_the_same_journal() -> None:
    for seed in range(5):
        assert journal(*drawn(seed)) == journal(*drawn(seed))


def test_a_ring_that_waits_for_a_switch_sends_nothing_meanwhile() -> None:
    """The second follows the first on its devices, 5 s after 3.02 s. The third comes in between."""
    one = fluid([2, 2], [(0, 2, 1), (0, 2, 1), (4 * S, 2, 1)])
    costs = replace(one.costs, switch_ns_JT=np.full((3, 1), 5 * S))
    rows = gang(0, [0, 2], 1) + gang(1, [0, 2], 1) + gang(2, [1, 3], 1)
    assert ends_s(World(one.run, costs), rows) == pytest.approx([3.02, 3.02 + 5 + 3.02, 4 + 3.02])


def test_one_stretch_and_stretches_of_one_round_end_alike() -> None:
    one = fluid([2, 2, 2], [(0, 2, 9), (4 * S, 2, 3), (5 * S, 3, 4)])
    whole = gang(0, [0, 2], 9) + gang(1, [1, 3], 3) + gang(2, [1, 3, 4], 4)
    cut = [
        row
        for job, devices, rounds in ((0, [0, 2], 9), (1, [1, 3], 3), (2, [1, 3, 4], 4))
        for r in range(rounds)
        for row in gang(job, devices, 1, r)
    ]
    assert ends_s(one, cut) == ends_s(one, whole)


def test_with_noise_each_round_has_its_own_time_and_rings_still_share() -> None:
    one = fluid([2, 2], [(0, 2, 50), (0, 2, 50)])
    noisy = World(replace(one.run, truth=Truth(task_cv=0.3, seed=1)), one.costs)
    found = ends_s(noisy, gang(0, [0, 2], 50) + gang(1, [1, 3], 50))
    # The link is busy for 4 s a pair of rounds, at least; alone a round takes 3.02 s.
    assert all(50 * 4 < end < 50 * 5.02 * 1.1 for end in found)
    single = fluid([2, 2], [(0, 2, 50)])
    noisy = World(replace(single.run, truth=Truth(task_cv=0.3, seed=1)), single.costs)
    (alone,) = ends_s(noisy, gang(0, [0, 2], 50))
    assert 50 * 3.02 * 1.01 < alone < 50 * 3.02 * 1.3


def test_a_ring_alone_takes_what_the_closed_form_says() -> None:
    draw = random.Random(3)
    one = fluid([1, 3, 2, 2], [(0, scale, 1) for scale in range(1, 9)], [1, 5, 2, 2])
    rings = ring_exchanges(one.run.workload.jobs, one.costs)
    least_s_J = least_fluid_exchange_s_J(one.run.cluster, rings)
    met = set[int]()
    for _ in range(300):
        for job in one.run.workload.jobs:
            places = draw.sample(range(8), job.scale)
            workers_JS = np.zeros((8, 4), dtype=np.int64)
            host_D = host_of_D(one.run.cluster)
            workers_JS[job.index] = np.bincount(host_D[places], minlength=4)
            took_s = fluid_round_s_J(fluid_network(one.run.cluster), rings, workers_JS)[job.index]
            assert took_s >= least_s_J[job.index]
            if took_s <= least_s_J[job.index] + 3e-9:
                met.add(job.index)
    assert met == set(range(8))  # the least is that of a place
    raised = with_rings(one.run, one.costs).sync_ns_JT
    assert raised[:, 0].tolist() == [round(one_s * S) for one_s in least_s_J.tolist()]


def test_an_intra_that_is_slower_than_the_card_is_never_below_the_least() -> None:
    one = fluid([2, 2], [(0, 2, 1)], [400, 400])
    (least_s,) = least_fluid_exchange_s_J(
        one.run.cluster, ring_exchanges(one.run.workload.jobs, one.costs)
    ).tolist()
    assert least_s == pytest.approx(0.02 + 2 / 400, abs=3e-9)  # two hosts beat 0.01 + 2 / 100


def test_servers_of_unknown_bytes_beside_rings_take_their_t_s_and_slow_none() -> None:
    one = fluid([2, 2], [(0, 2, 4), (0, 1, 4)])
    jobs = list(one.run.workload.jobs)
    jobs[1] = replace(jobs[1], sync="ps")
    sync = one.costs.sync_ns_JT.copy()
    mixed: Run = replace(one.run, workload=replace(one.run.workload, jobs=tuple(jobs)))
    assert sync[1, 0] == 3 * S
    costs = replace(one.costs, model_bytes_J=np.array([2 * MB, 0]))
    found = ends_s(World(mixed, costs), gang(0, [0, 2], 4) + gang(1, [1], 4))
    assert found == pytest.approx([4 * 3.02, 4 * 4])


def test_rings_that_are_alone_again_take_their_rounds_in_one_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken, step = [0], FluidRounds.step

    def counted(rounds: FluidRounds, gangs: dict[int, RingGang]) -> list[RingGang]:
        taken[0] += 1
        return step(rounds, gangs)

    monkeypatch.setattr(FluidRounds, "step", counted)
    rounds = 10**6
    one = fluid([1, 2, 2, 1], [(0, 2, rounds), (0, 2, rounds), (100 * S, 2, 2)])
    rows = gang(0, [0, 1], rounds) + gang(1, [4, 5], rounds) + gang(2, [2, 3], 2)
    *tied, between = ends_s(one, rows)
    assert 106 < between < 112
    assert all(0 < end - rounds * 3.02 < 4 for end in tied)
    assert taken[0] < 30


def test_most_drawn_worlds_have_rings_that_send_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second simulation has something to find."""
    senders, share = [0], TiedRings.share

    def counted(pool: TiedRings, now: int) -> None:
        senders.append(sum(flow.sends for flow in pool.flows))
        share(pool, now)

    monkeypatch.setattr(TiedRings, "share", counted)
    shared = 0
    for seed in range(60):
        senders[:] = [0]
        ends_s(*drawn(seed))
        shared += max(senders) > 1
    assert shared > 30
