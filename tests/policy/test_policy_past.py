"""What policies do with the past: thresholds, which jobs are alike, what is expected of them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.core.journal import Step
from warren.core.journal_reader import decode, read_history
from warren.core.loop import Core
from warren.model.costs import CostTable
from warren.model.job import Job, Workload
from warren.model.past import NO_PAST, Past
from warren.model.run import Run
from warren.policy.common.job_history import (
    ENOUGH,
    MOST,
    JobHistory,
    kinds_by_code,
    like,
    records_of,
)
from warren.policy.place.hlas.feedback_queues import FeedbackQueues, by_past
from warren.policy.registry import place_policy
from warren.sim.port import SimPort

sys.path.insert(0, str(Path(__file__).parents[1]))
import worlds

S = 10**9


def past_of(jobs: Sequence[Job]) -> Past:
    """Jobs of one second a round."""
    return Past(jobs=tuple(jobs), costs=worlds.costs([[1.0]] * len(jobs), [[0.0]] * len(jobs)))


def journal(run: Run, costs: CostTable, name: str, past_: Past, **options: object) -> bytes:
    written = bytearray()
    core = Core(
        run=run, costs=costs, policy=place_policy(name, options), port=SimPort(run, costs),
        sink=written.extend, world="sim", past=past_, check=True,
    )  # fmt: skip
    core.execute()
    return bytes(written)


def ends_s(jobs: Sequence[Job], name: str, past_: Past, **options: object) -> list[float]:
    """When each job ends on one GPU, a round a second."""
    run = worlds.run(worlds.cluster(["A"]), jobs)
    costs = worlds.costs([[1.0]] * len(jobs), [[0.0]] * len(jobs))
    found = read_history(journal(run, costs, name, past_, **options)).finish_ns_J / S
    return [float(one) for one in found]


FIG_12 = [worlds.job(k, rounds=2 + k) for k in range(3)]
ONE_TO_EIGHT = past_of([worlds.job(k, rounds=1 + k) for k in range(8)])


@pytest.mark.parametrize("place", ["hlas", "las-2d"])
def test_thresholds_come_from_the_past_where_none_are_given(place: str) -> None:
    """Past jobs of 1 to 8 s: a threshold each second, so least attained goes first (Fig. 12(a))."""
    assert ends_s(FIG_12, place, NO_PAST) == [4, 6, 9]
    assert ends_s(FIG_12, place, ONE_TO_EIGHT) == [4, 7, 9]
    assert ends_s(FIG_12, place, ONE_TO_EIGHT, thresholds="100 s") == [2, 5, 9]


def test_hlas_counts_past_service_on_the_groups_that_it_makes() -> None:
    """Three tasks a round, (1/2 s + 1/1 s) over one group: 2 s a round; over two groups: 4 s."""
    past = Past(
        jobs=(worlds.job(0, scale=3, rounds=5),), costs=worlds.costs([[2.0, 1.0]], [[0, 0]])
    )
    run = worlds.run(worlds.cluster(["A", "B"]), [worlds.job(0)])
    costs = worlds.costs([[2.0, 1.0]], [[0.0, 0.0]])
    for groups in (1, 2):
        policy = place_policy("hlas", {"groups": groups})
        core = Core(
            run=run, costs=costs, policy=policy, port=SimPort(run, costs), sink=len, world="sim",
            past=past,
        )  # fmt: skip
        core.begin()
        assert core.memory.queues == FeedbackQueues((10 * S * groups,))  # type: ignore[attr-defined]


@given(st.lists(st.integers(1, 10**15), min_size=1, max_size=80, unique=True))
def test_equally_many_past_jobs_end_in_each_queue(sizes_ns: list[int]) -> None:
    queues = by_past(sizes_ns)
    counts = [0] * len(queues)
    for size_ns in sizes_ns:
        counts[queues.of(size_ns - 1)] += 1  # where its last moment is served
    if len(sizes_ns) >= 8:
        assert len(queues) == 8
        assert max(counts) - min(counts) <= 1


def test_past_jobs_of_one_size_make_one_threshold() -> None:
    assert by_past([5 * S] * 100) == FeedbackQueues((5 * S,))
    assert by_past([0]).above_ns == (1,)


def named(name: str, rounds: int, user: str = "ana", model: str = "m") -> Job:
    return replace(worlds.job(0, rounds=rounds, user=user, model=model), name=name)


def learned_from(past: Past) -> JobHistory:
    return records_of(past, kinds_by_code)


LONG_AND_SHORT = [
    *(named(f"{k}-long", 9) for k in range(5)), *(named(f"{k}-short", 1) for k in range(5))
]  # fmt: skip


def test_gittins_knows_from_the_past_which_of_two_new_jobs_is_short() -> None:
    """Else the first has two rounds before the second has one, as least attained service has it."""
    jobs = [named("7-long", 9), replace(named("8-short", 1), index=1)]
    assert ends_s(jobs, "gittins", NO_PAST) == [10, 3]
    assert ends_s(jobs, "gittins", past_of(LONG_AND_SHORT)) == [10, 1]
    assert ends_s(jobs, "gittins", past_of(LONG_AND_SHORT), past=False) == [10, 3]


def test_gittins_goes_on_learning_from_the_ends_of_its_own_run() -> None:
    """The past says that jobs b are short. By the fifth end of this run it is known better."""
    past = past_of([named("b", 1), *(named("a", 4) for _ in range(5))])
    jobs = [replace(named("b", 9), index=k, arrival_ns=100 * S * k) for k in range(5)]
    jobs += [replace(named(name, 9 if name == "b" else 4), index=5 + k, arrival_ns=900 * S)
             for k, name in enumerate("ba")]  # fmt: skip
    jobs = [replace(job, name=f"{job.name}-{job.index}") for job in jobs]
    assert ends_s(jobs, "gittins", past)[5:] == [913, 904]


def test_the_most_specific_kind_with_enough_jobs_counts() -> None:
    few = ENOUGH - 1
    ended = [named("x", 1)] * few + [named("y", 2)] + [named("y", 3, user="bob")] * 9
    ended += [named("x", 4, model="other")] * 9
    known = learned_from(past_of([replace(job, index=k) for k, job in enumerate(ended)]))
    like_x = sorted(like(known, named("x-17", 99)).rounds)
    assert like_x == [1] * few + [2], "of the user and model: too few have the name"
    ended.append(named("3-x", 1))
    known = learned_from(past_of([replace(job, index=k) for k, job in enumerate(ended)]))
    assert like(known, named("x-17", 99)).rounds == (1,) * ENOUGH
    of_model = like(known, named("x", 99, user="eve")).rounds
    assert sorted(of_model) == [1] * ENOUGH + [2] + [3] * 9
    assert len(like(known, named("x", 99, model="new")).rounds) == len(ended)


def test_one_job_of_a_model_tells_more_than_many_of_others() -> None:
    ended = [*(named("a", 1) for _ in range(9)), named("b", 7, user="bob", model="n")]
    assert like(learned_from(past_of(ended)), named("c", 99, model="n")).rounds == (7,)
    assert like(learned_from(NO_PAST), named("c", 99)).rounds == ()


def test_of_a_kind_the_latest_are_remembered() -> None:
    known = learned_from(past_of([named("a", rounds) for rounds in range(1, MOST + 11)]))
    assert like(known, named("a", 99)).rounds == tuple(range(11, MOST + 11))


@pytest.mark.parametrize("place", ["gittins", "hlas", "las-2d"])
def test_with_a_past_too_decisions_do_not_depend_on_rounds_until_a_job_ends(place: str) -> None:
    for seed in range(4):
        run, costs = worlds.random_world(seed)
        types = run.cluster.type_names
        past = Past(
            jobs=tuple(worlds.job(k, rounds=1 + k) for k in range(9)),
            costs=worlds.costs([[1.0] * len(types)] * 9, [[0.0] * len(types)] * 9),
        )
        more = tuple(replace(job, rounds=(job.rounds or 0) + 5) for job in run.workload.jobs)
        longer = replace(run, workload=Workload(jobs=more))
        found, other = (journal(one, costs, place, past) for one in (run, longer))
        until_ns = int(read_history(found).finish_ns_J.min())
        answers = [
            [step.assign for step in decode(one)
             if isinstance(step, Step) and step.events and step.events[0].time_ns < until_ns]
            for one in (found, other)
        ]  # fmt: skip
        assert answers[0] == answers[1]
        assert answers[0]
