"""Rules of sharing: flows of liquid jobs, and the schedules made by the same rules."""

from __future__ import annotations

import random

import numpy as np
import pytest
from test_solve_dispatch import run_of

from warren.solve.bounds.lower_bounds import lower_bounds
from warren.solve.common.heaps import usable
from warren.solve.common.instance import Instance
from warren.solve.lists.serial_insertion import insertion
from warren.solve.lists.type_queues import guided
from warren.solve.relaxation.divisible_devices import SharingRule, others_at_half
from warren.solve.relaxation.flow_time import flow
from warren.solve.relaxation.rule_search import RuleSearch


def random_instance(seed: int, stretch: int = 1) -> tuple[Instance, SharingRule]:
    rng = random.Random(seed)
    types, jobs = rng.randint(1, 3), rng.randint(1, 6)
    type_D = [rng.randrange(types) for _ in range(rng.randint(1, 6))]
    fits_JT = np.array([[rng.random() < 0.8 for _ in range(types)] for _ in range(jobs)])
    fits_JT[1:, type_D[0]] = True  # job 0 may fit nowhere
    instance = Instance(
        arrival_ns_J=np.array([rng.choice([0, 0, 7, 300]) for _ in range(jobs)]),
        weight_J=np.array([rng.choice([0.0, 0.5, 1.0, 3.0]) for _ in range(jobs)]),
        scale_J=np.array([rng.randint(1, 4) for _ in range(jobs)]),
        rounds_J=np.array([rng.randint(1, 6) for _ in range(jobs)]),
        comp_ns_JT=np.array([[rng.randint(1, 50) for _ in range(types)] for _ in range(jobs)]),
        sync_ns_JT=np.array([[rng.randint(0, 50) for _ in range(types)] for _ in range(jobs)]),
        fits_JT=fits_JT,
        type_D=np.array(type_D),
        stretch_rounds_J=np.full(jobs, stretch),
    )
    rule = SharingRule(
        priority_J=np.array([float(rng.randint(0, 3)) for _ in range(jobs)]),
        greed_J=np.array([rng.choice([0.0, 1.0, 5.0]) for _ in range(jobs)]),
        worth_T=np.array([rng.random() for _ in range(types)]),
    )
    return instance, rule


def runs(instance: Instance) -> np.ndarray:
    runs_J: np.ndarray = usable(instance.fits_JT, instance.type_D).any(axis=1)
    return runs_J


@pytest.mark.parametrize("stretch", [1, 3])
def test_every_task_is_placed_once_where_it_fits_and_ends_as_early_as_said(
    stretch: int,
) -> None:
    for seed in range(150):
        instance, rule = random_instance(seed, stretch)
        if stretch == 1:
            rows, finish_ns_J, _ = guided(instance, rule)
            rows2, finish2, _ = insertion(
                instance, np.argsort(rule.priority_J), 0.0 * instance.comp_ns_JT
            )
            assert sorted(rows2[[0, 1, 3]].T.tolist()) == sorted(rows[[0, 1, 3]].T.tolist())
            assert (run_of(instance, rows2) <= finish2).all()
            np.testing.assert_array_equal(run_of(instance, rows), finish_ns_J)
        else:
            price_s_JT = np.random.default_rng(seed).random(instance.comp_ns_JT.shape) * 1e-8
            rows, finish_ns_J, _ = insertion(instance, np.argsort(rule.priority_J), price_s_JT)
        job, first, rounds, shard, device = rows
        tasks = {
            (j, r + extra, k)
            for j, r, n, k in zip(job, first, rounds, shard, strict=True)
            for extra in range(n)
        }
        runs_J = runs(instance)
        assert len(tasks) == rounds.sum() == (instance.scale_J * instance.rounds_J)[runs_J].sum()
        assert instance.fits_JT[job, instance.type_D[device]].all()
        assert (run_of(instance, rows) <= finish_ns_J).all()


