"""What every registered place policy owes the core, whatever its algorithm."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from warren.core.journal_reader import History, read_history
from warren.core.loop import Core
from warren.core.state import State
from warren.core.wait_reasons import reason
from warren.model.costs import CostTable
from warren.model.decision import Decision, Reason
from warren.model.errors import SpecError
from warren.model.run import Grain, Run
from warren.model.view import View
from warren.policy.registry import POLICIES, place_policy
from warren.sim.port import SimPort

sys.path.insert(0, str(Path(__file__).parents[1]))
import worlds

pytestmark = pytest.mark.slow

CLUSTER_WIDE = sorted(set(POLICIES) - {"plain"})
ONLINE = [name for name in CLUSTER_WIDE if not place_policy(name).offline]
BUDGETS = {"hare": 20_000, "hare-published": 40, "braid": 2000}


def simulate(run: Run, costs: CostTable, name: str, *, compiled: bool = True) -> History:
    journal = bytearray()
    options = {"budget": BUDGETS[name]} if name in BUDGETS else {}
    policy = place_policy(name, options)
    port = SimPort(run, costs)
    core = Core(
        run=run, costs=costs, policy=policy, port=port, sink=journal.extend, world="sim",
        check=True, compiled=compiled,
    )  # fmt: skip
    core.execute()
    return read_history(bytes(journal))


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_every_job_ends_and_every_task_runs_once_where_it_fits(name: str) -> None:
    for seed in range(12):
        run, costs = worlds.random_world(seed)
        history = simulate(run, costs, name)
        timeline = history.timeline
        assert np.all(history.finish_ns_J >= 0)
        tasks = np.bincount(
            timeline.job_R, weights=timeline.tasks_R, minlength=len(run.workload.jobs)
        )
        assert tasks.tolist() == [job.scale * (job.rounds or 0) for job in run.workload.jobs]
        types = np.array(run.cluster.type_of_device)[timeline.device_R]
        assert costs.fits_JT[timeline.job_R, types].all()


@pytest.mark.parametrize("name", CLUSTER_WIDE)
def test_a_plan_runs_alike_in_compiled_code_and_through_events(name: str) -> None:
    for seed in range(8):
        run, costs = worlds.random_world(seed, network="lane" if seed % 2 else "constant")
        fast, slow = (simulate(run, costs, name, compiled=flag) for flag in (True, False))
        assert np.array_equal(fast.finish_ns_J, slow.finish_ns_J)
        assert np.array_equal(fast.timeline.start_ns_R, slow.timeline.start_ns_R)
        assert np.array_equal(fast.timeline.device_R, slow.timeline.device_R)


class Kept:
    """A policy that is asked everything twice, and remembers what it was asked and answered."""

    def __init__(self, name: str) -> None:
        self.policy = policy = place_policy(name)
        self.name, self.source, self.triggers = policy.name, policy.source, policy.triggers
        self.offline, self.needs_rounds = policy.offline, policy.needs_rounds
        self.asked: list[tuple[View, Any, Decision]] = []

    def initial(self, view: View) -> Any:
        return self.policy.initial(view)

    def explain(self, view: View, memory: Any, job: int) -> str:
        return self.policy.explain(view, memory, job)

    def decide(self, view: View, memory: Any) -> tuple[Decision, Any]:
        still = {
            field: value.copy() if isinstance(value, np.ndarray) else value
            for field, value in msgspec.structs.asdict(view).items()
        }
        for value in still.values():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False
        view = View(**still)
        decision, left = self.policy.decide(view, memory)
        assert self.policy.decide(view, memory)[0] == decision
        self.asked.append((view, memory, decision))
        return decision, left


@pytest.mark.parametrize("grain", [Grain(), Grain(text="3 rounds", rounds=3)], ids=["1", "3"])
@pytest.mark.parametrize("name", ONLINE)
def test_a_view_and_a_memory_give_the_same_decision_whenever_they_are_asked(
    name: str, grain: Grain
) -> None:
    """At once, and again when all is over: nobody has changed a memory that was handed out."""
    for seed in range(6):
        run, costs = worlds.random_world(seed, grain=grain)
        policy = Kept(name)
        core = Core(
            run=run, costs=costs, policy=policy, port=SimPort(run, costs), sink=len, world="sim"
        )
        core.execute()
        assert policy.asked
        for view, memory, decision in policy.asked:
            assert policy.policy.decide(view, memory)[0] == decision


@pytest.mark.parametrize("name", CLUSTER_WIDE)
def test_an_empty_workload_ends_at_once(name: str) -> None:
    run = worlds.run(worlds.cluster(["A"]), [])
    history = simulate(run, worlds.costs(np.zeros((0, 1)), np.zeros((0, 1))), name)  # type: ignore[arg-type]
    assert len(history.timeline) == 0


@pytest.mark.parametrize("name", CLUSTER_WIDE)
def test_a_job_wider_than_the_cluster_still_ends(name: str) -> None:
    run = worlds.run(worlds.cluster(["A", "B"]), [worlds.job(0, scale=5, rounds=2)])
    history = simulate(run, worlds.costs([[1.0, 2.0]], [[0.1, 0.1]]), name)
    assert history.finish_ns_J[0] > 0


@pytest.mark.parametrize("name", sorted(set(CLUSTER_WIDE) - {"hare-published"}))
def test_a_coarse_grain_runs_the_same_tasks(name: str) -> None:
    for seed in range(8):
        run, costs = worlds.random_world(seed, grain=Grain(text="3 rounds", rounds=3))
        timeline = simulate(run, costs, name).timeline
        tasks = np.bincount(
            timeline.job_R, weights=timeline.tasks_R, minlength=len(run.workload.jobs)
        )
        assert tasks.tolist() == [job.scale * (job.rounds or 0) for job in run.workload.jobs]
        assert timeline.rounds_R.max() > 1


@pytest.mark.parametrize("name", CLUSTER_WIDE)
def test_the_order_of_names_and_the_hash_seed_do_not_matter(name: str) -> None:
    run, costs = worlds.random_world(5)
    renamed = replace(
        run,
        workload=replace(
            run.workload,
            jobs=tuple(replace(job, name=f"x{job.index}") for job in run.workload.jobs),
        ),
    )
    first, second = simulate(run, costs, name), simulate(renamed, costs, name)
    assert np.array_equal(first.finish_ns_J, second.finish_ns_J)


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_an_option_that_a_policy_does_not_know_is_refused(name: str) -> None:
    with pytest.raises(SpecError, match="does not accept"):
        place_policy(name, {"colour": 3})


def test_an_unknown_policy_is_refused_with_the_names_that_are_allowed() -> None:
    with pytest.raises(
        SpecError, match="allowed: braid, braid-online, fifo, first-fit, gavel-fifo, gittins, hare"
    ):
        place_policy("hair")


@pytest.mark.parametrize("name", CLUSTER_WIDE)
def test_every_job_has_a_reason_and_a_sentence_at_every_step(name: str) -> None:
    run, costs = worlds.random_world(4, jobs=8, devices=3)
    options = {"budget": BUDGETS[name]} if name in BUDGETS else {}
    core = Core(
        run=run, costs=costs, policy=place_policy(name, options), port=SimPort(run, costs),
        sink=bytearray().extend, world="sim", compiled=False,
    )  # fmt: skip
    seen: set[Reason] = set()

    def observe(state: State, _: object) -> None:
        for job in range(len(state.phase_J)):
            now = reason(state, job)
            assert now is not Reason.NOT_LOOKED_AT
            assert (now is Reason.NOT_ARRIVED) == (not state.arrived_J[job])
            assert (now is Reason.ENDED) == bool(state.done_J[job])
            assert core.explain(job)
            seen.add(now)

    core.observe = observe
    core.execute()
    assert {Reason.RUNNING, Reason.ENDED} <= seen
    waits = {Reason.WAITING_FOR_TURN, Reason.WAITING_FOR_DEVICES, Reason.PLANNED_LATER}
    assert seen & waits
