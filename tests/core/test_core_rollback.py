"""Jobs that lose their state: every one still finishes, every task counts once, nothing waits."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from core_faults import FaultyPort, Trouble
from hypothesis import given, settings
from hypothesis import strategies as st

from warren.core import loop
from warren.core import plan_feeder as feeder
from warren.core.journal import MAGIC, Header, Resumed, Step, encode
from warren.core.journal_reader import History, read_history
from warren.core.loop import Core
from warren.core.scheduling_rules import check_invariants
from warren.core.state import State
from warren.core.wait_reasons import reason
from warren.model.costs import CostTable
from warren.model.decision import Assignment, Decision, Plan, Reason
from warren.model.errors import InfeasibleDecision, InvalidTransition
from warren.model.events import CompDone, JobArrived, RolledBack, RoundsDone, TasksDone, TasksLost
from warren.model.run import Grain, Run
from warren.policy.registry import POLICIES, place_policy

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "sim"))
sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "policies"))
import sim_worlds
import worlds
from round_robin import RoundRobin

pytestmark = pytest.mark.slow

COARSE = Grain(text="3 rounds", rounds=3)
WAYS = [(name, Grain()) for name in (*sorted(POLICIES), "round-robin")]
WAYS += [(name, COARSE) for name in sorted(set(POLICIES) - {"hare-published"})]
"""Policies with grains; two know single rounds only."""
OPTIONS: dict[str, dict[str, object]] = {
    "hare": {"budget": 2000}, "hare-published": {"budget": 20}, "braid": {"budget": 2000},
}  # fmt: skip


def policy_of(name: str) -> Any:
    return RoundRobin() if name == "round-robin" else place_policy(name, OPTIONS.get(name, {}))


def world_of(seed: int, name: str, grain: Grain) -> tuple[Run, CostTable]:
    devices = 1 if name == "plain" else 2 + seed % 4
    return worlds.random_world(seed, jobs=5, devices=devices, grain=grain)


def execute(run: Run, costs: CostTable, policy: Any, trouble: Trouble) -> History:
    journal = bytearray()
    port: Any = FaultyPort(run, costs, trouble)
    Core(
        run=run, costs=costs, policy=policy, port=port, sink=journal.extend, world="live",
        check=True,
    ).execute()  # fmt: skip
    return read_history(bytes(journal))


def check_counts(run: Run, history: History) -> None:
    """Finished jobs: all tasks once. The others: no task twice."""
    timeline = history.timeline
    for job in run.workload.jobs:
        mine = timeline.job_R == job.index
        done = np.zeros(job.rounds or 0, dtype=int)
        for first, rounds, tasks in zip(
            timeline.round_R[mine], timeline.rounds_R[mine], timeline.tasks_R[mine], strict=True
        ):
            done[first : first + rounds] += tasks // rounds
        if history.status(job.index) == "finished":
            assert (done == job.scale).all(), job
        assert (done <= job.scale).all(), job
        barriers = [e.round for e in history.rounds if e.job == job.index]
        assert barriers == list(range(len(barriers)))


@pytest.mark.parametrize(("name", "grain"), WAYS)
def test_whatever_is_rolled_back_every_job_ends_and_every_task_counts_once(
    name: str, grain: Grain
) -> None:
    seen = 0

    @settings(max_examples=settings().max_examples // 6)  # in each of fifty ways
    @given(st.integers(0, 10**6), st.booleans())
    def check(seed: int, failing: bool) -> None:
        nonlocal seen
        run, costs = world_of(seed, name, grain)
        history = execute(run, costs, policy_of(name), Trouble(seed=seed, failing=failing))
        statuses = {history.status(job.index) for job in run.workload.jobs}
        assert statuses <= ({"finished", "failed"} if failing else {"finished"})
        check_counts(run, history)
        seen += len(history.rollbacks)

    check()
    assert seen > 15


class Asleep(RoundRobin):
    """Names no roll-back among what wakes it."""

    triggers = frozenset({JobArrived, CompDone, RoundsDone})


def test_a_policy_is_asked_after_every_roll_back() -> None:
    for seed in range(20):
        run, costs = world_of(seed, "round-robin", Grain())
        history = execute(run, costs, Asleep(), Trouble(seed=seed, rate=0.3))
        assert (history.finish_ns_J >= 0).all()


class Planned:
    """A policy that returns one prepared plan."""

    name, source, offline, needs_rounds = "planned", "test", True, True
    triggers: frozenset[Any] = frozenset()

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def initial(self, view: object) -> None:
        return None

    def decide(self, view: object, memory: None) -> tuple[Decision, None]:
        return Decision(plan=self._plan), None

    def explain(self, view: object, memory: None, job: int) -> str:
        return "as planned"


def planned(seed: int, grain: int, rate: float = 0.3) -> History | None:
    """A random plan with random roll-backs; None if its order does not run even without."""
    world = sim_worlds.random_world(seed, "constant", False)
    policy = Planned(sim_worlds.random_plan(world, seed, grain))
    trouble = Trouble(seed=seed, rate=rate, most=40, every=1 + seed % 3, failing=seed % 4 == 0)
    history = execute(world.run, world.costs, policy, trouble)
    check_counts(world.run, history)
    return history


@pytest.mark.parametrize("look_ahead", [1, 3])
@pytest.mark.parametrize("grain", [1, 2, 6])
def test_no_plan_waits_for_ever_whatever_is_rolled_back(
    grain: int, look_ahead: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeder, "LOOK_AHEAD", look_ahead)

    @given(st.integers(0, 10**6))
    def check(seed: int) -> None:
        planned(seed, grain)

    check()


class Open(feeder.PlanFeeder):
    """Hands out whatever comes next."""

    def _may(self, one: Assignment) -> bool:
        return True


class Late(feeder.PlanFeeder):
    """Puts what comes back before the other parts of stretches begun."""

    def _begun(self, one: Assignment) -> bool:
        return False


@pytest.mark.parametrize(("broken", "grain"), [(Open, 1), (Open, 6), (Late, 6)])
def test_without_any_one_of_the_feeders_rules_some_plan_waits_for_ever(
    broken: type[feeder.PlanFeeder], grain: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "PlanFeeder", broken)
    monkeypatch.setattr(feeder, "LOOK_AHEAD", 1)
    assert any(map(waits_for_ever, range(3000), [grain] * 3000))


def waits_for_ever(seed: int, grain: int) -> bool:
    try:
        planned(seed, grain)
    except InfeasibleDecision as error:
        return "waiting for ever" in str(error)
    return False


def test_what_comes_back_stands_first_in_the_plans_order_and_a_cut_stretch_as_its_rest() -> None:
    rows = [
        Assignment(0, 0, 0, 4, (0,)), Assignment(0, 0, 4, 1, (0,)), Assignment(0, 1, 0, 1, (0,)),
        Assignment(0, 1, 1, 1, (0,)),
    ]  # fmt: skip
    feed = feeder.PlanFeeder(rows, 1, np.array([1, 1]))
    assert feed.feed([0]) == rows[:3]
    feed.roll_back(0, 3)
    assert feed.feed([1]) == [Assignment(0, 0, 3, 1, (0,)), rows[1]]
    feed.roll_back(0, 2)
    assert feed.feed([1]) == [Assignment(0, 0, 2, 1, (0,)), Assignment(0, 0, 3, 1, (0,))]
    assert feed.feed([0]) == [rows[1], rows[3]]


def arrived() -> State:
    """Job 0 (scale 2, a stretch of 3 rounds on both devices, then more) beside job 1."""
    jobs = [worlds.job(0, scale=2, rounds=9), worlds.job(1, rounds=2)]
    run = worlds.run(worlds.cluster(["A", "A"]), jobs)
    state = State(run, worlds.costs([[1.0], [1.0]], [[0.0], [0.0]]))
    for job in (0, 1):
        state.apply(JobArrived(0, job))
    for one in stretches():
        state.assign(one)
    for device in (0, 1):
        state.apply(CompDone(5, 0, 0, 3, (device,), device))
        state.apply(TasksDone(5, 0, 0, 3, (device,), device, 0, 5, 5))
    state.apply(RoundsDone(5, 0, 0, 3, False))
    return state


def stretches() -> Iterator[Assignment]:
    yield from (Assignment(device, 0, 0, 3, (device,)) for device in (0, 1))
    yield Assignment(0, 0, 3, 1, (0,))
    yield Assignment(0, 1, 0, 1, (0,))


def test_a_job_rolled_back_into_a_stretch_leaves_all_queues_and_is_open_from_there() -> None:
    state = arrived()
    state.apply(CompDone(7, 0, 3, 1, (0,), 0))
    kept = tuple(TasksDone(7, 0, 0, 2, (k,), k, 0, 4, 4) for k in (0, 1))
    state.apply(RolledBack(8, 0, 2, "its server was lost", kept))
    check_invariants(state)
    assert [list(queue) for queue in state.queues] == [[Assignment(0, 1, 0, 1, (0,))], []]
    assert state.syncing == [[], []]
    assert state.queued_D.tolist() == [1, 0]
    assert not state.groups[0]
    assert (state.round_J[0], state.next_round_J[0], state.next_shard_J[0]) == (2, 2, 0)
    assert state.open_J[0]
    assert reason(state, 0) is Reason.WAITING_FOR_TURN


@pytest.mark.parametrize("round_no", [-1, 4])
def test_a_job_goes_back_only_to_a_round_it_has_begun(round_no: int) -> None:
    with pytest.raises(InvalidTransition, match="only 3 barriers have passed"):
        arrived().apply(RolledBack(8, 0, round_no, ""))


def test_lost_tasks_change_nothing_and_only_running_jobs_lose_any() -> None:
    state, same = arrived(), arrived()
    state.apply(TasksLost(8, 0, 3, (0,), 0, "killed"))
    check_invariants(state)
    for name in ("round_J", "next_round_J", "next_shard_J", "open_J", "queued_D", "reason_J"):
        assert np.array_equal(getattr(state, name), getattr(same, name))
    assert state.queues == same.queues
    early = State(state.run, state.costs)
    for event in (TasksLost(0, 0, 0, (0,), 0, ""), RolledBack(0, 0, 0, "")):
        with pytest.raises(InvalidTransition, match="PENDING"):
            early.apply(event)


def test_redone_tasks_are_counted_by_what_had_been_done() -> None:
    def row(first: int, rounds: int, shard: int) -> TasksDone:
        return TasksDone(9, 0, first, rounds, (shard,), shard, 0, 9, 9)

    events = (
        *(row(0, 3, k) for k in (0, 1)), RoundsDone(9, 0, 0, 3, False), row(3, 1, 0),
        TasksLost(9, 0, 3, (1,), 1, ""), RolledBack(9, 0, 1, "", (row(0, 1, 0), row(0, 1, 1))),
        RolledBack(9, 0, 1, "again", (row(0, 1, 0), row(0, 1, 1))),
    )  # fmt: skip
    header = Header("t", "live", "x", "1", 0, ("j",), ("a", "b"))
    records = [header, Step((JobArrived(0, 0),)), Step(events), Resumed(9)]
    history = read_history(MAGIC + b"".join(map(encode, records)))
    first, again = history.rollbacks
    assert (first.passed, first.redone_tasks(2)) == (3, 2 * 2 + 1)
    assert (again.passed, again.redone_tasks(2)) == (1, 0)
    assert [one.shards for one in history.lost] == [(1,)]
    assert history.timeline.rounds_R.tolist() == [1, 1]
    assert [(one.round, one.rounds) for one in history.rounds] == [(0, 1)]
    assert history.resumed == 1
