"""Heavy tails and bursts of generated jobs."""

from __future__ import annotations

import numpy as np
import pytest
from test_generators import mix

from warren.model.errors import SpecError

pytestmark = pytest.mark.slow


def test_with_a_tail_many_jobs_are_small_and_a_few_have_most_of_the_work() -> None:
    def top(tail: float) -> float:
        run = mix(jobs=4000, tail=tail)
        rounds = np.sort([job.rounds or 0 for job in run.workload.jobs])[::-1]
        return float(rounds[:400].sum() / rounds.sum())

    assert top(0.0) < 0.25
    assert top(2.0) > 0.6


def test_a_tail_keeps_the_mean_of_rounds_and_nothing_else_of_the_jobs_is_other() -> None:
    plain, tailed = mix(jobs=20_000), mix(jobs=20_000, tail=1.0)
    means = [np.mean([job.rounds or 0 for job in run.workload.jobs]) for run in (plain, tailed)]
    assert means[1] == pytest.approx(means[0], rel=0.03)
    kept = [[(job.model, job.scale, job.weight) for job in run.workload.jobs]
            for run in (plain, tailed)]  # fmt: skip
    assert kept[0] == kept[1]


def test_with_bursts_jobs_arrive_together_and_over_the_same_window() -> None:
    alone, bursts = mix(jobs=4000), mix(jobs=4000, together=8)
    arrivals = [[job.arrival_ns for job in run.workload.jobs] for run in (alone, bursts)]
    assert len(set(arrivals[1])) <= 500
    assert len(set(arrivals[1])) > 400
    assert arrivals[1][-1] == pytest.approx(arrivals[0][-1], rel=0.01)
    assert [job.rounds for job in alone.workload.jobs] == [
        job.rounds for job in bursts.workload.jobs
    ]


def test_a_tail_beside_recurring_kinds_is_refused() -> None:
    with pytest.raises(SpecError, match="tail needs no repeats"):
        mix(tail=1.0, repeats=4)
