"""HLAS gives a group whole rounds: Figs. 9 and 10 by the policies themselves, and what is ours."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from warren.core.journal_reader import History
from warren.model.costs import CostTable
from warren.model.run import Grain, Run

sys.path.insert(0, str(Path(__file__).parents[1]))
import worlds
from told import S, alike, played

FIG_9_S = [[3.0, 3.0, 1.8, 1.8], [1.0, 2.0, 2.5, 1.0]]
"""Seconds of a task of jobs A and B on GPUs 1 to 4; their rounds have 4 and 6 tasks."""
TASKS = (4, 6)


def fig_9(order: tuple[int, ...], gpus: tuple[int, ...] = (0, 1, 2, 3)) -> tuple[Run, CostTable]:
    """Jobs of one round in the order of their arrival, each GPU a type of its own."""
    jobs = [worlds.job(place, scale=TASKS[job]) for place, job in enumerate(order)]
    run = worlds.run(worlds.cluster([f"T{gpu}" for gpu in gpus]), jobs)
    comp_s = [[FIG_9_S[job][gpu] for gpu in gpus] for job in order]
    return run, worlds.costs(comp_s, [[0.0] * len(gpus)] * len(order))


def jct_s(found: History) -> list[float]:
    return [one / S for one in found.finish_ns_J.tolist()]


@pytest.mark.parametrize(("order", "mean_s"), [((1, 0), 3.75), ((0, 1), 4.0)])
def test_fig_9_one_round_ends_sooner_with_b_first(order: tuple[int, ...], mean_s: float) -> None:
    found = played(*fig_9(order), "hlas-published", {"groups": 1})
    assert np.mean(jct_s(found)) == pytest.approx(mean_s)


@pytest.mark.parametrize(
    ("job", "gpus", "task_gpu_s"),
    [(0, (0, 1), 12.0), (1, (0, 1), 8.0), (0, (2, 3), 7.2), (1, (2, 3), 9.0)],
)
def test_fig_10_task_gpu_time_is_that_of_the_gpu_available_first(
    job: int, gpus: tuple[int, ...], task_gpu_s: float
) -> None:
    ran = played(*fig_9((job,), gpus), "hlas-published", {"groups": 1}).timeline
    assert (ran.comp_end_ns_R - ran.start_ns_R).sum() / S == pytest.approx(task_gpu_s)


def test_by_completion_a_task_waits_for_a_device_on_which_it_is_done_sooner() -> None:
    """Three tasks on 1 s and 10 s: all on the first; by availability one is on the second."""
    run = worlds.run(worlds.cluster(["A", "B"]), [worlds.job(0, scale=3)])
    costs = worlds.costs([[1.0, 10.0]], [[0.0, 0.0]])
    assert jct_s(played(run, costs, "hlas")) == [3.0]
    assert jct_s(played(run, costs, "hlas-published")) == [10.0]


def test_a_device_that_waiting_tasks_leave_alone_goes_to_the_next_job() -> None:
    jobs = [worlds.job(0, scale=3), worlds.job(1)]
    run = worlds.run(worlds.cluster(["A", "B"]), jobs)
    costs = worlds.costs([[1.0, 10.0], [2.0, 2.0]], [[0.0, 0.0]] * 2)
    assert jct_s(played(run, costs, "hlas")) == [3.0, 2.0]


def test_however_many_wait_for_a_better_device_the_one_that_wants_another_gets_it() -> None:
    """All but the last are done sooner by waiting for A; the last wants B, which is idle."""
    jobs = [worlds.job(k) for k in range(200)]
    run = worlds.run(worlds.cluster(["A", "B"]), jobs)
    costs = worlds.costs([[1.0, 1000.0]] * 199 + [[1000.0, 1.0]], [[0.0, 0.0]] * 200)
    assert jct_s(played(run, costs, "hlas"))[-1] == 1.0


@pytest.mark.parametrize("grain", [Grain(), Grain(text="3", rounds=3)])
def test_narrow_jobs_share_a_group_at_every_grain(grain: Grain) -> None:
    run, costs = alike([worlds.job(k, rounds=6) for k in range(4)], devices=4, grain=grain)
    for name in ("hlas", "hlas-published"):
        assert jct_s(played(run, costs, name)) == [6.0] * 4


def test_at_a_coarse_grain_a_group_takes_a_wide_round_several_tasks_a_device() -> None:
    grain = Grain(text="3", rounds=3)
    run, costs = alike([worlds.job(0, scale=4, rounds=6)], devices=4, grain=grain)
    assert jct_s(played(run, costs, "hlas")) == [6.0]
    assert jct_s(played(run, costs, "hlas", {"groups": 2})) == [12.0]


def test_a_stretch_waits_until_the_devices_it_chose_are_idle_and_starts_on_all_of_them() -> None:
    jobs = [worlds.job(0, rounds=3), worlds.job(1, scale=2, rounds=3)]
    run, costs = alike(jobs, devices=2, grain=Grain(text="3", rounds=3))
    found = played(run, costs, "hlas")
    assert jct_s(found) == [3.0, 6.0]


def test_on_slow_devices_a_stretch_of_a_grain_in_time_has_fewer_rounds() -> None:
    """10 s of grain: ten rounds on the device of 1 s, six on that of 1.5 s."""
    jobs = [worlds.job(0, rounds=10), worlds.job(1, rounds=10), worlds.job(2, rounds=1)]
    grain = Grain(text="10 s", rounds=None, time_ns=10 * S)
    run = worlds.run(worlds.cluster(["A", "B"]), jobs, grain=grain)
    costs = worlds.costs([[1.0, 2.0], [1.0, 1.5], [30.0, 1.0]], [[0.0, 0.0]] * 3)
    # Job 1 is looked at again after six rounds of 1.5 s: job 2 has attained less and goes first.
    assert jct_s(played(run, costs, "hlas", {"thresholds": "1 s"}))[2] == pytest.approx(10.0)


def test_every_job_ends_whatever_is_lost_and_however_groups_are_served() -> None:
    for seed in range(8):
        grain = Grain(text="4 rounds", rounds=4) if seed % 2 else Grain()
        run, costs = worlds.random_world(seed, jobs=8, grain=grain)
        for groups in (0, 1, 2):
            for dispatch in ("completion", "available"):
                found = played(run, costs, "hlas", {"groups": groups, "dispatch": dispatch})
                assert (found.finish_ns_J > 0).all()


def test_of_groups_that_are_as_fast_the_one_with_most_idle_devices_goes_first() -> None:
    """Two groups of an A and a B: who comes while the first group is half busy takes the other."""
    jobs = [worlds.job(0, rounds=9), worlds.job(1, rounds=1, scale=2, arrival_ns=S)]
    run = worlds.run(worlds.cluster(["A", "B", "A", "B"]), jobs)
    costs = worlds.costs([[4.0, 4.0], [4.0, 4.0]], [[0.0, 0.0]] * 2)
    ran = played(run, costs, "hlas-published", {"groups": 2}).timeline
    first, *_ = ran.device_R[ran.job_R == 0].tolist()
    taken = set(ran.device_R[ran.job_R == 1].tolist())
    assert first not in taken
    assert len(taken) == 2, "its group was idle: one device a task"
    assert jct_s(played(run, costs, "hlas-published", {"groups": 2}))[1] == 5.0
