"""How soon jobs learn, by hand and by counting once more."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.report.learning import LearnedCurve, bytes_by_rank, mean_gained, mean_times_s


def curve(
    job: int, values: list[float], *, arrival_s: float = 0.0, rises: bool = True
) -> LearnedCurve:
    times = np.arange(1, len(values) + 1, dtype=float)
    return LearnedCurve(job, arrival_s, times, np.array(values), rises)


def test_a_time_is_that_of_the_first_value_that_is_there() -> None:
    one = curve(0, [0.2, 0.7, 0.73, 0.7, 0.77, 0.8], arrival_s=50.0)
    assert [one.reached_s(share) for share in (0.9, 0.95, 0.99)] == [3.0, 5.0, 6.0]


def test_of_what_falls_a_share_is_of_the_way_down() -> None:
    one = curve(0, [11.0, 3.0, 2.0, 1.5, 1.0], rises=False)
    assert [one.reached_s(share) for share in (0.5, 0.9, 0.95)] == [2.0, 3.0, 4.0]


def test_mean_times_are_over_jobs() -> None:
    jobs = [curve(0, [0.5, 1.0]), curve(1, [1.0, 1.0])]
    assert mean_times_s(jobs)["to_90_s"] == 1.5
    waited = [replace(jobs[0], waited_s=1.5), replace(jobs[1], waited_s=0.5)]
    assert mean_times_s(waited)["to_90_s"] == 1.5
    assert mean_times_s(waited)["trained_90_s"] == 0.5
    with pytest.raises(ValueError, match="no job that finished"):
        mean_times_s([])


def test_what_is_gained_counts_between_values_and_not_beyond_them() -> None:
    one = curve(0, [0.2, 0.6, 0.8], arrival_s=10.0)
    assert one.gained(11.0, 12.0) == pytest.approx(0.4)
    assert one.gained(0.0, 11.5) == pytest.approx(0.2)
    assert one.gained(12.5, 99.0) == pytest.approx(0.1)
    falling = curve(0, [5.0, 3.0], rises=False)
    assert falling.gained(0.0, 9.0) == pytest.approx(2.0)


def test_a_job_that_learns_sooner_has_gained_more_in_the_mean() -> None:
    soon, late = curve(0, [0.0, 0.8, 0.8, 0.8]), curve(0, [0.0, 0.0, 0.0, 0.8])
    assert mean_gained([soon], 4.0) > mean_gained([late], 4.0)


def test_bytes_go_to_the_rank_of_what_a_job_gained() -> None:
    """Ten jobs, the last gains most: the top three sent 10 + 9 + 8 of 55."""
    jobs = [curve(job, [0.0, job / 10]) for job in range(10)]
    sent = np.arange(1.0, 11.0)[:, None]
    found = bytes_by_rank(jobs, sent, np.array([0.0, 5.0]))
    assert found == pytest.approx([27 / 55, 18 / 55, 10 / 55])


@given(st.integers(1, 12), st.integers(0, 99))
def test_jobs_that_send_alike_have_the_shares_of_the_ranks(jobs: int, seed: int) -> None:
    ends = np.random.default_rng(seed).random(jobs)
    curves = [curve(job, [0.0, end]) for job, end in enumerate(ends.tolist())]
    found = bytes_by_rank(curves, np.full((jobs, 2), 7.0), np.array([0.0, 1.5, 3.0]))
    assert found == pytest.approx([0.3, 0.3, 0.4])
