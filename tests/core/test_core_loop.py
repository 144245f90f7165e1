"""The one loop: decisions are checked, the journal tells the run, plans and events agree."""

from __future__ import annotations

import sys
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from warren.core.journal import MAGIC, PlanAdopted, adopted, adopted_plan, encode
from warren.core.journal_reader import decode, read_history
from warren.core.loop import Core
from warren.model.costs import CostTable
from warren.model.decision import Assignment, Decision, Plan
from warren.model.errors import InfeasibleDecision, InvalidTransition
from warren.model.events import CompDone, JobArrived, RoundsDone
from warren.model.run import Grain, Run, Truth
from warren.policy.registry import place_policy
from warren.sim.port import SimPort

sys.path.insert(0, str(Path(__file__).parents[1]))
import worlds

ONLINE = ("gavel-fifo", "srtf")


def simulate(run: Run, costs: CostTable, policy: object, *, compiled: bool = False) -> bytes:
    journal = bytearray()
    core = Core(
        run=run,
        costs=costs,
        policy=policy,  # type: ignore[arg-type]
        port=SimPort(run, costs),
        sink=journal.extend,
        world="sim",
        check=True,
        compiled=compiled,
    )
    core.execute()
    return bytes(journal)


@pytest.mark.parametrize("place", ONLINE)
@pytest.mark.parametrize("grain", [Grain(), Grain(text="3 rounds", rounds=3)])
@pytest.mark.parametrize("network", ["constant", "lane"])
def test_every_task_runs_once_and_every_job_ends(place: str, grain: Grain, network: str) -> None:
    for seed in range(20):
        run, costs = worlds.random_world(seed, network=network, grain=grain)  # type: ignore[arg-type]
        history = read_history(simulate(run, costs, place_policy(place)))
        assert np.all(history.finish_ns_J >= 0)
        tasks = np.bincount(
            history.timeline.job_R,
            weights=history.timeline.tasks_R,
            minlength=len(run.workload.jobs),
        )
        assert tasks.tolist() == [job.scale * job.rounds for job in run.workload.jobs]  # type: ignore[operator]


@pytest.mark.parametrize("place", ONLINE)
def test_the_same_seed_gives_the_same_journal(place: str) -> None:
    run, costs = worlds.random_world(3, truth=Truth(task_cv=0.2, seed=5))
    first = simulate(run, costs, place_policy(place))
    assert simulate(run, costs, place_policy(place)) == first


def test_fifo_never_lets_a_later_job_start_first() -> None:
    for seed in range(30):
        run, costs = worlds.random_world(seed)
        timeline = read_history(simulate(run, costs, place_policy("gavel-fifo"))).timeline
        start = np.full(len(run.workload.jobs), 2**62)
        np.minimum.at(start, timeline.job_R, timeline.start_ns_R)
        assert np.all(np.diff(start) >= 0)


def test_srtf_lets_the_shorter_job_overtake_at_a_task_boundary() -> None:
    jobs = [worlds.job(0, rounds=10), worlds.job(1, rounds=1, arrival_ns=1_500_000_000)]
    run = worlds.run(worlds.cluster(["A"]), jobs)
    costs = worlds.costs([[1.0], [1.0]], [[0.0], [0.0]])
    history = read_history(simulate(run, costs, place_policy("srtf")))
    assert history.finish_ns_J.tolist() == [11_000_000_000, 3_000_000_000]


class Scripted:
    """A policy that gives one prepared decision at the first arrival."""

    name, source, offline, needs_rounds = "scripted", "test", False, True
    triggers = frozenset({JobArrived})

    def __init__(self, decision: Decision) -> None:
        self._decision = decision

    def initial(self, view: object) -> None:
        return None

    def decide(self, view: object, memory: None) -> tuple[Decision, None]:
        return self._decision, None

    def explain(self, view: object, memory: None, job: int) -> str:
        return "as scripted"


@pytest.mark.parametrize(
    ("assignment", "rule"),
    [
        (Assignment(7, 0, 0, 1, (0,)), "no device 7"),
        (Assignment(0, 9, 0, 1, (0,)), "no job 9"),
        (Assignment(1, 0, 0, 1, (0,)), "does not fit"),
        (Assignment(0, 0, 1, 1, (0,)), "round 0 comes first"),
        (Assignment(0, 0, 0, 1, (1,)), "shards are assigned in order"),
        (Assignment(0, 0, 0, 9, (0, 1)), "has 4 rounds"),
        (Assignment(0, 0, 0, 1, ()), "at least one shard"),
        (Assignment(0, 0, 0, 2, (0,)), "names every shard once"),
        (Assignment(0, 1, 0, 1, (0,)), "PENDING"),
    ],
)
def test_a_decision_that_breaks_a_rule_is_refused_with_the_rule(
    assignment: Assignment, rule: str
) -> None:
    jobs = [worlds.job(0, scale=2, rounds=4), worlds.job(1, arrival_ns=10**9)]
    run = worlds.run(worlds.cluster(["A", "B"]), jobs)
    costs = worlds.costs([[1.0, np.inf], [1.0, 1.0]], [[0.0, 0.0], [0.0, 0.0]])
    with pytest.raises(InfeasibleDecision, match=rule):
        simulate(run, costs, Scripted(Decision(assign=(assignment,))))


