"""HLAS and what it is compared with: the paper's toys, starvation, thresholds, blind baselines."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from warren.core.journal import Step
from warren.core.journal_reader import decode
from warren.core.loop import Core
from warren.model.costs import CostTable
from warren.model.errors import SpecError
from warren.model.events import JobArrived, RoundsDone
from warren.model.run import Grain, Run, Truth
from warren.policy.registry import place_policy
from warren.sim.port import SimPort

sys.path.insert(0, str(Path(__file__).parents[1]))
import worlds
from told import S, journal_of, played


def turns(run: Run, costs: CostTable, name: str, **options: object) -> list[int]:
    """The job of each assignment, in the order they were decided."""
    steps = (one for one in decode(journal_of(run, costs, name, options)) if isinstance(one, Step))
    return [one.job for step in steps for one in step.assign]


def jct_s(run: Run, costs: CostTable, name: str, **options: object) -> list[float]:
    arrival = [job.arrival_ns for job in run.workload.jobs]
    found: list[float] = ((played(run, costs, name, options).finish_ns_J - arrival) / S).tolist()
    return found


def fig_12() -> tuple[Run, CostTable]:
    """Three jobs of 2, 3 and 4 rounds of one unit task on one GPU."""
    jobs = [worlds.job(index, rounds=2 + index) for index in range(3)]
    return worlds.run(worlds.cluster(["A"]), jobs), worlds.costs([[1.0]] * 3, [[0.0]] * 3)


def test_fig_12_a_least_attained_service_gives_a_mean_jct_of_20_thirds() -> None:
    assert jct_s(*fig_12(), "hlas", thresholds="1 s, 2 s, 3 s") == [4.0, 7.0, 9.0]


def test_fig_12_b_known_sizes_give_16_thirds() -> None:
    assert sum(jct_s(*fig_12(), "srtf")) == 16


def test_fig_12_in_one_queue_jobs_go_by_arrival_each_to_its_end() -> None:
    assert jct_s(*fig_12(), "hlas", thresholds="100 s") == [2.0, 5.0, 9.0]


def test_the_fastest_idle_group_is_taken_first_in_whatever_order_types_are_listed() -> None:
    for comp_s in ([1.0, 4.0], [4.0, 1.0]):
        run = worlds.run(worlds.cluster(["A", "B"]), [worlds.job(0)])
        costs = worlds.costs([comp_s], [[0.0, 0.0]])
        assert jct_s(run, costs, "hlas", groups=2) == [1.0]


def test_a_group_takes_the_rest_of_a_round_before_another_job_of_the_queue() -> None:
    # Four tasks on two groups of two, one of which is slower to come free.
    jobs = [worlds.job(0), worlds.job(1, scale=4), worlds.job(2)]
    run = worlds.run(worlds.cluster(["A"] * 4), jobs)
    costs = worlds.costs([[3.0], [1.0], [1.0]], [[0.0]] * 3)
    found = played(run, costs, "hlas", {"groups": 2, "round": "per-gpu"})
    # The first group holds job 0 until 3 s; the second takes two tasks of job 1, then the others.
    assert found.finish_ns_J.tolist() == [3 * S, 2 * S, 3 * S]


def test_a_job_is_demoted_by_rounds_times_the_mean_time_of_a_round_on_a_group() -> None:
    """(1 / 2 s + 1 / 1 s) over one group: a round of three tasks counts 2 s wherever it runs."""
    run = worlds.run(worlds.cluster(["A", "B"]), [worlds.job(0, scale=3)])
    costs = worlds.costs([[2.0, 1.0]], [[0.0, 0.0]])
    policy = place_policy("hlas", {"groups": 1})
    core = Core(run=run, costs=costs, policy=policy, port=SimPort(run, costs), sink=len, world="s")
    core.begin()
    core.step(core.port.next_events())
    assert core.memory.groups.round_ns(core.state.view(), 0) == pytest.approx(2 * S)  # type: ignore[attr-defined]


def stream(short: int) -> tuple[Run, CostTable]:
    """A job of ten rounds, and a short one every second that would always go first."""
    jobs = [worlds.job(0, rounds=10)]
    jobs += [worlds.job(k, arrival_ns=(k - 1) * S) for k in range(1, short + 1)]
    jobs.sort(key=lambda one: one.arrival_ns)
    return worlds.run(worlds.cluster(["A"]), jobs), worlds.costs(
        [[1.0]] * len(jobs), [[0.0]] * len(jobs)
    )


def test_a_stream_of_short_jobs_starves_a_long_one_unless_age_counts() -> None:
    run, costs = stream(60)
    assert jct_s(run, costs, "hlas")[0] == 70
    assert jct_s(run, costs, "hlas", age="20 s")[0] <= 20 + 10


def test_a_job_that_fits_few_devices_is_passed_over_and_not_forgotten() -> None:
    jobs = [worlds.job(0, rounds=2), worlds.job(1), worlds.job(2)]
    run = worlds.run(worlds.cluster(["A", "B"]), jobs)
    costs = worlds.costs([[np.inf, 1.0], [1.0, np.inf], [1.0, 1.0]], [[0.0, 0.0]] * 3)
    assert jct_s(run, costs, "hlas", groups=2) == [2.0, 1.0, 2.0]


@pytest.mark.parametrize(
    ("name", "option", "value", "what"),
    [
        ("hlas", "thresholds", "10 s, 1 s", "ascend"),
        ("hlas", "age", "soon", "time"),
        ("hlas", "groups", -1, "groups is a count"),
        ("hlas", "round", "half", "round is whole or per-gpu"),
        ("hlas", "dispatch", "first", "dispatch is completion or available"),
        ("las-2d", "thresholds", "0 s", "ascend"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(
    name: str, option: str, value: object, what: str
) -> None:
    with pytest.raises(SpecError, match=what):
        place_policy(name, {option: value})


def test_2d_las_counts_gpus_times_time_and_waits_for_a_whole_gang() -> None:
    # Job 0 has two GPUs for 1 s, so has had 2 s; job 1 one for 1 s.
    jobs = [worlds.job(0, scale=2, rounds=3), worlds.job(1, rounds=3)]
    run = worlds.run(worlds.cluster(["A", "A"]), jobs)
    costs = worlds.costs([[1.0], [1.0]], [[0.0], [0.0]])
    timeline = played(run, costs, "las-2d", {"thresholds": "1500 ms"}).timeline
    order = np.lexsort((timeline.job_R, timeline.start_ns_R))
    # 0 until 1 s, then 1 (queue 0, one GPU of two) twice, then both in queue 1 by arrival.
    assert timeline.job_R[order].tolist() == [0, 0, 1, 1, 0, 0, 0, 0, 1]


def test_a_gang_of_2d_las_keeps_its_fast_device_until_the_barrier() -> None:
    """The device of 1 s is done at 1 s, the one of 4 s at 4 s; nobody else runs before that."""
    jobs = [worlds.job(0, scale=2, rounds=2), worlds.job(1, rounds=2)]
    run = worlds.run(worlds.cluster(["A", "B"]), jobs)
    costs = worlds.costs([[1.0, 4.0], [1.0, 4.0]], [[0.0, 0.0]] * 2)
    timeline = played(run, costs, "las-2d", {"thresholds": "100 s"}).timeline
    starts = {
        job: sorted((timeline.start_ns_R[timeline.job_R == job] // S).tolist()) for job in (0, 1)
    }
    assert starts[0] == [0, 0, 4, 4]
    assert starts[1][0] >= 8


def test_2d_las_demotes_a_job_once_it_has_had_as_much_as_a_queue_holds() -> None:
    jobs = [worlds.job(k, rounds=6) for k in range(3)]
    run = worlds.run(worlds.cluster(["A"]), jobs)
    costs = worlds.costs([[1.0]] * 3, [[0.0]] * 3)
    by_queue = [job for _ in range(2) for job in range(3) for _ in range(3)]
    assert turns(run, costs, "las-2d", thresholds="3 s, 6 s") == by_queue


def test_whoever_fits_passes_in_2d_las_only_if_that_is_asked_for() -> None:
    """Two GPUs: the first holds one for 9 s, the second wants both, the third one."""
    jobs = [worlds.job(0), worlds.job(1, scale=2), worlds.job(2)]
    run = worlds.run(worlds.cluster(["A", "A"]), jobs)
    costs = worlds.costs([[9.0], [1.0], [1.0]], [[0.0]] * 3)
    assert jct_s(run, costs, "las-2d") == [9.0, 10.0, 11.0]
    assert jct_s(run, costs, "las-2d", fit_first=True) == [9.0, 10.0, 1.0]


def test_2d_las_takes_no_wake_up_for_a_job() -> None:
    """Late tasks are looked at by wake-ups, which come together with what a policy is asked at."""
    for seed in range(12):
        run, costs = worlds.random_world(seed, jobs=8, truth=Truth(task_cv=0.8, seed=seed))
        run = replace(run, scheduler=replace(run.scheduler, copies_after=1.0))
        assert (played(run, costs, "las-2d").finish_ns_J > 0).all()


def test_of_unit_size_jobs_of_more_rounds_are_not_put_behind() -> None:
    jobs = [worlds.job(0, rounds=5), worlds.job(1, rounds=1)]
    run = worlds.run(worlds.cluster(["A"]), jobs)
    costs = worlds.costs([[1.0], [1.0]], [[0.0], [0.0]])
    for name in ("sched-homo", "sched-allox"):
        assert jct_s(run, costs, name) == [6.0, 1.0]
        assert jct_s(run, costs, f"{name}-unit")[0] == 5.0


def test_fifo_never_lets_a_later_job_start_first() -> None:
    for seed in range(10):
        run, costs = worlds.random_world(seed)
        timeline = played(run, costs, "fifo").timeline
        start = np.full(len(run.workload.jobs), 2**62)
        np.minimum.at(start, timeline.job_R, timeline.start_ns_R)
        assert np.all(np.diff(start) >= 0)


def test_gittins_learns_from_ends_which_jobs_are_short() -> None:
    """Models alternate; after the first of each has ended the short ones go first."""
    jobs = [worlds.job(k, rounds=9 if k % 2 else 1, model="ab"[k % 2]) for k in range(2)]
    jobs += [worlds.job(k, rounds=9 if k % 2 else 1, model="ab"[k % 2], arrival_ns=20 * S)
             for k in (3, 5, 2, 4)]  # fmt: skip
    jobs = [worlds.job(i, rounds=one.rounds, model=one.model, arrival_ns=one.arrival_ns)
            for i, one in enumerate(jobs)]  # fmt: skip
    run = worlds.run(worlds.cluster(["A"]), jobs)
    costs = worlds.costs([[1.0]] * 6, [[0.0]] * 6)
    assert jct_s(run, costs, "gittins")[2:] == [11.0, 20.0, 1.0, 2.0]


def test_what_gittins_remembers_of_a_kind_has_an_end() -> None:
    run = worlds.run(worlds.cluster(["A"]), [worlds.job(k) for k in range(300)])
    costs = worlds.costs([[1.0]] * 300, [[0.0]] * 300)
    policy = place_policy("gittins")
    core = Core(run=run, costs=costs, policy=policy, port=SimPort(run, costs), sink=len, world="s")
    core.execute()
    known = core.memory.known  # type: ignore[attr-defined]
    assert len(known.of(()).rounds) == 256
    assert {JobArrived, RoundsDone} <= policy.triggers


def test_at_a_coarse_grain_a_job_takes_as_many_idle_groups_as_it_has_tasks_for() -> None:
    run = worlds.run(
        worlds.cluster(["A"] * 4),
        [worlds.job(0, scale=4, rounds=6)],
        grain=Grain(text="3", rounds=3),
    )
    costs = worlds.costs([[1.0]], [[0.0]])
    assert jct_s(run, costs, "hlas", groups=2, round="per-gpu") == [6.0]
