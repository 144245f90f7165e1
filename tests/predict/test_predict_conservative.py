"""The conservative prediction of HLAS-P after its fit: history, then the standing in a search."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.model.job import Stop
from warren.model.view import NO_PROGRESS, Progress
from warren.predict.conservative import averaged, beyond, standing, target_of

FALLS = Stop(metric="loss", falls_to=0.1)
RISES = Stop(metric="accuracy", reaches=0.9)


def curve(*values: float, every: int = 1) -> Progress:
    """Values after each round, or after each ``every``-th."""
    return Progress(every * np.arange(1, len(values) + 1), np.array(values))


def test_history_tells_what_nine_of_ten_jobs_ran_beyond_a_round() -> None:
    assert beyond((3,), 0) == 3
    assert beyond((3,), 2) == 1
    assert beyond((3,), 3) is None
    assert beyond((), 0) is None
    twenty = tuple(range(10, 210, 10))
    assert beyond(twenty, 0) == 20
    assert beyond(twenty, 100) == 10
    assert beyond(twenty[::-1], 95) == 15  # of 100 to 200 the second, 110


@given(st.lists(st.integers(1, 50), min_size=1), st.integers(0, 40))
def test_at_least_nine_of_ten_that_ran_further_ran_as_far_and_no_more_can_be_said(
    past: list[int], rounds: int
) -> None:
    further = [one for one in past if one > rounds]
    found = beyond(past, rounds)
    assert (found is None) == (not further)
    if found is not None:
        ran = [sum(one >= rounds + more for one in further) for more in range(52)]
        longer = [one - rounds for one in further if one > rounds + found]
        assert found > 0
        assert 10 * ran[found] >= 9 * len(further)
        assert all(10 * ran[more] <= 9 * len(further) for more in longer)


def test_fit_and_history_are_averaged_and_what_is_not_known_does_not_count() -> None:
    assert averaged(4, 8) == 6
    assert averaged(0, 9) == 9  # a fit that dares nothing does not halve what history says
    assert averaged(None, 9) == 9
    assert averaged(7, None) == 7
    assert averaged(None, None) == 0


def test_a_job_four_times_as_slow_as_the_others_of_its_search_is_left_half() -> None:
    best = curve(0.9, 0.5, 0.3, 0.2)
    assert standing(FALLS, curve(0.99, 0.98, 0.95, 0.9), [best]) == 0.5
    assert standing(FALLS, curve(0.99, 0.9), [best]) == 1
    assert standing(FALLS, curve(0.99, 0.98, 0.9), [best]) == pytest.approx(2 / 3)


def test_half_of_the_others_must_be_faster() -> None:
    best, slow, equal = curve(0.9, 0.5), curve(0.99, 0.95), curve(0.99, 0.98, 0.9)
    own = curve(0.99, 0.98, 0.95, 0.9)
    assert standing(FALLS, own, [best, slow]) == 0.5
    assert standing(FALLS, own, [best, slow, slow]) == 1
    assert standing(FALLS, own, [best, best, slow, equal]) == 0.5
    assert standing(FALLS, own, [best, equal, equal]) == 1
    assert standing(FALLS, own, [best, NO_PROGRESS, NO_PROGRESS]) == 0.5


def test_rising_metrics_stand_as_falling_ones_do() -> None:
    best = curve(0.1, 0.5, 0.7)
    assert standing(RISES, curve(0.0, 0.02, 0.05, 0.1), [best]) == 0.5
    assert standing(RISES, curve(0.0, 0.02, 0.05, 0.1), [curve(0.01, 0.02)]) == 1


def test_a_job_that_gets_no_better_falls_behind() -> None:
    best = curve(0.9, 0.5, 0.3)
    shares = [standing(FALLS, curve(0.9, *[0.95] * more), [best]) for more in range(8)]
    assert shares == [min(1, 2 / (1 + more)) for more in range(8)]


def test_rounds_are_compared_where_each_job_was_observed() -> None:
    best = curve(0.9, 0.5, 0.3, every=10)
    assert standing(FALLS, curve(*np.linspace(0.99, 0.9, 40)), [best]) == 0.5


def test_who_was_not_observed_or_is_alone_stands_well() -> None:
    assert standing(FALLS, NO_PROGRESS, [curve(0.2)]) == 1
    assert standing(FALLS, curve(0.9), []) == 1
    assert standing(FALLS, curve(math.nan), [curve(0.2)]) == 1


@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=9),
    st.lists(st.lists(st.floats(0, 1), max_size=9), max_size=4),
)
def test_standing_does_not_depend_on_the_scale_of_the_metric(
    own: list[float], others: list[list[float]]
) -> None:
    def share(stop: Stop, of: float, add: float) -> float:
        turned = [[of * value + add for value in one] for one in (own, *others)]
        first, *rest = (curve(*one) for one in turned)
        return standing(stop, first, rest)

    plain = share(FALLS, 1, 0)
    assert 0 < plain <= 1
    assert share(FALLS, 4, 0) == plain
    assert share(RISES, -1, 0) == plain


def test_the_target_is_where_the_rule_stops() -> None:
    assert (target_of(FALLS), target_of(RISES)) == (0.1, 0.9)
    assert target_of(Stop(metric="loss")) is None
