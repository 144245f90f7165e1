"""Sincronia's promise: BSSI's order with greedy rates is within 4 times any schedule."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.solve.coflows.bssi import bssi_order
from warren.solve.coflows.greedy_rates import completion_times

PORTS = 3
flows = st.lists(
    st.tuples(
        st.integers(0, 4), st.integers(0, PORTS - 1), st.integers(0, PORTS - 1), st.integers(1, 9)
    ),
    min_size=1,
    max_size=14,
)


def columns(rows: list[tuple[int, int, int, int]]) -> tuple[np.ndarray, ...]:
    coflow, source, target, size = np.array(rows).T
    return coflow, source, PORTS + target, size.astype(float)


def loads(rows: list[tuple[int, int, int, int]], coflows: int) -> np.ndarray:
    load = np.zeros((coflows, 2 * PORTS))
    for coflow, source, target, size in rows:
        load[coflow, source] += size
        load[coflow, PORTS + target] += size
    return load


def bound(load: np.ndarray) -> float:
    """The best order of ports that need not send at once: no schedule of the coflows is better."""
    sends = load > 0
    return min(
        float(np.where(sends[list(one)], load[list(one)].cumsum(axis=0), 0).max(axis=1).sum())
        for one in permutations(range(len(load)))
    )


@given(flows)
def test_the_sum_of_completion_times_is_at_most_4_times_the_least(
    rows: list[tuple[int, int, int, int]],
) -> None:
    coflows = 1 + max(row[0] for row in rows)
    load = loads(rows, coflows)
    order = bssi_order(load, np.ones(coflows))
    end = completion_times(order, *columns(rows), np.ones(2 * PORTS))
    assert bound(load) - 1e-9 <= end.sum() <= 4 * bound(load) + 1e-9


@given(flows)
def test_no_port_is_overrun_and_a_coflow_ends_within_twice_the_ports_before_it(
    rows: list[tuple[int, int, int, int]],
) -> None:
    coflows = 1 + max(row[0] for row in rows)
    load, order = loads(rows, coflows), tuple(range(coflows))
    end = completion_times(order, *columns(rows), np.ones(2 * PORTS))
    before = load.cumsum(axis=0)
    assert np.all(end >= load.max(axis=1) - 1e-9)
    # The last flow of a coflow waits only while one of its two ports serves what is before it.
    assert np.all(end <= 2 * before.max(axis=1) + 1e-9)
    assert end.max() >= load.sum(axis=0).max() - 1e-9


def test_of_two_coflows_on_one_port_the_first_goes_first_and_others_use_what_is_free() -> None:
    rows = [(0, 0, 0, 4), (1, 0, 1, 2), (1, 1, 2, 3)]
    first = completion_times((0, 1), *columns(rows), np.ones(2 * PORTS))
    assert first.tolist() == pytest.approx([4.0, 6.0])
    second = completion_times((1, 0), *columns(rows), np.ones(2 * PORTS))
    assert second.tolist() == pytest.approx([6.0, 3.0])


def test_rates_of_ports_count() -> None:
    """A fast sender has 1 of 2 left for the second flow, whose receiver takes 1."""
    rows = [(0, 0, 0, 4), (1, 0, 1, 3)]
    rates = np.array([2.0, 1, 1, 1, 1, 1])
    assert completion_times((0, 1), *columns(rows), rates).tolist() == pytest.approx([4.0, 3.0])
