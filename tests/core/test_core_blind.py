"""What a policy that knows neither the future nor the rounds sees, and what it may ask for."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warren.core.journal import Step
from warren.core.journal_reader import decode, read_history
from warren.core.loop import Core
from warren.model.costs import CostTable
from warren.model.decision import ENDLESS, Assignment, Decision
from warren.model.events import CompDone, JobArrived, JobFailed, RoundsDone
from warren.model.job import Workload
from warren.model.run import Grain, Run
from warren.model.view import View
from warren.policy.protocol import AnyPolicy
from warren.policy.registry import POLICIES, place_policy
from warren.sim.port import SimPort

sys.path.insert(0, str(Path(__file__).parents[1]))
import worlds

ONLINE = sorted(name for name in POLICIES if not place_policy(name).offline and name != "plain")
BLIND = [name for name in ONLINE if not place_policy(name).needs_rounds]
S = 10**9


class Asked:
    """Answers each arrival with the next of a list of assignments; keeps what it saw."""

    name, source, offline, needs_rounds = "asked", "test", False, False
    triggers = frozenset({JobArrived, RoundsDone, CompDone})

    def __init__(self, *answers: tuple[Assignment, ...]) -> None:
        self._answers = answers
        self.seen: list[dict[str, Any]] = []

    def initial(self, view: View) -> int:
        self._note(view)
        return 0

    def decide(self, view: View, memory: int) -> tuple[Decision, int]:
        self._note(view)
        if memory < len(self._answers) and isinstance(view.changes[0], JobArrived):
            return Decision(assign=self._answers[memory]), memory + 1
        return Decision(), memory

    def explain(self, view: View, memory: int, job: int) -> str:
        return f"{view.jobs[job].name} was asked about"

    def _note(self, view: View) -> None:
        columns = [getattr(view, name) for name in View.__struct_fields__ if name.endswith("_J")]
        columns += [view.costs.comp_ns_JT, view.costs.sync_ns_JT, view.costs.fits_JT]
        with pytest.raises(IndexError, match="have arrived"):
            view.jobs[len(view.jobs)]
        self.seen.append(
            {
                "now_s": view.now_ns // S,
                "lengths": {len(column) for column in columns},
                "names": [job.name for job in view.jobs],
                "rounds": {*view.rounds_J.tolist(), *(job.rounds for job in view.jobs[:])},
                "open": view.open_J.tolist(),
            }
        )


def simulate(run: Run, costs: CostTable, policy: AnyPolicy) -> bytes:
    journal = bytearray()
    port = SimPort(run, costs)
    core = Core(
        run=run, costs=costs, policy=policy, port=port, sink=journal.extend, world="sim", check=True
    )
    core.execute()
    return bytes(journal)


def two_jobs(first: int = 3, second: int = 2) -> tuple[Run, CostTable]:
    jobs = [worlds.job(0, rounds=first), worlds.job(1, rounds=second, arrival_ns=S // 2)]
    return worlds.run(worlds.cluster(["A"]), jobs), worlds.costs([[1.0], [1.0]], [[0.0], [0.0]])


def test_a_blind_policy_sees_no_job_that_has_not_arrived_and_no_number_of_rounds() -> None:
    run, costs = two_jobs()
    policy = Asked((Assignment(0, 0, 0, ENDLESS, (0,)),), (Assignment(0, 1, 0, ENDLESS, (0,)),))
    simulate(run, costs, policy)
    assert [one["lengths"] for one in policy.seen[:3]] == [{0}, {1}, {2}]
    assert [one["names"] for one in policy.seen[:3]] == [[], ["j0"], ["j0", "j1"]]
    told = set().union(*(one["rounds"] for one in policy.seen))
    assert told <= {-1, None}


def test_a_policy_that_needs_rounds_learns_them() -> None:
    run, costs = two_jobs()
    policy = Asked((Assignment(0, 0, 0, 3, (0,)),), (Assignment(0, 1, 0, 2, (0,)),))
    policy.needs_rounds = True  # type: ignore[misc]
    columns: list[list[int]] = []
    policy._note = lambda view: columns.append(view.rounds_J.tolist())  # type: ignore[method-assign]
    simulate(run, costs, policy)
    assert columns[0] == [3, 2]


def test_an_endless_stretch_ends_with_its_job_and_the_next_in_the_queue_starts_then() -> None:
    run, costs = two_jobs()
    endless = Asked((Assignment(0, 0, 0, ENDLESS, (0,)),), (Assignment(0, 1, 0, ENDLESS, (0,)),))
    history = read_history(simulate(run, costs, endless))
    assert history.finish_ns_J.tolist() == [3 * S, 5 * S]
    assert history.timeline.rounds_R.tolist() == [3, 2]


def test_tasks_beyond_the_last_round_are_void_and_keep_no_device() -> None:
    run, costs = two_jobs(first=2)
    ahead = tuple(Assignment(0, 0, round_, 1, (0,)) for round_ in range(5))
    policy = Asked(ahead, (Assignment(0, 1, 0, ENDLESS, (0,)),))
    history = read_history(simulate(run, costs, policy))
    assert history.finish_ns_J.tolist() == [2 * S, 4 * S]
    assert int(history.timeline.tasks_R.sum()) == 4


def test_a_job_that_runs_its_last_round_is_as_open_as_any_other() -> None:
    run, costs = two_jobs(first=1)
    policy = Asked((Assignment(0, 0, 0, 1, (0,)),), (Assignment(0, 1, 0, ENDLESS, (0,)),))
    simulate(run, costs, policy)
    assert policy.seen[2]["open"] == [True, True]


def test_a_job_to_come_is_explained_without_asking_a_blind_policy() -> None:
    run, costs = two_jobs()
    policy = Asked()
    core = Core(
        run=run, costs=costs, policy=policy, port=SimPort(run, costs), sink=len, world="sim"
    )
    core.ask_first()
    assert core.explain(1) == "has not arrived yet"


@pytest.mark.parametrize("place", BLIND)
def test_a_job_that_fails_before_it_arrives_shows_none_of_those_to_come(place: str) -> None:
    jobs = [worlds.job(k, rounds=2, arrival_ns=9 * S * k) for k in range(4)]
    run = worlds.run(worlds.cluster(["A"]), jobs)
    costs = worlds.costs([[1.0]] * 4, [[0.0]] * 4)
    port = SimPort(run, costs)
    core = Core(
        run=run, costs=costs, policy=place_policy(place), port=port, sink=len, world="sim",
        check=True,
    )  # fmt: skip
    core.begin()
    core.step(port.next_events())
    core.step((JobFailed(S // 2, 2, "it broke"),))
    assert len(core.state.view().jobs) == 1
    assert core.explain(2) == "has not arrived yet"
    while events := port.next_events():
        core.step(tuple(one for one in events if one != JobArrived(18 * S, 2)))
    assert core.state.done_J.all()


def past(journal: bytes, until_ns: int) -> list[Step]:
    """What was decided up to and with a time, less the endings that an instant may hold."""
    steps = [one for one in decode(journal) if isinstance(one, Step) and one.events]
    return [one for one in steps if one.events[0].time_ns < until_ns]


@pytest.mark.parametrize("place", ONLINE)
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10**6), other=st.integers(0, 10**6))
def test_what_an_online_policy_decides_does_not_depend_on_what_arrives_later(
    place: str, seed: int, other: int
) -> None:
    run, costs = worlds.random_world(seed, jobs=7)
    later, later_costs = worlds.random_world(other, jobs=7)
    jobs = run.workload.jobs
    switch_ns = jobs[3].arrival_ns + 1
    tail = [
        replace(job, arrival_ns=max(job.arrival_ns, switch_ns)) for job in later.workload.jobs[4:]
    ]
    known = [job for job in jobs if job.arrival_ns < switch_ns]
    mixed = [*known, *(replace(job, index=len(known) + i) for i, job in enumerate(tail))]
    rows = [*range(len(known)), *(job.index for job in tail)]
    rows = [min(row, len(jobs) - 1) for row in rows]
    other_run = replace(run, workload=Workload(jobs=tuple(mixed)))
    other_costs = worlds.first_rows(costs, len(known), later_costs, rows[len(known) :])
    found = past(simulate(run, costs, place_policy(place)), switch_ns)
    assert past(simulate(other_run, other_costs, place_policy(place)), switch_ns) == found


@pytest.mark.parametrize("place", BLIND)
@pytest.mark.parametrize("grain", [Grain(), Grain(text="3 s", rounds=None, time_ns=3 * S)])
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_a_blind_policy_decides_alike_until_a_job_ends_sooner(
    place: str, grain: Grain, seed: int
) -> None:
    run, costs = worlds.random_world(seed, grain=grain)
    jobs = run.workload.jobs
    longer = tuple(replace(job, rounds=(job.rounds or 0) + 5) for job in jobs)
    journal = simulate(run, costs, place_policy(place))
    first_end_ns = int(np.min(read_history(journal).finish_ns_J))
    other = simulate(replace(run, workload=Workload(jobs=longer)), costs, place_policy(place))
    answers = [[one.assign for one in past(one, first_end_ns)] for one in (journal, other)]
    assert answers[0] == answers[1]
