"""The compiled search against the plain exhaustive one."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from test_solve_bounds import instance as random_columns
from test_solve_dispatch import run_of

from warren.solve.bounds.branch_and_bound import SearchTree, best_rows, new_branch, search
from warren.solve.bounds.exhaustive import TinyInstance, least_makespan, least_weighted_jct
from warren.solve.common.instance import Instance


def begun(columns: dict[str, Any], *, makespan: bool) -> SearchTree:
    columns = {**columns, "comp_ns_JT": np.maximum(columns["comp_ns_JT"], 1)}
    instance = Instance(**columns, stretch_rounds_J=np.ones(len(columns["scale_J"]), np.int64))
    branch = new_branch(instance, np.inf, makespan=makespan)
    assert branch is not None
    return branch


def test_a_search_that_ends_has_found_the_optimum() -> None:
    for seed in range(80):
        columns = random_columns(random.Random(seed))
        columns["comp_ns_JT"] = np.maximum(columns["comp_ns_JT"], 1)
        for makespan, least in ((False, least_weighted_jct), (True, least_makespan)):
            branch = begun(columns, makespan=makespan)
            assert search(branch, 10**7) < 10**7
            assert branch.best[0] == least(TinyInstance(**columns))
            finish_ns_J = run_of(branch.instance, best_rows(branch))
            arrival_ns_J = columns["arrival_ns_J"]
            value = (
                finish_ns_J.max() - arrival_ns_J.min()
                if makespan
                else columns["weight_J"] @ (finish_ns_J - arrival_ns_J)
            )
            assert value <= branch.best[0]


def test_a_search_in_pieces_is_the_search_in_one() -> None:
    columns = random_columns(random.Random(3))
    whole, parts = (begun(columns, makespan=False) for _ in range(2))
    nodes, values = search(whole, 10**7), []
    taken = 0
    while taken < nodes:
        taken += search(parts, 7)
        values.append(float(parts.best[0]))
    assert taken == nodes
    assert values == sorted(values, reverse=True)
    np.testing.assert_array_equal(best_rows(parts), best_rows(whole))


def test_more_than_two_dozen_tasks_are_not_tried() -> None:
    columns = random_columns(random.Random(3))
    columns["rounds_J"] = columns["rounds_J"] * 25
    instance = Instance(**columns, stretch_rounds_J=np.ones(len(columns["scale_J"]), np.int64))
    assert new_branch(instance, np.inf, makespan=False) is None
