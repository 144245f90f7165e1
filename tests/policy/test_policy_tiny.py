"""Tiny instances: bounds below the optimum, every policy above it, and both not far."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "experiments"))
import _tiny

from warren.policy.registry import POLICIES
from warren.solve.bounds.exhaustive import TinyInstance, least_makespan
from warren.solve.bounds.lower_bounds import lower_bounds

pytestmark = pytest.mark.slow

CLOSE = 1e-9
BUDGETS = {"braid": 500, "hare-published": 20}
"""Of searches. Three jobs have six orders: with 320,000 ``braid`` finds the same plan of each."""


def hard(count: int) -> list[_tiny.Case]:
    """The first hard instances."""
    found: list[_tiny.Case] = []
    seed = 0
    while len(found) < count:
        case = _tiny.draw(seed)
        if _tiny.best_order_s(case) >= _tiny.HARD * _tiny.optimum_s(case):
            found.append(case)
        seed += 1
    return found


def test_bounds_stay_below_the_optimum_and_close_to_it() -> None:
    ratios = []
    for seed in range(80):
        case = _tiny.draw(seed)
        bounds = lower_bounds(**case.columns)
        ratios.append((
            bounds.weighted_jct_s / _tiny.optimum_s(case),
            bounds.makespan_s * 1e9 / least_makespan(TinyInstance(**case.columns)),
        ))  # fmt: skip
    assert np.max(ratios) <= 1 + CLOSE
    # Measured 0.965 and 0.974.
    assert (np.mean(ratios, axis=0) > 0.94).all()


def test_no_policy_beats_the_optimum() -> None:
    for case in [*hard(4), *map(_tiny.draw, range(8))]:
        optimum_s = _tiny.optimum_s(case)
        for name in POLICIES:
            options = {"budget": BUDGETS[name]} if name in BUDGETS else {}
            value_s = _tiny.weighted_s(case, _tiny.finish_ns(case, name, **options))
            assert value_s >= optimum_s * (1 - CLOSE), (name, case.run.workload)


def test_hare_is_near_the_optimum_also_where_orders_of_jobs_are_not_enough() -> None:
    cases = [*hard(8), *map(_tiny.draw, range(12))]
    ratios = [
        _tiny.weighted_s(case, _tiny.finish_ns(case, "hare", budget=100_000))
        / _tiny.optimum_s(case)
        for case in cases
    ]
    assert np.min(ratios) >= 1 - CLOSE

    assert np.mean(ratios) <= 1.02
    assert np.max(ratios) <= 1.15
