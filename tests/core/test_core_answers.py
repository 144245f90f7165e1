"""A foreign policy may answer anything: one clear line each, and nothing else happens."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from warren.core import loop
from warren.core.journal_reader import read_history
from warren.core.loop import Core
from warren.model.decision import NOTHING, Assignment, Decision, Plan, Reason
from warren.model.errors import InfeasibleDecision
from warren.model.events import JobArrived, Woken
from warren.model.view import View
from warren.sim.port import SimPort

sys.path.insert(0, str(Path(__file__).parents[1]))
import worlds

I64 = np.int64
FIRST = Assignment(0, 0, 0, 1, (0,))
Answer = Callable[[View, Any], Any]


class Foreign:
    """A policy made of one function."""

    name, source, offline, needs_rounds = "foreign", "test", False, False
    triggers: Any = frozenset({JobArrived, Woken})

    def __init__(self, answer: Answer, **changes: object) -> None:
        self._answer = answer
        self.__dict__.update(changes)

    def initial(self, view: object) -> int:
        return 0

    def decide(self, view: View, memory: int) -> Any:
        return self._answer(view, memory)

    def explain(self, view: object, memory: int, job: int) -> str:
        return "as it says"


def simulate(policy: object, *, jobs: int = 1, rounds: int = 1) -> bytes:
    listed = [worlds.job(index, rounds=rounds) for index in range(jobs)]
    run = worlds.run(worlds.cluster(["A", "A"]), listed)
    costs = worlds.costs([[1.0]] * jobs, [[0.5]] * jobs)
    journal = bytearray()
    core = Core(
        run=run,
        costs=costs,
        policy=policy,  # type: ignore[arg-type]
        port=SimPort(run, costs),
        sink=journal.extend,
        world="sim",
        check=True,
    )
    core.execute()
    return bytes(journal)


def refusal(policy: object) -> str:
    with pytest.raises(InfeasibleDecision) as caught:
        simulate(policy)
    text = str(caught.value)
    assert "\n" not in text
    assert text.startswith("policy foreign")
    return text


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "decide returns (Decision, memory), got a NoneType"),
        (NOTHING, "decide returns (Decision, memory), got a Decision"),
        ((SimpleNamespace(assign=()), 0), "got a SimpleNamespace first"),
        ((Decision(assign=[FIRST]), 0), "assign is a tuple, got a list"),
        ((Decision(assign=(x for x in (FIRST,))), 0), "assign is a tuple, got a generator"),
        ((Decision(assign=((0, 0, 0, 1, (0,)),)), 0), "assign holds Assignments, got a tuple"),
        ((Decision(assign=(Assignment(0, 0, 0, 1, [0]),)), 0), "shards are a tuple, got a list"),
        ((Decision(assign=(Assignment(0, 0, 0, 1, range(1)),)), 0), "shards are a tuple"),
        ((Decision(assign=(Assignment(0.0, 0, 0, 1, (0,)),)), 0), "allowed: whole numbers"),
        ((Decision(assign=(Assignment(0, 0, 0, 1, ("0",)),)), 0), "allowed: whole numbers"),
        ((Decision(assign=(Assignment(0, 0, 0, 10**30, (0,)),)), 0), "never end"),
        ((Decision(assign=(Assignment(10**30, 0, 0, 1, (0,)),)), 0), "there is no device"),
        ((Decision(assign=(Assignment(0, -1, 0, 1, (0,)),)), 0), "there is no job -1"),
        ((Decision(assign=(Assignment(0, 0, 10**30, 1, (0,)),)), 0), "round 0 comes first"),
        ((Decision(assign=(FIRST, FIRST)), 0), "round 1 comes first"),
        ((Decision(reasons=[(0, 1)]), 0), "reasons map jobs to reasons, got a list"),
        ((Decision(reasons={-1: Reason.RUNNING}), 0), "a reason for job -1; there is no such job"),
        ((Decision(reasons={7: Reason.RUNNING}), 0), "a reason for job 7"),
        ((Decision(reasons={0: "late"}), 0), "map a job's index to a Reason, got 0: 'late'"),
        ((Decision(reasons={0: 99}), 0), "to a Reason"),
        ((Decision(wake_ns=1.5), 0), "whole nanoseconds, got 1.5"),
        ((Decision(wake_ns=-1), 0), "wake_ns is -1; allowed: later than now"),
        ((Decision(wake_ns=0), 0), "wake_ns is 0; allowed: later than now"),
        ((Decision(wake_ns=2**80), 0), "below 2**62"),
        ((Decision(plan="first in, first out"), 0), "plan is a Plan, got a str"),
        ((Decision(plan=Plan.empty()), 0), "a plan is the first decision of an offline policy"),
    ],
)
def test_an_answer_of_a_wrong_type_is_refused_in_one_line(answer: Any, words: str) -> None:
    assert words in refusal(Foreign(lambda view, memory: answer))


def plan(**changes: Any) -> Plan:
    zero, one = np.zeros(1, I64), np.ones(1, I64)
    columns = {"job_R": zero, "round_R": zero, "rounds_R": one, "shard_R": zero, "device_R": zero}
    return Plan(**(columns | changes))


@pytest.mark.parametrize(
    ("decision", "words"),
    [
        (Decision(plan=plan(job_R=[0])), "job_R of the plan is an int64 array of one axis"),
        (Decision(plan=plan(round_R=np.zeros(1))), "round_R of the plan is an int64 array"),
        (Decision(plan=plan(shard_R=np.zeros((1, 1), I64))), "shard_R of the plan is an int64"),
        (Decision(plan=plan(shard_R=np.zeros(1, np.uint64))), "shard_R of the plan is int64"),
        (Decision(plan=plan(device_R=np.zeros(2, I64))), "the columns of the plan are of one"),
        (Decision(plan=plan(device_R=np.array([-1]))), "names a job or device unknown here"),
        (Decision(plan=plan(rounds_R=np.array([2**63 - 1]))), "exactly once"),
        (Decision(plan=plan(round_R=np.array([-(2**63)]))), "exactly once"),
        (Decision(plan=plan(), wake_ns=5), "a plan comes alone"),
        (Decision(plan=plan(), assign=(FIRST,)), "a plan comes alone"),
    ],
)
def test_a_plan_of_a_wrong_shape_is_refused_in_one_line(decision: Decision, words: str) -> None:
    assert words in refusal(Foreign(lambda view, memory: (decision, 0), offline=True))


def test_a_plan_comes_once_and_before_time_starts() -> None:
    def late(view: View, memory: Any) -> Any:
        return (Decision(plan=plan()) if view.changes else NOTHING), memory

    assert "first decision of an offline policy" in refusal(Foreign(late, offline=True))


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(
    "rows",
    [
        # (job, round, rounds, shard, device): one shard of two in a stretch, the other not.
        [(0, 0, 2, 0, 0), (0, 0, 1, 1, 1), (0, 1, 1, 1, 1)],
        [(0, 0, 2, 0, 0), (1, 0, 1, 0, 1), (0, 0, 2, 1, 1)],
    ],
)
def test_a_plan_with_a_torn_stretch_is_refused_on_both_paths(
    rows: list[tuple[int, ...]], compiled: bool
) -> None:
    columns = dict(
        zip(("job_R", "round_R", "rounds_R", "shard_R", "device_R"), np.array(rows).T, strict=True)
    )
    jobs = [worlds.job(0, scale=2, rounds=2), worlds.job(1)][: 1 + max(row[0] for row in rows)]
    run = worlds.run(worlds.cluster(["A", "A"]), jobs)
    costs = worlds.costs([[1.0]] * len(jobs), [[0.5]] * len(jobs))
    policy = Foreign(lambda view, memory: (Decision(plan=Plan(**columns)), 0), offline=True)
    core = Core(
        run=run, costs=costs, policy=policy, port=SimPort(run, costs), sink=bytearray().extend,
        world="sim", check=True, compiled=compiled,
    )  # type: ignore[arg-type] # fmt: skip
    with pytest.raises(InfeasibleDecision, match="follow one another and name every shard once"):
        core.execute()


def test_numpy_integers_are_taken_as_numbers() -> None:
    def answer(view: View, memory: Any) -> Any:
        one = Assignment(I64(1), I64(0), I64(0), I64(3), (I64(0),))  # type: ignore[arg-type]
        return Decision(assign=(one,), reasons={I64(0): 6}, wake_ns=I64(7)), memory  # type: ignore[dict-item, arg-type]

    def once(view: View, memory: Any) -> Any:
        return answer(view, memory) if view.now_ns == 0 else (NOTHING, memory)

    history = read_history(simulate(Foreign(once), rounds=3))
    assert history.finish_ns_J.tolist() == [4_500_000_000]


def raise_here(view: View, memory: Any) -> Any:
    raise ZeroDivisionError("no\nfree device")


def write_column(view: View, memory: Any) -> Any:
    view.open_J[0] = False


def free_column(view: View, memory: Any) -> Any:
    view.queued_D.flags.writeable = True


def base_column(view: View, memory: Any) -> Any:
    view.queued_D.base[0] = 5


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (raise_here, "decide raised ZeroDivisionError: no free device (test_core_answers.py:"),
        (write_column, "decide raised ValueError: assignment destination is read-only"),
        (free_column, "decide raised ValueError: cannot set WRITEABLE flag"),
        (base_column, "decide raised TypeError"),
    ],
)
def test_what_a_policy_raises_becomes_one_line_and_the_view_stays_as_it_was(
    answer: Answer, words: str
) -> None:
    assert words in refusal(Foreign(answer))


@pytest.mark.parametrize(
    "changes", [{"triggers": None}, {"triggers": {"JobArrived"}}, {"offline": None}]
)
def test_wrong_capabilities_are_refused(changes: dict[str, object]) -> None:
    refusal(Foreign(lambda view, memory: (NOTHING, 0), **changes))


def test_a_policy_that_changes_its_plan_afterwards_changes_nothing() -> None:
    mine = plan()
    sent = Foreign(lambda view, memory: (Decision(plan=mine), 0), offline=True)
    run = worlds.run(worlds.cluster(["A"]), [worlds.job(0)])
    costs = worlds.costs([[1.0]], [[0.5]])
    journal = bytearray()

    def sink(data: bytes) -> None:
        if journal:  # the first is the header; the plan follows
            mine.device_R[:] = 99
        journal.extend(data)

    Core(
        run=run,
        costs=costs,
        policy=sent,  # type: ignore[arg-type]
        port=SimPort(run, costs),
        sink=sink,
        world="sim",
    ).execute()
    assert read_history(bytes(journal)).timeline.device_R.tolist() == [0]


def test_a_periodic_policy_ends_with_its_last_job() -> None:
    def answer(view: View, memory: Any) -> Any:
        assign = (FIRST,) if view.next_round_J[0] == 0 else ()
        return Decision(assign=assign, wake_ns=view.now_ns + 10**8), memory

    assert read_history(simulate(Foreign(answer))).finish_ns_J[0] > 0


def test_a_policy_that_only_ever_asks_to_be_woken_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "IDLE_WAKES", 50)
    lazy = Foreign(lambda view, memory: (Decision(wake_ns=view.now_ns + 10), memory))
    assert "left 1 job(s) waiting for ever; first: j0: as it says" in refusal(lazy)


def test_idle_wakes_while_a_job_is_still_to_come_are_patience(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loop, "IDLE_WAKES", 5)
    jobs = [worlds.job(0, arrival_ns=10**9)]
    run, costs = worlds.run(worlds.cluster(["A"]), jobs), worlds.costs([[1.0]], [[0.0]])

    def answer(view: View, memory: Any) -> Any:
        return Decision(wake_ns=view.now_ns + 10**7), memory

    def waits(view: View, memory: Any) -> Any:
        if view.open_J[0]:
            return Decision(assign=(FIRST,)), memory
        return answer(view, memory)

    journal = bytearray()
    core = Core(
        run=run,
        costs=costs,
        policy=Foreign(waits, offline=True),  # type: ignore[arg-type]
        port=SimPort(run, costs),
        sink=journal.extend,
        world="sim",
    )
    core.execute()
    assert read_history(bytes(journal)).finish_ns_J.tolist() == [2 * 10**9]