def test_a_policy_that_forgets_a_job_is_named_with_its_reason() -> None:
    run = worlds.run(worlds.cluster(["A"]), [worlds.job(0)])
    with pytest.raises(InfeasibleDecision, match="j0: as scripted"):
        simulate(run, worlds.costs([[1.0]], [[0.0]]), Scripted(Decision()))


def test_an_impossible_event_is_refused_with_the_jobs_story() -> None:
    run = worlds.run(worlds.cluster(["A"]), [worlds.job(0)])
    core = Core(
        run=run,
        costs=worlds.costs([[1.0]], [[0.0]]),
        policy=place_policy("srtf"),
        port=None,  # type: ignore[arg-type]
        sink=bytearray().extend,
        world="sim",
    )
    core.state.apply(JobArrived(0, 0))
    with pytest.raises(InvalidTransition, match=r"device runs nothing; recent: .*JobArrived"):
        core.state.apply(CompDone(1, 0, 0, 1, (0,), 0))
    with pytest.raises(InvalidTransition, match="was not assigned"):
        core.state.apply(RoundsDone(1, 0, 0, 1, False))


def plan_of(rows: list[tuple[int, int, int, int, int]]) -> Plan:
    columns = np.array(rows, dtype=np.int64).reshape(len(rows), 5).T
    return Plan(
        job_R=columns[0],
        round_R=columns[1],
        rounds_R=columns[2],
        shard_R=columns[3],
        device_R=columns[4],
    )


class Planned(Scripted):
    """An offline policy that returns one prepared plan."""

    offline = True


@pytest.mark.parametrize("compiled", [False, True])
def test_a_plan_with_a_cycle_is_refused(compiled: bool) -> None:
    jobs = [worlds.job(0, scale=1, rounds=2), worlds.job(1, scale=1, rounds=2)]
    run = worlds.run(worlds.cluster(["A", "A"]), jobs)
    costs = worlds.costs([[1.0], [1.0]], [[0.0], [0.0]])
    rows = [(0, 1, 1, 0, 0), (1, 0, 1, 0, 0), (1, 1, 1, 0, 1), (0, 0, 1, 0, 1)]
    with pytest.raises(InfeasibleDecision, match="cycle"):
        simulate(run, costs, Planned(Decision(plan=plan_of(rows))), compiled=compiled)


@pytest.mark.parametrize(
    "rows",
    [
        [(0, 0, 1, 0, 0)],
        [(0, 0, 1, 0, 0), (0, 0, 1, 0, 0)],
        [(0, 0, 1, 0, 0), (0, 1, 1, 0, 0), (0, 1, 1, 0, 0)],
        [(0, 0, 3, 0, 0)],
        [(0, 0, 2, 1, 0)],
    ],
)
def test_a_plan_that_misses_or_repeats_a_task_is_refused(
    rows: list[tuple[int, int, int, int, int]],
) -> None:
    run = worlds.run(worlds.cluster(["A"]), [worlds.job(0, rounds=2)])
    with pytest.raises(InfeasibleDecision, match="exactly once"):
        simulate(run, worlds.costs([[1.0]], [[0.0]]), Planned(Decision(plan=plan_of(rows))))


def test_a_torn_journal_is_read_up_to_its_last_whole_record() -> None:
    run, costs = worlds.random_world(1)
    journal = simulate(run, costs, place_policy("srtf"))
    whole = read_history(journal)
    torn = read_history(journal[:-7])
    assert len(torn.timeline) <= len(whole.timeline)
    assert torn.header == whole.header


def test_a_plan_is_read_back_from_its_record() -> None:
    plan = plan_of([(0, 0, 1, 0, 1), (1, 0, 3, 1, 0), (1, 0, 3, 0, 2), (0, 1, 1, 0, 0)])
    (record,) = decode(MAGIC + encode(adopted(plan)))
    assert isinstance(record, PlanAdopted)
    back = adopted_plan(record)
    for field in fields(Plan):
        assert np.array_equal(getattr(back, field.name), getattr(plan, field.name))
