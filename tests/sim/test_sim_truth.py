"""The hidden truth: exact, the same in both languages, and of the promised size."""

from __future__ import annotations

import random

import numpy as np
import pytest
from sim_worlds import cluster_of

from warren.model import draws
from warren.model.costs import CostTable
from warren.model.job import Workload
from warren.model.run import Run, Truth
from warren.model.units import NEVER_NS
from warren.sim import task_durations as truth
from warren.solve.common import random as noise


def run_with(hidden: Truth) -> Run:
    return Run(name="r", cluster=cluster_of(["A", "B"]), workload=Workload(jobs=()), truth=hidden)


def test_the_compiled_twin_gives_the_same_numbers() -> None:
    rng = random.Random(1)
    for _ in range(2000):
        key = rng.getrandbits(64)
        first, second = rng.choice([0, 1, rng.getrandbits(40)]), rng.randrange(1000)
        cv_ppm = rng.choice([0, 1, 50_000, 300_000, 2_000_000])
        factor = truth.factor_ppm(key, first, second, cv_ppm)
        assert noise.factor_ppm(np.uint64(key), first, second, cv_ppm) == factor
        time_ns = rng.choice([0, 1, 999_999, 10**6, rng.randrange(10**16)])
        assert noise.scaled(time_ns, factor) == truth.scaled(time_ns, factor)


def test_splitmix64_gives_its_published_first_value() -> None:
    # Vigna's splitmix64.c with state 0 opens with this number.
    assert draws.mix(0) == 0xE220A8397B1DCDAF


@pytest.mark.parametrize("cv", [0.02, 0.1, 0.25])
def test_factors_have_mean_one_and_the_stated_variation(cv: float) -> None:
    key = draws.stream_key(7, draws.COMP, 3)
    found = [truth.factor_ppm(key, r, 0, truth.cv_to_ppm(cv)) / 1e6 for r in range(20_000)]
    # Standard errors: cv / sqrt(20000) of the mean, cv / sqrt(40000) of the deviation; 5 of each.
    assert abs(np.mean(found) - 1) < 5 * cv / 20_000**0.5
    assert abs(np.std(found) - cv) < 5 * cv / 40_000**0.5


def test_no_task_is_faster_than_a_twentieth_of_its_profile() -> None:
    key = draws.stream_key(7, draws.COMP, 3)
    assert min(truth.factor_ppm(key, r, 0, 3_000_000) for r in range(2000)) == truth.FLOOR_PPM


def test_kinds_jobs_and_seeds_have_streams_of_their_own() -> None:
    keys = {draws.stream_key(s, k, j) for s in range(5) for k in range(4) for j in range(50)}
    assert len(keys) == 5 * 4 * 50


def test_a_wrong_profile_is_wrong_per_job_and_type_and_leaves_the_policys_costs_alone() -> None:
    comp = np.full((3, 2), 10**9)
    comp[1, 1] = NEVER_NS
    sync = np.where(comp == NEVER_NS, NEVER_NS, 10**8)
    costs = CostTable(comp_ns_JT=comp, sync_ns_JT=sync, fits_JT=comp != NEVER_NS)
    true = truth.true_costs(run_with(Truth(job_cv=0.2, seed=1)), costs)
    assert true.comp_ns_JT[1, 1] == NEVER_NS
    assert len({*true.comp_ns_JT.ravel().tolist(), *true.sync_ns_JT.ravel().tolist()}) == 11
    assert (costs.comp_ns_JT[0] == 10**9).all()
    assert truth.true_costs(run_with(Truth(task_cv=0.2)), costs) is costs
