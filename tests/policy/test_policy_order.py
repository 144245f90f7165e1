"""Policies that are an order of jobs (``warren.policy.order``)."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from warren.core.journal_reader import History, read_history
from warren.core.loop import Core
from warren.core.state import State
from warren.model.costs import CostTable
from warren.model.errors import InfeasibleDecision
from warren.model.events import JobArrived
from warren.model.run import Grain, Run
from warren.model.units import NS_PER_S
from warren.model.view import View
from warren.policy.common.round_times import round_ns_J
from warren.policy.order import JobOrder
from warren.policy.protocol import AnyPolicy
from warren.policy.registry import place_policy
from warren.runs.choose_policy import foreign
from warren.sim.port import SimPort

sys.path.insert(0, str(Path(__file__).parents[1]))
import worlds

EXAMPLE = Path(__file__).parents[2] / "examples/policies/widest_first.py"
GRAINS = (
    Grain(),
    Grain(text="4 rounds", rounds=4),
    Grain(text="8 s", rounds=None, time_ns=8 * NS_PER_S),
)


class ShortestFirst(JobOrder):
    needs_rounds = True

    def order(self, view: View, ready: Sequence[int]) -> list[int]:
        round_ns = round_ns_J(view)
        return sorted(ready, key=lambda j: (view.rounds_J[j] - view.round_J[j]) * round_ns[j])


class ArrivalOrder(JobOrder):
    def order(self, view: View, ready: Sequence[int]) -> list[int]:
        return sorted(ready, key=lambda job: view.arrival_ns_J[job])


class Invented(JobOrder):
    def order(self, view: View, ready: Sequence[int]) -> list[int]:
        return [*ready, len(view.jobs)]


class Selfish(JobOrder):
    def order(self, view: View, ready: Sequence[int]) -> list[int]:
        return [job for job in ready if job == 1]


def played(run: Run, costs: CostTable, policy: AnyPolicy) -> History:
    journal = bytearray()
    Core(
        run=run, costs=costs, policy=policy, port=SimPort(run, costs),
        sink=journal.extend, world="sim", check=True,
    ).execute()  # fmt: skip
    return read_history(bytes(journal))


@pytest.mark.parametrize("grain", GRAINS, ids=lambda grain: grain.text or "1")
def test_an_order_by_remaining_time_gives_the_schedule_of_srtf(grain: Grain) -> None:
    for seed in range(12):
        run, costs = worlds.random_world(seed, jobs=6, devices=4, grain=grain)
        ours, srtf = played(run, costs, ShortestFirst()), played(run, costs, place_policy("srtf"))
        assert ours.finish_ns_J.tolist() == srtf.finish_ns_J.tolist(), seed


@pytest.mark.parametrize("grain", GRAINS, ids=lambda grain: grain.text or "1")
def test_every_job_ends_under_a_policy_that_does_not_know_rounds(grain: Grain) -> None:
    for seed in range(6):
        run, costs = worlds.random_world(seed, jobs=6, devices=4, grain=grain)
        assert (played(run, costs, ArrivalOrder()).finish_ns_J > 0).all(), seed


def test_an_order_of_jobs_that_are_not_ready_is_refused_with_its_name() -> None:
    run, costs = worlds.random_world(1, jobs=3, devices=2)
    with pytest.raises(InfeasibleDecision, match=r"policy Invented.*must return jobs of `ready`"):
        played(run, costs, Invented())


def test_explain_says_how_many_jobs_go_first_and_which_are_left_out() -> None:
    run, costs = worlds.random_world(1, jobs=3, devices=2)
    state = State(run, costs)
    arrived = [JobArrived(time_ns=run.workload.jobs[job].arrival_ns, job=job) for job in range(3)]
    for event in arrived:
        state.apply(event)
    policy, view = Selfish(), state.view(arrived)
    found = [policy.explain(view, {}, job) for job in range(3)]
    out = "is left out by Selfish"
    assert found == [out, "0 ready jobs go before it by Selfish", out]


def test_the_example_is_taken_as_a_policy_file() -> None:
    policy = foreign(f"{EXAMPLE}:WidestFirst", {})
    assert policy.name == "WidestFirst"
