"""The coflow traces: the text form, and the bound against counting by hand."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "experiments"))
import coflows


def test_a_trace_of_the_benchmark_becomes_flows_of_each_pair() -> None:
    racks, flows = coflows.parsed("4 2\n1 0 2 0 1 1 3:10.0\n2 5 1 2 2 0:4 1:6\n")
    assert racks == 4
    assert flows == [(0, 0, 3, 5.0), (0, 1, 3, 5.0), (1, 2, 0, 4.0), (1, 2, 1, 6.0)]


@pytest.mark.parametrize("text", ["4 1\n1 0 2 0 1 2 3:10.0\n", "4 2\n1 0 1 0 1 3:10.0\n"])
def test_counts_that_are_wrong_are_reported(text: str) -> None:
    with pytest.raises(ValueError, match="line"):
        coflows.parsed(text)


def test_the_bound_is_the_best_order() -> None:
    assert coflows._bound(np.array([[4.0, 0.0], [1.0, 1.0]])) == pytest.approx((1 + 5) / 2)


def test_drawn_traces_are_read_back() -> None:
    racks, flows = coflows.parsed(coflows.drawn(3))
    assert racks == coflows.RACKS
    assert {flow[0] for flow in flows} == set(range(coflows.COFLOWS))