def test_the_first_job_inserted_runs_as_if_alone_on_its_best_type() -> None:
    for seed in range(100):
        instance, _ = random_instance(seed, 2)
        if not runs(instance).any():
            continue
        first = int(np.argmax(runs(instance)))
        order = np.roll(np.arange(len(instance.scale_J)), -first)
        _, finish_ns_J, _ = insertion(instance, order, 0.0 * instance.comp_ns_JT)
        count_T = np.bincount(instance.type_D, minlength=instance.fits_JT.shape[1])
        rounds = [
            -(-instance.scale_J[first] // count) * instance.comp_ns_JT[first, kind]
            + instance.sync_ns_JT[first, kind]
            for kind, count in enumerate(count_T)
            if count and instance.fits_JT[first, kind]
        ]
        alone_ns = instance.rounds_J[first] * min(rounds)
        assert finish_ns_J[first] - instance.arrival_ns_J[first] == alone_ns


def test_liquid_jobs_on_one_device_end_as_preemptive_priorities_say() -> None:
    """Unit by unit: the present job of least priority value is served."""
    for seed in range(60):
        rng = random.Random(seed)
        count = rng.randint(1, 6)
        sizes, arrivals = ([rng.randint(low, 9) for _ in range(count)] for low in (1, 0))
        priority = rng.sample(range(count), count)
        left, finish, time = list(sizes), [0] * count, 0
        while any(left):
            present = [j for j in range(count) if left[j] and arrivals[j] <= time]
            time += 1
            if present:
                job = min(present, key=priority.__getitem__)
                left[job] -= 1
                finish[job] = time
        second = 10**9
        instance = Instance(
            arrival_ns_J=np.array(arrivals) * second, weight_J=np.ones(count),
            scale_J=np.ones(count, np.int64), rounds_J=np.array(sizes),
            comp_ns_JT=np.full((count, 1), second), sync_ns_JT=np.zeros((count, 1), np.int64),
            fits_JT=np.ones((count, 1), np.bool_), type_D=np.array([0]),
            stretch_rounds_J=np.ones(count, np.int64),
        )  # fmt: skip
        rule = SharingRule(
            priority_J=np.array(priority, float), greed_J=np.ones(count), worth_T=np.ones(1)
        )
        found, _ = flow(instance, rule)
        assert found.tolist() == pytest.approx(finish)
        finish_ns_J = guided(instance, rule)[1]
        assert finish_ns_J.tolist() == [time * second for time in finish]


def test_a_job_that_gains_little_leaves_the_fast_device_to_one_that_gains_much() -> None:
    """The second type is hardly slower for one job, and ten times for the other."""
    instance = Instance(
        arrival_ns_J=np.zeros(2), weight_J=np.ones(2), scale_J=np.ones(2), rounds_J=[10, 10],
        comp_ns_JT=[[10, 11], [10, 100]], sync_ns_JT=np.zeros((2, 2)),
        fits_JT=np.ones((2, 2), np.bool_), type_D=[0, 1], stretch_rounds_J=np.ones(2),
    )  # fmt: skip
    rule = SharingRule(
        priority_J=np.array([0.0, 1.0]), greed_J=np.ones(2), worth_T=np.array([0.9, 0.1])
    )
    assert guided(typed(instance), rule)[1].tolist() == [110, 100]
    assert guided(typed(instance), rule._replace(greed_J=np.zeros(2)))[1].tolist() == [100, 190]


def typed(instance: Instance) -> Instance:
    return Instance(
        **{
            name: np.array(column, dtype=None if name in {"weight_J", "fits_JT"} else np.int64)
            for name, column in instance._asdict().items()
        }
    )


def test_the_others_at_half_are_those_present_then() -> None:
    for seed in range(40):
        instance, rule = random_instance(seed)
        finish_s_J, _ = flow(instance, rule)
        found = others_at_half(instance, finish_s_J)
        half_s_J = (instance.arrival_ns_J / 1e9 + finish_s_J) / 2
        for job in np.flatnonzero(runs(instance)):
            present_J = (instance.arrival_ns_J / 1e9 <= half_s_J[job]) & (
                finish_s_J > half_s_J[job]
            )
            present_J[job] = False
            assert found[job] == pytest.approx(float(instance.weight_J @ present_J), abs=1e-9)


def mix(jobs: int, load_s: float, seed: int) -> Instance:
    """Jobs that gain 7, 3 or 2 times from the fast type, on 12 fast and 12 slow devices."""
    random = np.random.default_rng(seed)
    slow = random.integers(100, 400, size=jobs)
    gain = random.choice([7, 3, 2], size=jobs)
    return Instance(
        arrival_ns_J=np.sort(random.uniform(0, load_s, size=jobs) * 1e9).astype(np.int64),
        weight_J=random.integers(1, 5, size=jobs).astype(np.float64),
        scale_J=random.integers(1, 5, size=jobs),
        rounds_J=random.integers(20, 100, size=jobs),
        comp_ns_JT=np.stack([slow // gain, slow], axis=1) * 1_000_000,
        sync_ns_JT=np.full((jobs, 2), 20_000_000),
        fits_JT=np.ones((jobs, 2), np.bool_),
        type_D=np.repeat([0, 1], 12),
        stretch_rounds_J=np.ones(jobs, np.int64),
    )


@pytest.mark.parametrize("load_s", [0.0, 60.0])
def test_a_searched_rule_comes_close_to_the_lower_bound(load_s: float) -> None:
    gaps = []
    for seed in range(3):
        instance = mix(60, load_s, seed)
        columns = instance._asdict()
        del columns["stretch_rounds_J"]
        bound_s = lower_bounds(**columns).weighted_jct_s

        def weighted_s(finish_s_J: np.ndarray, given: Instance = instance) -> float:
            return float(given.weight_J @ (finish_s_J - given.arrival_ns_J / 1e9))

        search = RuleSearch(instance, weighted_s, seed=0)
        search.start(10**6)
        values = [search.value]
        for _ in range(200):
            search.step()
            values.append(search.value)
        assert values == sorted(values, reverse=True)
        finish_ns_J = guided(instance, search.rule)[1]
        gaps.append((weighted_s(finish_ns_J / 1e9) / bound_s, values[-1] / bound_s))
    schedule, liquid = np.mean(gaps, axis=0)
    assert 1 < schedule < 1.25
    assert liquid < 1.1
