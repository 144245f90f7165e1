"""Shifted rounds in a simulation of links, against the same jobs when they share links alike."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from immutables import Map

from warren.core.journal_reader import History, read_history
from warren.core.loop import Core
from warren.model.costs import CostTable
from warren.model.decision import Assignment, Decision, Reason, Shape
from warren.model.run import Run, Scheduler, Truth
from warren.model.view import View
from warren.policy.common.job_traffic import JobTraffic
from warren.policy.common.link_loads import PhaseLoads, link_loads_s, phase_loads_s
from warren.policy.common.round_phases import RoundPhases, round_phases
from warren.policy.flow.circles import turns_of
from warren.policy.flow.shift import Shift
from warren.policy.registry import place_policy, policy_of
from warren.sim.build import sim_port, simulated_costs

sys.path.insert(0, str(Path(__file__).parents[1]))
import question_worlds as q
import worlds
from question_worlds import S

ROUNDS = 40
MB_S = 1.0


class Own(q.Bound):
    """Gives each job devices of its own, so that jobs meet on links alone."""

    def __init__(self, devices: list[list[int]]) -> None:
        self._devices = devices

    def decide(self, view: View, memory: None) -> tuple[Decision, None]:
        ready = view.open_J & view.arrived_J & (view.next_round_J == view.round_J)
        assign = tuple(
            Assignment(device, job, int(view.round_J[job]), 1, (shard,))
            for job in ready.nonzero()[0].tolist()
            for shard, device in enumerate(self._devices[job])
        )
        reasons = dict.fromkeys(range(len(view.jobs)), Reason.RUNNING)
        return Decision(assign=assign, reasons=reasons), None


World = tuple[Run, CostTable, list[list[int]]]


def on_links(cluster: Any, jobs: list[Any], comp_s: list[float], send_s: list[float]) -> Any:
    """``send_s``: how long a model passes a link of 1 MB/s."""
    network = replace(cluster.network, model="fluid")
    cluster = replace(
        cluster,
        hosts=tuple(replace(host, nic_bps=8e6 * MB_S) for host in cluster.hosts),
        network=network,
    )
    costs = worlds.costs([[one] for one in comp_s], [[0.0]] * len(jobs))
    sizes = np.array([round(one * MB_S * 1e6) for one in send_s])
    return worlds.run(cluster, jobs), replace(costs, model_bytes_J=sizes)


def rings(comp_s: list[float], send_s: list[float], arrivals_s: list[float] | None = None) -> World:
    """Rings of two ranks, one on each of two hosts: all send over both links, both ways."""
    count = len(comp_s)
    arrivals = arrivals_s or [0.0] * count
    jobs = [
        worlds.job(j, rounds=ROUNDS, scale=2, sync="ring", arrival_ns=round(arrivals[j] * S))
        for j in range(count)
    ]
    devices = [[j, count + j] for j in range(count)]
    return *on_links(q.hosts(2, count), jobs, comp_s, send_s), devices


def behind(comp_s: list[float], send_s: list[float]) -> World:
    """Each server on a host of its own, all tasks on the last: each way takes ``send_s``."""
    count = len(comp_s)
    jobs = [
        worlds.job(j, rounds=ROUNDS, server_hosts=(f"h{j}",), server_bytes=()) for j in range(count)
    ]
    run, costs = on_links(q.hosts(count + 1, count), jobs, comp_s, send_s)
    return run, costs, [[count * count + j] for j in range(count)]


def played(world: World, flow: str, noise: float = 0.0, **options: Any) -> History:
    """The history under ``fair`` or ``shift``."""
    run, costs, devices = world
    truth = Truth(task_cv=noise, seed=1)
    shape = "fixed" if run.workload.jobs[0].server_hosts else "static"
    run = replace(run, scheduler=Scheduler(place="srtf", flow=flow, shape=shape), truth=truth)
    others: list[Any] = [Shift(**options)] if flow == "shift" else []
    if shape == "fixed":
        others.insert(0, policy_of("shape", "fixed"))
    journal = bytearray()
    core = Core(
        run=run, costs=simulated_costs(run, costs), policy=Own(devices), others=tuple(others),
        port=sim_port(run, costs), sink=journal.extend, world="sim", check=True,
    )  # fmt: skip
    core.execute()
    return read_history(bytes(journal))


def rounds_s(history: History, job: int) -> list[float]:
    """How long each round took, from barrier to barrier."""
    barriers = [one.barrier_ns / S for one in history.rounds if one.job == job]
    return np.diff(barriers).tolist()


@pytest.mark.parametrize("world", [rings([1, 1], [1, 1]), behind([1, 1], [0.5, 0.5])])
def test_two_jobs_that_compute_a_second_and_send_a_second_take_two_when_shifted_and_else_three(
    world: World,
) -> None:
    fair, shifted = played(world, "fair"), played(world, "shift")
    for job in range(2):
        assert rounds_s(fair, job) == pytest.approx([3.0] * (ROUNDS - 1))
        # The delay is decided at the first barrier and served at the second.
        assert rounds_s(shifted, job)[3:] == pytest.approx([2.0] * (ROUNDS - 4))
    delays = [delay for job in range(2) for _, delay in shifted.delays_of(job)]
    assert delays == [S]


@pytest.mark.parametrize(
    ("comp_s", "send_s", "gain"),
    [
        # They need not meet: each is as fast as alone.
        ([2, 2, 2], [1, 1, 1], 0.35),
        ([1, 3], [1, 1], 0.12),
        ([1, 1.1], [1, 1], 0.1),
        # Bursts of more than half of a round.
        ([1, 1], [2, 2], 0.18),
        ([0.5, 0.5], [2, 2], 0.1),
        ([0.1, 0.1], [2, 2], 0.0),
        ([1, 1, 1], [1, 1, 1], 0.1),
        ([1, 1, 1, 1], [2, 2, 2, 2], 0.05),
        # Of periods that meet in every way, and of no simple ratio.
        ([1, 2], [1, 1], 0.0),
        ([1, 1.71], [1, 1], 0.0),
        ([1, 1.33], [1, 1], -0.05),
    ],
)
@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_jobs_that_fit_gain_and_jobs_that_do_not_lose_little(
    comp_s: list[float], send_s: list[float], gain: float, noise: float
) -> None:
    """Of the mean time of the jobs; where rounds differ, half of it is left."""
    world = rings(comp_s, send_s)
    fair, shifted = (played(world, flow, noise).finish_ns_J.sum() for flow in ("fair", "shift"))
    least = gain if not noise else min(gain / 2, gain - 0.01) if gain > 0.1 else -0.06
    assert 1 - shifted / fair >= least


@pytest.mark.parametrize(("noise", "gain"), [(0.02, 0.15), (0.05, 0.1), (0.2, -0.03)])
def test_rounds_that_drift_are_brought_back(noise: float, gain: float) -> None:
    world = rings([1, 1], [1, 1])
    fair, shifted = (played(world, flow, noise) for flow in ("fair", "shift"))
    assert 1 - shifted.finish_ns_J.max() / fair.finish_ns_J.max() >= gain
    assert len(shifted.answers) > 1


def test_a_job_that_comes_later_waits_for_its_turn_and_those_that_are_there_little() -> None:
    world = rings([1, 1, 1], [0.5, 0.5, 0.5], [0.0, 9.2, 20.7])
    fair, shifted = (played(world, flow) for flow in ("fair", "shift"))
    # They fill the link to its last second, and find such an order by themselves, too, where a turn
    # is waited for. What that costs is a period a job at most.
    assert (shifted.finish_ns_J <= fair.finish_ns_J + round(1.5 * S)).all()
    for job in range(3):
        # Two periods: one each time when another one comes.
        assert sum(delay for _, delay in shifted.delays_of(job)) <= 2 * 1.5 * S
        assert np.mean(rounds_s(shifted, job)[-20:]) == pytest.approx(1.5, rel=0.05)


def test_the_budget_limits_what_a_job_waits() -> None:
    world = rings([0.5, 0.5, 0.5], [1, 1, 1])
    for budget in (0.0, 0.02, 0.1):
        history = played(world, "shift", 0.2, budget=budget)
        for job in range(3):
            waits_s = sum(delay for _, delay in history.delays_of(job)) / S
            end_s = history.finish_ns_J[job] / S
            # What was answered may have been taken back; and a period when each of three came.
            assert waits_s <= 2 * (budget * end_s + 3 * 1.5 * 2) + 1e-6


def test_jobs_on_links_of_their_own_are_left_alone() -> None:
    run, costs, _ = rings([1, 1], [1, 1])
    cluster = q.hosts(4, 1)
    hosts = tuple(replace(host, nic_bps=8e6) for host in cluster.hosts)
    apart = replace(run, cluster=replace(cluster, hosts=hosts, network=run.cluster.network))
    history = played((apart, costs, [[0, 1], [2, 3]]), "shift")
    assert not history.answers
    assert rounds_s(history, 0) == pytest.approx([2.0] * (ROUNDS - 1))


def test_a_turn_is_reported_in_a_sentence() -> None:
    run, costs, devices = rings([1, 1], [1, 1])
    run = replace(run, scheduler=Scheduler(place="srtf", flow="shift"))
    core = Core(
        run=run, costs=simulated_costs(run, costs), policy=Own(devices), others=(Shift(),),
        port=sim_port(run, costs), sink=bytearray().extend, world="sim",
    )  # fmt: skip
    core.begin()
    told = []
    while events := core.port.next_events():
        core.step(events)
        told.append(core.explain(1, "flow"))  # type: ignore[arg-type]
    assert told[0].startswith("begins its rounds when it can")
    assert "begins 1 s into each 2 s, in turn with 1 of the other jobs" in told
    assert told[-1] == told[0]


def test_phases_of_a_round_are_what_its_links_carry() -> None:
    """A task on host 2 pulls from host 0, computes and pushes there: out and in change places."""
    run, costs, _ = behind([1, 1], [0.5, 0.5])
    core, _, _ = q.core_of(run, costs, place_policy("srtf"), ())
    view = core.state.view(())
    seen = JobTraffic(tasks=Map({0: Map({4: 3})}))
    fields = {name: getattr(view, name) for name in view.__struct_fields__}
    view = type(view)(**(fields | {"servers_J": ((0,), (1,))}))
    pull_s_L, push_s_L = phase_loads_s(view, seen, 0)
    assert pull_s_L.tolist() == [0.5, 0, 0, 0, 0, 0.5]
    assert push_s_L.tolist() == [0, 0, 0.5, 0.5, 0, 0]
    assert (pull_s_L + push_s_L).tolist() == link_loads_s(view, seen, 0).tolist()
    phases = round_phases(view, seen, 0)
    assert phases.length_s == 2.0
    demand_Ln = phases.demand_Ln(2.0, 2.2, 22)
    assert demand_Ln[0].tolist() == pytest.approx([1.0] * 5 + [0.0] * 17)
    assert demand_Ln[2].tolist() == pytest.approx([0.0] * 15 + [1.0] * 5 + [0.0] * 2)
    # Whatever the slices are, all that is sent is in them.
    for slices in (3, 7, 40):
        total = phases.demand_Ln(2.0, 2.2, slices).sum(axis=1) * 2.2 / slices
        assert total == pytest.approx(phases.load_s_L)


def test_a_server_that_holds_more_of_the_model_sends_more_of_it() -> None:
    run, costs, _ = behind([1, 1], [0.5, 0.5])
    core, _, _ = q.core_of(run, costs, place_policy("srtf"), ())
    view = core.state.view(())
    seen = JobTraffic(tasks=Map({0: Map({4: 3})}))
    fields = {name: getattr(view, name) for name in view.__struct_fields__}
    for sizes, pulled_s in ((None, [0.25, 0.25]), ((3, 1), [0.375, 0.125]), ((0, 0), [0.25, 0.25])):
        shapes = (Shape(workers=None, servers=(0, 1), model_bytes=sizes), None)
        told = type(view)(**(fields | {"servers_J": ((0, 1), (1,)), "shape_J": shapes}))
        pull_s_L, push_s_L = phase_loads_s(told, seen, 0)
        assert pull_s_L.tolist() == [*pulled_s, 0, 0, 0, 0.5]
        assert push_s_L.tolist() == [0, 0, 0.5, *pulled_s, 0]


def test_a_job_in_no_simple_ratio_has_no_turn_and_the_others_have() -> None:
    phases = {0: phases_of(1.2, 0.8), 1: phases_of(1.2, 0.8), 2: phases_of(1.41, 0.3)}
    turns = turns_of(phases, {0: 2 * S, 1: 2 * S, 2: round(1.71 * S)}, 40, 0.01)
    assert sorted(turns) == [0, 1]
    assert 0.8 * S <= (turns[1].offset_ns - turns[0].offset_ns) % (2 * S) <= 1.2 * S


def test_rounds_are_as_long_as_their_busiest_link_needs_and_no_longer() -> None:
    """Link 0: jobs 0 and 1 send 1.5 s each of their 2 s; link 1: jobs 2 and 3 0.5 s each."""

    def on(link: int, send_s: float) -> RoundPhases:
        load_s_L = np.where(np.arange(2) == link, send_s, 0.0)
        return RoundPhases(PhaseLoads(np.zeros(2), load_s_L), 2.0 - send_s)

    phases = {0: on(0, 1.5), 1: on(0, 1.5), 2: on(1, 0.5), 3: on(1, 0.5)}
    turns = turns_of(phases, dict.fromkeys(range(4), 2 * S), 40, 0.05)
    assert {job: turns[job].period_ns for job in turns} == {0: 3 * S, 1: 3 * S, 2: 2 * S, 3: 2 * S}


def test_rounds_that_meet_on_the_link_are_not_taken_for_long_ones() -> None:
    """Tasks differ by a twentieth and nobody waits, so that turns are lost; the period stays."""
    run, costs, devices = rings([1.0] * 4, [0.33] * 4)
    run = replace(run, scheduler=Scheduler(place="srtf", flow="shift"))
    run = replace(run, truth=Truth(task_cv=0.05, seed=3))
    policy: Any = Shift(budget=0.0)
    core = Core(
        run=run, costs=simulated_costs(run, costs), policy=Own(devices), others=(policy,),
        port=sim_port(run, costs), sink=bytearray().extend, world="sim",
    )  # fmt: skip
    core.begin()
    periods_s = set[float]()
    while events := core.port.next_events():
        core.step(events)
        told = core.explain(1, "flow")  # type: ignore[arg-type]
        if "into each" in told:
            periods_s.add(float(told.split("into each ")[1].split(" s")[0]))
    assert periods_s
    assert max(periods_s) < 1.33 * 1.05


def phases_of(comp_s: float, send_s: float) -> RoundPhases:
    """A ring's round over two links."""
    return RoundPhases(PhaseLoads(np.zeros(2), np.full(2, send_s)), comp_s)
