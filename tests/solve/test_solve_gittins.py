"""Gittins' index against its definition and its known cases."""

from __future__ import annotations

from math import isqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.solve.assignment.gittins_index import least_effort

SIZES = st.lists(st.integers(1, 40), min_size=1, max_size=12)


def by_definition(sizes: list[int], attained: int) -> float:
    """Every b above enough sizes, also between and beyond them."""
    left = [size for size in sizes if size > attained]
    found = []
    for b in np.arange(attained + 0.5, max(left) + 2, 0.5):
        endings = sum(size <= b for size in left)
        if endings >= isqrt(len(left)):
            found.append(sum(min(size, b) - attained for size in left) / endings)
    return float(min(found))


@given(SIZES, st.integers(0, 39))
def test_the_least_effort_is_that_of_the_definition(sizes: list[int], attained: int) -> None:
    if max(sizes) > attained:
        found = least_effort(np.array(sorted(sizes), dtype=float), float(attained))
        assert found == pytest.approx(by_definition(sizes, attained))


@given(st.integers(1, 99), st.integers(0, 99))
def test_of_one_size_it_is_what_is_left(size: int, attained: int) -> None:
    if attained < size:
        assert least_effort(np.array([float(size)]), float(attained)) == size - attained


def test_without_memory_nothing_attained_changes_it() -> None:
    sizes = -np.log(1 - (np.arange(20_000) + 0.5) / 20_000)
    left = [least_effort(sizes, at) for at in (0.0, 0.5, 1.0, 2.0)]
    assert left == pytest.approx([1.0] * 4, rel=0.1)


def test_under_a_heavy_tail_who_has_more_needs_more() -> None:
    sizes = 1 / (1 - (np.arange(5000) + 0.5) / 5000)
    left = [least_effort(sizes, at) for at in (1.0, 4.0, 16.0, 64.0)]
    assert left == sorted(left)
    assert least_effort(sizes, 10.0**9) == 10.0**9
