"""Recurring jobs of ``hare-mix``: kinds that a history shares, and how much their runs differ."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from statistics import median
from typing import Any

import numpy as np
import pytest
from workload_files import reader

from warren.model.errors import SpecError
from warren.model.job import Job
from warren.model.past import stem
from warren.model.run import Run
from warren.profile.published import TABLE
from warren.workload.generators.job_families import DOMAINS, factors
from warren.workload.run_file import run_from_dict

SHAPE = {"generate": "hare", "devices": 16}


def mix(jobs: int = 400, seed: int = 7, **options: Any) -> Run:
    workload = {"generate": "hare-mix", "jobs": jobs, "repeats": 40, **options}
    data = {"cluster": {"hosts": SHAPE}, "workload": workload, "seed": seed}
    return run_from_dict(data, "d", reader({}), rows=TABLE)


def fixed(job: Job) -> tuple[object, ...]:
    return (job.user, job.model, job.scale, job.batch)


def by_stem(run: Run) -> dict[str, list[Job]]:
    found = defaultdict(list)
    for job in run.workload.jobs:
        found[stem(job.name)].append(job)
    return dict(found)


def test_jobs_of_one_name_are_alike_in_all_but_rounds_and_weight() -> None:
    kinds = by_stem(mix())
    assert len(kinds) == 40
    assert all(len({fixed(job) for job in jobs}) == 1 for jobs in kinds.values())
    assert any(len({job.rounds for job in jobs}) > 1 for jobs in kinds.values())


def test_names_differ() -> None:
    assert len({job.name for job in mix().workload.jobs}) == 400


def test_other_jobs_are_of_the_same_kinds_unless_the_kinds_have_another_seed() -> None:
    one, other, third = (
        {name: fixed(jobs[0]) for name, jobs in by_stem(run).items()}
        for run in (mix(), mix(seed=8), mix(kinds_seed=1))
    )
    assert one == other != third
    assert [job.rounds for job in mix().workload.jobs] != [
        job.rounds for job in mix(seed=8).workload.jobs
    ]
    assert mix() == mix()


def test_kinds_are_in_parts_of_the_domains_and_a_user_has_four() -> None:
    kinds = [jobs[0] for jobs in by_stem(mix(jobs=2000)).values()]
    models = Counter(job.model for job in kinds)
    assert [sum(models[name] for name in one.models) for one in DOMAINS.values()] == [10] * 4
    assert set(Counter(job.user for job in kinds).values()) == {4}


def test_jobs_are_spread_evenly_over_the_kinds() -> None:
    counts = [len(jobs) for jobs in by_stem(mix(jobs=4000)).values()]
    assert max(abs(count - 100) for count in counts) < 4 * math.sqrt(100)


def test_the_median_of_a_kind_lies_within_the_limits_of_its_domain() -> None:
    limits = {name: one.rounds for one in DOMAINS.values() for name in one.models}
    for jobs in by_stem(mix(jobs=200, spread=0)).values():
        (rounds,) = {job.rounds for job in jobs}
        least, most = limits[jobs[0].model or ""]
        assert least <= (rounds or 0) <= most


def test_runs_of_a_kind_are_lognormal_about_its_median() -> None:
    logs = np.log(factors(3, 20_000, 0.3))
    assert abs(logs.mean()) < 4 * 0.3 / math.sqrt(20_000)
    assert np.isclose(logs.std(), 0.3, rtol=0.02)
    within = [np.mean(np.abs(logs) < 0.3 * sigmas) for sigmas in (1, 2)]
    assert np.allclose(within, [0.683, 0.954], atol=0.015)


@pytest.mark.parametrize("spread", [0.0, 0.3, 3.0])
def test_the_factor_is_e_to_the_spread_times_a_draw_that_does_not_depend_on_it(
    spread: float,
) -> None:
    draws = np.log(factors(5, 200, 1.0))
    assert np.allclose(factors(5, 200, spread), np.exp(spread * draws), rtol=1e-9)


def test_factors_of_rounds_and_batch_hold_for_recurring_jobs_too() -> None:
    one, ten, four = mix(jobs=60), mix(jobs=60, rounds_factor=10.0), mix(jobs=60, batch_factor=4.0)
    for job, longer, coarser in zip(
        one.workload.jobs, ten.workload.jobs, four.workload.jobs, strict=True
    ):
        assert abs((longer.rounds or 0) / 10 - (job.rounds or 0)) <= 0.5
        assert coarser.batch == 4 * job.batch
        assert abs((coarser.rounds or 0) - (job.rounds or 0) / 4) <= 1


def test_a_history_and_a_workload_of_different_seeds_share_the_kinds() -> None:
    workload = {"generate": "hare-mix", "jobs": 300, "repeats": 12}
    data = {"cluster": {"hosts": SHAPE}, "workload": workload, "history": workload, "seed": 1}
    run = run_from_dict(data, "d", reader({}), rows=TABLE)
    assert run.history is not None
    ended = defaultdict(list)
    for job in run.history.jobs:
        ended[stem(job.name)].append(job.rounds or 0)
    for name, jobs in by_stem(run).items():
        rounds = [job.rounds or 0 for job in jobs]
        assert abs(math.log(median(rounds) / median(ended[name]))) < 4 * 0.3 * 1.26 / math.sqrt(10)


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"repeats": -1}, "workload.repeats: must be at least 0, got -1"),
        ({"repeats": 0, "spread": 1}, "workload: spread needs repeats: it is of recurring kinds"),
        ({"repeats": 0, "kinds_seed": 1}, "workload: kinds_seed needs repeats"),
        ({"spread": 4}, "workload.spread: must be at most 3.0, got 4"),
    ],
)
def test_a_wrong_option_says_what_is_allowed(options: dict[str, Any], line: str) -> None:
    with pytest.raises(SpecError) as error:
        mix(**options)
    assert line in str(error.value)
