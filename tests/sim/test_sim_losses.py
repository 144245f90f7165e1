"""Hidden curves: at their target when the job ends, never before, and a search has one leader."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sim_worlds import assignments_of, outcome_of, random_plan, random_world, run_events

from warren.model.events import RoundsDone
from warren.model.job import Evaluate, Job, Stop
from warren.model.run import Losses
from warren.sim.hidden_curves import HiddenCurve, HiddenCurves

STOPS = st.one_of(
    st.builds(Stop, metric=st.just("loss"), falls_to=st.floats(-5, 100)),
    st.builds(Stop, metric=st.just("accuracy"), reaches=st.floats(-5, 100)),
)


def job_of(index: int, rounds: int, stop: Stop | None, **fields: object) -> Job:
    return Job(index=index, name=f"j{index}", scale=1, rounds=rounds, stop=stop, **fields)  # type: ignore[arg-type]


def curve_of(curves: HiddenCurves, job: int) -> HiddenCurve:
    found = curves.of(job)
    assert found is not None
    return found


def shown(curves: HiddenCurves, job: int, rounds: int) -> list[float]:
    return [curves.metrics(job, done, 1)[0][1] for done in range(rounds)]


@given(STOPS, st.integers(1, 10**7), st.integers(0, 10**9))
def test_a_curve_never_turns_and_reaches_its_target_at_the_last_round_and_not_before(
    stop: Stop, rounds: int, seed: int
) -> None:
    curve = curve_of(HiddenCurves([job_of(0, rounds, stop)], Losses(), seed), 0)
    at = sorted({*range(min(rounds, 50)), *range(0, rounds, 1 + rounds // 50), rounds - 1})
    values = [curve.value(one) * curve.sign for one in at]
    assert all(one >= other for one, other in pairwise(values))
    assert not any(stop.holds({stop.metric: curve.value(one)}) for one in at)
    assert stop.holds({stop.metric: curve.value(rounds)})
    assert abs(curve.value(0) - curve.target) == pytest.approx(curve.span)


@given(STOPS, st.integers(1, 200), st.integers(0, 10**9), st.floats(0, 1))
def test_what_is_shown_ends_the_job_at_its_last_round_and_not_before(
    stop: Stop, rounds: int, seed: int, noise: float
) -> None:
    values = shown(HiddenCurves([job_of(0, rounds, stop)], Losses(noise=noise), seed), 0, rounds)
    assert [stop.holds({stop.metric: value}) for value in values] == [False] * (rounds - 1) + [True]


@given(STOPS, st.sampled_from([0.1, 0.27, 0.8]), st.integers(0, 10**9))
def test_bent_curves_have_95_percent_of_their_end_after_the_share_of_rounds_stated(
    stop: Stop, share: float, seed: int
) -> None:
    bent = Losses(share_to_95=share)
    curve = curve_of(HiddenCurves([job_of(0, 10_000, stop)], bent, seed), 0)
    unit = abs(curve.target) if abs(curve.target) > 1e-6 else 1.0
    short = 0.05 * (curve.span if stop.reaches is None else unit)
    assert curve.excess(round(10_000 * share)) == pytest.approx(short, rel=1e-6)
    as_drawn = curve_of(HiddenCurves([job_of(0, 10_000, stop)], Losses(), seed), 0)
    assert (curve.span, curve.target, curve.power) == (
        as_drawn.span, as_drawn.target, as_drawn.power,
    )  # fmt: skip


def test_noise_is_as_large_as_stated_and_no_two_jobs_or_rounds_share_it() -> None:
    stop = Stop(metric="loss", falls_to=0.1)
    jobs = [job_of(k, 4000, stop) for k in range(2)]
    curves = HiddenCurves(jobs, Losses(noise=0.01), seed=3)
    off = []
    for job in (0, 1):
        curve, values = curve_of(curves, job), shown(curves, job, 2000)
        clean = [curve.value(done + 1) for done in range(2000)]
        off.append((np.array(values) - clean) / curve.span)
    # Mirrored at the target, late values of a curve that is nearly there are off by less.
    assert np.std(off[0][:200]) == pytest.approx(0.01, rel=0.25)
    assert abs(np.corrcoef(off[0][:200], off[1][:200])[0, 1]) < 0.25


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_noise_beyond_the_target_is_mirrored_before_the_end_and_kept_at_it(sign: float) -> None:
    curve = HiddenCurve(target=0.5, sign=sign, span=2.0, end=10, power=2, bend=1.0)
    back = -2 * curve.excess(9) / curve.span
    assert curve.shown(9, back) == pytest.approx(curve.value(9))
    assert curve.shown(9, back / 4) == pytest.approx(0.5 + sign * curve.excess(9) / 2)
    assert curve.shown(10, 0.1) == curve.shown(10, -0.1) == pytest.approx(0.5 - sign * 0.2)


def test_draws_belong_to_seed_and_job_alone() -> None:
    stop = Stop(metric="loss", falls_to=0.1)
    jobs = [job_of(k, 30, stop) for k in range(40)]
    one, other = HiddenCurves(jobs, Losses(), 1), HiddenCurves(jobs, Losses(), 1)
    backwards = {job: curve_of(other, job) for job in reversed(range(40))}
    found = {job: curve_of(one, job) for job in range(40)}
    assert found == backwards
    assert len({(curve.span, curve.bend) for curve in found.values()}) == 40
    assert {curve.power for curve in found.values()} == {0, 1, 2, 4}
    assert curve_of(HiddenCurves(jobs, Losses(), 2), 0) != found[0]


def test_a_loss_starts_at_several_times_its_target_and_would_level_out_between_it_and_zero() -> (
    None
):
    jobs = [job_of(k, 500, Stop(metric="loss", falls_to=0.1)) for k in range(100)]
    curves = HiddenCurves(jobs, Losses(), 4)
    for curve in (curve_of(curves, job) for job in range(100)):
        assert 0.39 < curve.value(0) < 1.31
        # What its shape has left at the end of what it had at 0 is what lies beyond the target.
        x = curve.end / curve.bend
        left = (1 + x) ** (-curve.power / 2) if curve.power else (1 + x / 64) ** -64
        assert 0.02 - 1e-9 < curve.span * left / (1 - left) < 0.08 + 1e-9


def test_the_numbers_are_these_on_every_machine() -> None:
    stop = Stop(metric="loss", falls_to=0.1)
    curves = HiddenCurves([job_of(k, 100, stop) for k in range(4)], Losses(), 1)
    powers = [curve_of(curves, job).power for job in range(4)]
    values = [curves.metrics(job, 49, 1)[0][1].hex() for job in range(4)]
    assert powers == [0, 0, 1, 4]
    assert values == [
        "0x1.9c50672da3b3fp-3", "0x1.e467018bb76f9p-3",
        "0x1.eac31b375b396p-4", "0x1.68315a27134e6p-3",
    ]  # fmt: skip


@given(
    st.lists(st.integers(1, 300), min_size=2, max_size=8),
    st.integers(0, 10**9),
    st.sampled_from([Stop(metric="loss", falls_to=0.1), Stop(metric="acc", reaches=0.9)]),
)
def test_only_the_longest_job_of_a_search_arrives_and_the_others_are_always_behind_it(
    rounds: list[int], seed: int, stop: Stop
) -> None:
    jobs = [job_of(k, count, stop, group="s") for k, count in enumerate(rounds)]
    curves = HiddenCurves(jobs, Losses(noise=0.0), seed)
    leader = rounds.index(max(rounds))
    for job, count in enumerate(rounds):
        curve, best = curve_of(curves, job), curve_of(curves, leader)
        assert stop.holds({stop.metric: curve.value(count)}) == (job == leader)
        if job != leader:
            behind = [curve.sign * (curve.value(k) - best.value(k)) for k in range(1, count + 1)]
            assert min(behind) > 0
            assert curve.value(0) == best.value(0)


def test_values_are_shown_where_evaluations_fall_and_at_the_end() -> None:
    job = job_of(0, 25, Stop(metric="m", falls_to=1.0), evaluate=Evaluate(every=10))
    curves = HiddenCurves([job, job_of(1, 5, None)], Losses(), 1)
    told = [bool(curves.metrics(0, first, 5)) for first in range(0, 25, 5)]
    assert told == [False, True, False, True, True]
    assert curves.metrics(1, 0, 5) == ()


@pytest.mark.parametrize("seed", range(6))
def test_curves_change_no_time_and_every_job_with_a_target_shows_its_own(seed: int) -> None:
    world = random_world(seed, "lane", noisy=bool(seed % 2))
    plan = assignments_of(random_plan(world, seed, 3))
    stop = Stop(metric="loss", falls_to=0.1)
    jobs = [replace(job, stop=stop if job.index else None) for job in world.run.workload.jobs]
    run = replace(
        world.run,
        workload=replace(world.run.workload, jobs=tuple(jobs)),
        truth=replace(world.run.truth, losses=Losses()),
    )
    events = run_events(replace(world, run=run), plan)
    ends = [outcome_of(world, one).finish_ns_J for one in (events, run_events(world, plan))]
    assert ends[0].tolist() == ends[1].tolist()
    curves = HiddenCurves(jobs, Losses(), run.truth.seed)
    for event in events:
        if isinstance(event, RoundsDone):
            assert event.metrics == curves.metrics(event.job, event.round, event.rounds)
            assert bool(event.metrics) == (event.job > 0)
            if event.metrics:
                assert stop.holds(dict(event.metrics)) == event.finished
