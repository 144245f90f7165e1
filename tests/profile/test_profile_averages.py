"""Moving averages are those of single tasks, whatever tasks are told together."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from profile_rows import BLANK, TIMES

from warren.profile.averages import (
    ALPHA,
    TaskAverages,
    as_measured,
    averaged,
    with_measured,
    with_taken,
)
from warren.profile.measured import MeasuredCost

SAMPLES = st.lists(st.tuples(TIMES, st.integers(0, 40)), max_size=20)


def one_by_one(mean: float | None, samples: list[tuple[float, int]]) -> float | None:
    """The definition: m <- m + alpha (x - m), a task at a time."""
    for value, tasks in samples:
        for _ in range(tasks):
            mean = value if mean is None else mean + ALPHA * (value - mean)
    return mean


@given(st.none() | TIMES, SAMPLES)
def test_an_average_of_means_is_that_of_as_many_tasks(
    mean: float | None, samples: list[tuple[float, int]]
) -> None:
    found, expected = averaged(mean, samples), one_by_one(mean, samples)
    assert (found is None) == (expected is None)
    if found is not None and expected is not None:
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-6)


@given(TIMES, SAMPLES)
def test_an_average_stays_between_the_least_and_the_most(
    mean: float, samples: list[tuple[float, int]]
) -> None:
    found = averaged(mean, samples)
    seen = [mean, *(value for value, _ in samples)]
    assert found is not None
    assert min(seen) * (1 - 1e-12) <= found <= max(seen) * (1 + 1e-12)


def test_the_last_22_tasks_make_up_nine_tenths_of_an_average() -> None:
    assert averaged(0.0, [(1.0, 21)]) < 0.9 <= averaged(0.0, [(1.0, 22)])  # type: ignore[operator]


def test_what_is_measured_and_what_is_taken_leave_each_other_alone() -> None:
    cost = MeasuredCost(comp_s=0.5, sync_s=0.25, model_bytes=40, memory_bytes=9)
    taken = with_taken(BLANK, [TaskAverages(10, 2.0, None), TaskAverages(1, 3.0, 0.5)], 7.0)
    both = with_measured(taken, cost, 3, 8.0)
    assert (both.comp_s, both.sync_s, both.samples, both.memory_bytes) == (0.5, 0.25, 3, 9)
    assert (both.comp_avg_s, both.sync_avg_s, both.avg_tasks) == (2.0 + ALPHA, 0.5, 11)
    assert (
        with_taken(with_measured(BLANK, cost, 3, 7.0), [TaskAverages(1, 9.0, 1.0)], 8.0).comp_s
        == 0.5
    )


def test_a_run_plans_with_times_alone_and_else_with_averages() -> None:
    assert as_measured(BLANK) is None
    taken = with_taken(BLANK, [TaskAverages(1, 2.0, 0.5)], 7.0)
    average = as_measured(taken)
    assert average is not None
    assert (average.comp_s, average.sync_s) == (2.0, 0.5)
    cost = MeasuredCost(comp_s=0.5, sync_s=None, model_bytes=40)
    assert as_measured(with_measured(taken, cost, 3, 8.0)) == cost
