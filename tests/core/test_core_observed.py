"""What policies see of jobs' metrics: one curve a job, as far as it has come."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from journal_replay import replay

from warren.core.loop import Core
from warren.core.metric_history import MetricHistory
from warren.core.state import State
from warren.model.decision import Assignment, Decision
from warren.model.events import JobArrived, RolledBack, RoundsDone
from warren.model.job import Evaluate, Stop
from warren.model.run import Losses, Truth
from warren.model.view import Observed, View
from warren.sim.port import SimPort

sys.path.insert(0, str(Path(__file__).parents[1]))
import worlds

S = 10**9
FALLS = Stop(metric="loss", falls_to=0.1)
RISES = Stop(metric="accuracy", reaches=0.9)


def points(observed: Observed, job: int = 0) -> list[tuple[int, float]]:
    seen = observed.of(job)
    return list(zip(seen.rounds_P.tolist(), seen.values_P.tolist(), strict=True))


def passed(first: int, rounds: int = 1, **what: Any) -> RoundsDone:
    return RoundsDone(0, 0, first, rounds, False, **what)


def test_the_metric_of_the_stop_rule_is_kept_and_no_other() -> None:
    seen = MetricHistory([worlds.job(0, stop=RISES)])
    seen.note(passed(0, 3, loss=9.0, metrics=(("accuracy", 0.2), ("f1", 0.1))))
    seen.note(passed(3, loss=8.0))
    seen.note(passed(4, loss=7.0, metrics=(("accuracy", 0.3),)))
    seen.note(passed(5, metrics=(("accuracy", float("nan")),)))
    assert points(seen) == [(3, 0.2), (5, 0.3)]


def test_the_loss_of_rounds_stands_in_only_where_the_job_is_not_evaluated() -> None:
    events = [passed(0, loss=9.0), passed(1, loss=8.0, metrics=(("loss", 5.0),))]
    for evaluate, found in ((None, [(1, 9.0), (2, 5.0)]), (Evaluate(every=2), [(2, 5.0)])):
        seen = MetricHistory([worlds.job(0, stop=FALLS, evaluate=evaluate)])
        for event in events:
            seen.note(event)
        assert points(seen) == found


def test_a_job_without_a_stop_rule_has_no_points() -> None:
    seen = MetricHistory([worlds.job(0)])
    seen.note(passed(0, loss=9.0, metrics=(("loss", 9.0),)))
    assert points(seen) == []


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 40)), max_size=120))
def test_what_is_seen_is_what_a_list_would_hold_after_any_roll_backs(
    steps: list[tuple[bool, int]],
) -> None:
    seen, expected, now = MetricHistory([worlds.job(0, stop=FALLS)]), [], 0
    for number, (back, amount) in enumerate(steps):
        if back:
            now = min(now, amount)
            seen.go_back(0, now)
            expected = [point for point in expected if point[0] <= now]
        else:
            seen.note(passed(now, amount + 1, loss=float(number)))
            now += amount + 1
            expected.append((now, float(number)))
        assert points(seen) == expected


def test_nothing_shown_can_be_written_and_a_roll_back_leaves_what_was_shown() -> None:
    seen = MetricHistory([worlds.job(0, stop=FALLS)])
    for number in range(20):
        seen.note(passed(number, loss=float(number)))
    before = seen.of(0)
    for array in (before.rounds_P, before.values_P):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
        with pytest.raises(ValueError, match="WRITEABLE"):
            array.setflags(write=True)
    seen.go_back(0, 3)
    seen.note(passed(3, loss=-1.0))
    assert before.values_P.tolist() == list(range(20))
    assert points(seen) == [(1, 0.0), (2, 1.0), (3, 2.0), (4, -1.0)]


def test_a_roll_back_takes_back_what_was_observed_after_the_checkpoint() -> None:
    run = worlds.run(worlds.cluster(["A"]), [worlds.job(0, rounds=9, stop=FALLS)])
    state = State(run, worlds.costs([[1.0]], [[0.0]]))
    state.apply(JobArrived(0, 0))
    for number in range(3):
        state.assign(Assignment(0, 0, number, 1, (0,)))
        state.groups[0][number].done = 1
        state.apply(passed(number, loss=float(-number)))
    assert points(state.view().progress) == [(1, 0.0), (2, -1.0), (3, -2.0)]
    state.apply(RolledBack(0, 0, 1, "its server was lost"))
    assert points(state.view().progress) == [(1, 0.0)]


class Watching:
    """Runs each job to its end on device 0 as it arrives; keeps what it saw of every job."""

    name, source, offline = "watching", "test", False
    triggers = frozenset({JobArrived, RoundsDone})

    def __init__(self, *, needs_rounds: bool) -> None:
        self.needs_rounds = needs_rounds
        self.seen: list[list[int]] = []

    def initial(self, view: View) -> None:
        return None

    def decide(self, view: View, memory: None) -> tuple[Decision, None]:
        known = len(view.jobs)
        with pytest.raises(IndexError):
            view.progress.of(known)
        with pytest.raises(IndexError):
            view.progress.of(-1)
        self.seen.append([len(view.progress.of(job)) for job in range(known)])
        waits = view.open_J & (view.next_round_J == view.round_J) & (view.next_shard_J == 0)
        if view.queued_D[0] or not waits.any():
            return Decision(), None
        job = int(np.argmax(waits))
        return Decision(assign=(Assignment(0, job, int(view.round_J[job]), 1, (0,)),)), None

    def explain(self, view: View, memory: None, job: int) -> str:
        return "waits"


@pytest.mark.parametrize("needs_rounds", [False, True])
def test_a_policy_sees_points_as_rounds_end_and_a_blind_one_of_jobs_that_came(
    needs_rounds: bool,
) -> None:
    jobs = [
        worlds.job(0, rounds=3, stop=FALLS, evaluate=Evaluate(every=1)),
        worlds.job(1, rounds=1, arrival_ns=5 * S // 2),
    ]
    truth = Truth(losses=Losses())
    run = worlds.run(worlds.cluster(["A"]), jobs, truth=truth)
    costs = worlds.costs([[1.0], [1.0]], [[0.0], [0.0]])
    policy, journal = Watching(needs_rounds=needs_rounds), bytearray()
    port = SimPort(run, costs)
    core = Core(
        run=run, costs=costs, policy=policy, port=port, sink=journal.extend, world="sim",
        check=True,
    )  # fmt: skip
    core.execute()
    known = [[0], [1], [2], [2, 0], [3, 0], [3, 0]]
    assert policy.seen == ([one + [0] * (2 - len(one)) for one in known] if needs_rounds else known)
    again = replay(bytes(journal), run, costs, blind=not needs_rounds)
    found = points(core.state.view().progress)
    assert points(again.view().progress) == found
    assert [rounds for rounds, _ in found] == [1, 2, 3]
    assert found[0][1] > found[1][1] > 0.1 >= found[2][1]
