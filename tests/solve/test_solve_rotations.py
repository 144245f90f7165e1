"""Rotations on a circle against all rotations, tried in plain loops."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.solve.flows.rotations import best_rotations, excess_of
from warren.solve.flows.whole_periods import FINEST, MOST_UNITS, whole_periods

Pattern = list[list[float]]
"""By link, then by slice."""


def excess(patterns: list[Pattern], turns: tuple[int, ...]) -> float:
    """Each slice of the circle on its own, without numpy."""
    around = math.lcm(*(len(one[0]) for one in patterns))
    over = 0.0
    for link in range(len(patterns[0])):
        for at in range(around):
            asked = sum(
                one[link][(at - turn) % len(one[link])]
                for one, turn in zip(patterns, turns, strict=True)
            )
            over += max(0.0, asked - 1.0)
    return over / around


def least(patterns: list[Pattern]) -> float:
    return min(excess(patterns, one) for one in product(*(range(len(p[0])) for p in patterns)))


def patterns(jobs: int, slices: tuple[int, ...], links: int) -> st.SearchStrategy[list[Pattern]]:
    def one(length: int) -> st.SearchStrategy[Pattern]:
        row = st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=length, max_size=length)
        return st.lists(row, min_size=links, max_size=links)

    return st.lists(st.sampled_from(slices).flatmap(one), min_size=jobs, max_size=jobs)


def solved(found: list[Pattern]) -> tuple[tuple[int, ...], float]:
    rotations = best_rotations([np.array(one) for one in found])
    assert excess(found, rotations.slices) == pytest.approx(rotations.excess)
    assert rotations.slices[0] == 0
    assert rotations.turned >= rotations.excess - 1e-9
    return rotations.slices, rotations.excess


@given(patterns(2, (3, 4, 6), 2) | patterns(3, (3, 4, 6), 2) | patterns(4, (4,), 1))
def test_no_rotations_of_few_patterns_have_less_excess(found: list[Pattern]) -> None:
    assert solved(found)[1] == pytest.approx(least(found))


@given(patterns(5, (8, 12), 2))
def test_of_many_patterns_none_alone_can_be_turned_to_less_and_all_are_the_same_again(
    found: list[Pattern],
) -> None:
    slices, over = solved(found)
    assert solved(found) == (slices, over)
    for job, pattern in enumerate(found):
        for turn in range(len(pattern[0])):
            other = (*slices[:job], turn, *slices[job + 1 :])
            assert excess(found, other) >= over - 1e-9


def test_two_bursts_of_half_a_circle_go_one_after_the_other() -> None:
    half = np.array([[0.0] * 10 + [1.0] * 10])
    assert best_rotations([half, half]) == ((0, 10), 0.0, 0.5)
    assert excess_of([half, half], (0, 0)) == 0.5


def test_bursts_with_room_are_in_the_middle_of_it() -> None:
    """2 of 12 slices each: anywhere from 2 to 10 they do not meet."""
    short = np.array([[1.0] * 2 + [0.0] * 10])
    assert best_rotations([short, short]) == ((0, 6), 0.0, 2 / 12)


def test_a_ring_of_shared_links_has_one_rotation_a_job() -> None:
    """Three jobs, each two of which share a link: CASSINI's graph would have a loop."""
    third = [1.0] * 4 + [0.0] * 8
    none = [0.0] * 12
    rows = [[third, none, third], [third, third, none], [none, third, third]]
    slices, over, _ = best_rotations([np.array(one) for one in rows])
    assert over == 0.0
    assert sorted(slices) == [0, 4, 8]


def test_periods_of_two_and_three_meet_where_both_have_room() -> None:
    """On a circle of 6: 1 of 2 and 1 of 3 slices meet once whatever the rotation."""
    two, three = np.array([[1.0, 0.0]]), np.array([[1.0, 0.0, 0.0]])
    assert best_rotations([two, three]).excess == pytest.approx(1 / 6)
    four = np.array([[1.0, 0.0, 0.0, 0.0]])
    assert best_rotations([two, four]).excess == 0.0


@given(st.lists(st.floats(0.5, 20), min_size=1, max_size=5), st.floats(0.01, 0.3))
def test_whole_periods_are_longer_by_the_tolerance_at_most(
    lengths: list[float], tolerance: float
) -> None:
    found = whole_periods(lengths, tolerance)
    if found is None:
        return
    for length, count in zip(lengths, found.counts, strict=True):
        assert length * (1 - 1e-12) <= count * found.unit <= length * (1 + tolerance) * (1 + 1e-12)
    assert math.lcm(*found.counts) <= MOST_UNITS
    assert min(found.counts) <= FINEST


def test_whole_periods_of_simple_ratios() -> None:
    assert whole_periods([2.0, 2.0], 0.05) == ((1, 1), 2.0)
    assert whole_periods([2.0, 3.0], 0.05) == ((2, 3), 1.0)
    counts, unit = whole_periods([2.0, 3.03], 0.05) or ((), 0.0)
    assert counts == (2, 3)
    assert unit == pytest.approx(1.01)
    assert whole_periods([2.0, 2.9, 3.7], 0.01) is None
