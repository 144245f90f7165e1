"""BSSI against every order of a few coflows, and by hand."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.solve.coflows.bssi import bssi_order

loads = st.integers(1, 5).flatmap(
    lambda coflows: st.lists(
        st.lists(st.integers(0, 9), min_size=3, max_size=3), min_size=coflows, max_size=coflows
    )
)


def cost(order: tuple[int, ...], load: np.ndarray, weight: np.ndarray) -> float:
    """The weighted sum where each port serves in order: the last port ends a coflow."""
    ends = load[list(order)].cumsum(axis=0)
    sends = load[list(order)] > 0
    return float((weight[list(order)] * np.where(sends, ends, 0).max(axis=1)).sum())


def least(load: np.ndarray, weight: np.ndarray) -> float:
    return min(cost(order, load, weight) for order in permutations(range(len(load))))


@given(loads, st.data())
def test_bssi_is_within_twice_the_best_order_of_concurrent_open_shops(
    rows: list[list[int]], data: st.DataObject
) -> None:
    load = np.array(rows, dtype=float)
    weight = np.array(
        data.draw(st.lists(st.integers(1, 5), min_size=len(load), max_size=len(load))), dtype=float
    )
    order = bssi_order(load, weight)
    assert sorted(order) == list(range(len(load)))
    assert cost(order, load, weight) <= 2 * least(load, weight) + 1e-9


def test_on_one_port_it_is_smiths_rule() -> None:
    load = np.array([[6.0], [1.0], [4.0]])
    assert bssi_order(load, np.array([1.0, 1.0, 1.0])) == (1, 2, 0)
    assert bssi_order(load, np.array([12.0, 1.0, 1.0])) == (0, 1, 2)


def test_the_bottleneck_decides_and_not_the_sum() -> None:
    """Coflow 1 sends most of all, but little on the port that is short."""
    load = np.array([[5.0, 0.0, 0.0], [1.0, 4.0, 4.0], [4.0, 0.0, 0.0]])
    assert bssi_order(load, np.ones(3)) == (1, 2, 0)


def test_wrong_loads_are_refused() -> None:
    with pytest.raises(ValueError, match="not negative"):
        bssi_order(np.array([[-1.0]]), np.ones(1))
    with pytest.raises(ValueError, match="one weight each"):
        bssi_order(np.ones((2, 1)), np.ones(1))


def test_the_last_one_takes_its_price_from_the_weights_of_the_others() -> None:
    """Coflow 2 goes last on port 2 at 1/4 a unit: 0 is left 5 - 9/4, and goes after 1 on port 0."""
    load = np.array([[5.0, 3.0, 9.0], [5.0, 0.0, 0.0], [1.0, 0.0, 4.0]])
    weight = np.array([5.0, 5.0, 1.0])
    assert bssi_order(load, weight) == (1, 0, 2)
    assert cost((1, 0, 2), load, weight) == least(load, weight)
