"""The bound by prices: no job alone can pay less, and together it comes close to the optimum."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from test_solve_bounds import instance, one_machine
from test_solve_dispatch import random_problem

from warren.solve.bounds.columns import bound_jobs
from warren.solve.bounds.exhaustive import TinyInstance, least_weighted_jct
from warren.solve.bounds.lagrangian import LagrangianBound, new_scratch, respond
from warren.solve.bounds.subgradient import CELLS, best_prices, to_price
from warren.solve.lists.earliest_completion import dispatch

COLUMNS = ("arrival_ns_J", "scale_J", "rounds_J", "comp_ns_JT", "sync_ns_JT", "fits_JT", "type_D")


def alone(rng: random.Random) -> dict[str, Any]:
    """A job of whole seconds alone with whole prices, each for whole seconds."""
    types = rng.randint(1, 3)
    grid = np.cumsum([0, *(rng.randint(1, 6) for _ in range(rng.randint(1, 6)))])
    return {
        "round": rng.choice([0, 0, 1, 4]),
        "weight": rng.choice([0.0, 0.5, 1.0, 3.0]),
        "arrival": rng.choice([0, 0, 2, 5]),
        "scale": rng.randint(1, 2),
        "rounds": rng.choice([1, 2, 3, 10]),
        "comp": [rng.randint(0, 3) for _ in range(types)],
        "sync": [rng.randint(0, 3) for _ in range(types)],
        "price": [[rng.choice([0, 0, 1, 2, 7]) for _ in grid[1:]] for _ in range(types)],
        "grid": grid,
    }


def least_paid(case: dict[str, Any]) -> float:
    """w (C - a) and pay of the best schedule, round by round, with devices without number.

    A round takes ``round`` or longer, as it does where devices are few.
    What a task pays is linear between whole starts, as prices change at whole seconds only.
    """
    types, horizon = range(len(case["comp"])), 24 + 6 * case["rounds"] + int(case["grid"][-1])
    price = np.zeros((len(types), horizon + 1))
    for i, row in enumerate(np.transpose(case["price"])):
        price[:, case["grid"][i] : case["grid"][i + 1]] = row[:, None]
    paid = np.hstack([np.zeros((len(types), 1)), np.cumsum(price, axis=1)])
    # One round in the window [b, e]: every task takes the cheapest type and start.
    task = np.full((horizon + 1, horizon + 1), np.inf)
    for t in types:
        comp, turn = case["comp"][t], case["comp"][t] + case["sync"][t]
        for start in range(horizon + 1 - turn):
            cost = paid[t, start + comp] - paid[t, start]
            task[start, start + turn] = min(task[start, start + turn], cost)
    for length in range(1, horizon + 1):
        for begin in range(horizon + 1 - length):
            inner = min(task[begin + 1, begin + length], task[begin, begin + length - 1])
            task[begin, begin + length] = min(task[begin, begin + length], inner)
    date = np.arange(horizon + 1)
    task[date[None] < date[:, None] + case["round"]] = np.inf
    done = np.full(horizon + 1, np.inf)
    done[case["arrival"]] = 0.0
    for _ in range(case["rounds"]):
        done = (done[:, None] + case["scale"] * task).min(axis=0)
    waits = case["weight"] * (date - case["arrival"])
    return float((done + waits)[case["arrival"] :].min())


def answer(case: dict[str, Any], stop: int = 0) -> float:
    """What ``respond`` says, without what the devices earn."""
    comp, turn = np.array(case["comp"], float), np.add(case["comp"], case["sync"]).astype(float)
    longest = np.maximum(turn, case["round"])
    problem = LagrangianBound(
        weight_J=np.array([case["weight"]]),
        arrival_s_J=np.array([float(case["arrival"])]),
        path_s_JT=case["rounds"] * longest[None],
        work_s_JT=case["rounds"] * case["scale"] * comp[None],
        longest_s_J=np.array([longest.max()]),
        devices_T=np.zeros(len(comp)),
        grid_s_E=case["grid"].astype(float),
    )
    if problem.path_s_JT.min() <= 0:
        return 0.0
    scratch = new_scratch(problem)
    if stop:
        scratch.stop_J[:] = stop
    return float(respond(problem, np.array(case["price"], float), scratch))


def test_no_schedule_of_a_job_alone_costs_less_than_the_answer() -> None:
    ratios = []
    for seed in range(250):
        case = alone(random.Random(seed))
        found, least = answer(case), least_paid(case)
        assert found <= least * (1 + 1e-12) + 1e-12, case
        if case["rounds"] == 10 and least:
            ratios.append(found / least)
    assert np.mean(ratios) > 0.85, np.mean(ratios)


def test_the_answer_does_not_depend_on_which_intervals_are_thought_to_matter() -> None:
    for seed in range(250):
        case = alone(random.Random(seed))
        found = {answer(case, stop) for stop in range(1, len(case["grid"]) + 1)}
        assert len(found) == 1, (case, found)


def test_steady_prices_are_answered_exactly() -> None:
    # B is slower but cheaper: 10 rounds of 2 tasks cost 2 a second on A, 1 on B.
    case = {"arrival": 3, "scale": 2, "rounds": 10, "comp": [1, 2], "sync": [1, 1], "round": 0,
            "price": [[4], [1]], "grid": np.array([0, 200])}  # fmt: skip
    for weight in (1.0, 3.0, 4.0, 5.0, 50.0):
        # A: 20 s and 80 to pay. B: 30 s and 40 to pay.
        exact = min(weight * 20 + 80, weight * 30 + 40)
        assert answer(case | {"weight": weight}) == pytest.approx(exact, rel=1e-5)


def priced(case: dict[str, Any]) -> float:
    """The bound by prices alone, in seconds."""
    jobs = bound_jobs(**case)
    found = best_prices(jobs) if jobs else None
    return found.bound_s if found else 0.0


def test_the_bound_by_prices_alone_never_exceeds_the_optimum() -> None:
    for seed in range(100):
        case = instance(random.Random(seed))
        assert priced(case) * 1e9 <= least_weighted_jct(TinyInstance(**case)) * (1 + 1e-9)


def test_many_short_rounds_on_one_device_come_close_to_smiths_rule() -> None:
    rounds, weight = np.array([900, 400, 2500, 700]), np.array([3.0, 1.0, 2.0, 5.0])
    case = one_machine(comp_ns_JT=np.full((4, 1), 10**9), rounds_J=rounds, weight_J=weight)
    order = np.argsort(rounds / weight)
    optimum = float(weight[order] @ np.cumsum(rounds[order]))
    assert 0.98 * optimum <= priced(case) <= optimum


def test_jobs_that_share_a_fast_type_are_known_to_wait_or_to_be_slow() -> None:
    # Two equal jobs, a fast device and one five times slower: 1,000 and 2,000 s is best.
    case = one_machine(
        comp_ns_JT=np.array([[1, 5], [1, 5]]) * 10**9, rounds_J=np.array([1000, 1000]),
        sync_ns_JT=np.zeros((2, 2), np.int64), type_D=np.array([0, 1]),
    )  # fmt: skip
    # By paths alone 2,000 s. One job may leave a sixth of its work to the slow device.
    assert 2_700 < priced(case) <= 3_000


def test_no_dispatched_schedule_beats_the_bound() -> None:
    for seed in range(25):
        problem, *priorities = random_problem(seed)
        jobs = len(problem.scale_J)
        problem = problem._replace(rounds_J=np.full(jobs, 30))
        weight_J = np.arange(1.0, jobs + 1)
        case = {name: getattr(problem, name) for name in COLUMNS} | {"weight_J": weight_J}
        finish_ns_J = dispatch(problem, *priorities)[1]
        assert priced(case) * 1e9 <= weight_J @ (finish_ns_J - problem.arrival_ns_J)


def test_an_instance_of_too_many_cells_gets_no_prices() -> None:
    count = CELLS // 8 + 1
    case = one_machine(comp_ns_JT=np.full((count, 1), 10**9))
    jobs = bound_jobs(**case)
    assert jobs is not None
    assert best_prices(jobs) is None


def test_without_any_price_the_bound_is_that_of_the_paths() -> None:
    # More devices than tasks: nothing is scarce.
    case = one_machine(
        comp_ns_JT=np.full((3, 1), 10**9), rounds_J=np.array([5, 10, 20]),
        type_D=np.zeros(4, np.int64),
    )  # fmt: skip
    assert priced(case) == pytest.approx(35, rel=1e-9)


def shortest_left_first(arrival: list[int], rounds: list[int]) -> int:
    """The least sum of C - a on one device with rounds of one second (Schrage 1968)."""
    left, now, total = list(rounds), 0, 0
    while any(left):
        waiting = [j for j, a in enumerate(arrival) if a <= now and left[j]]
        now += 1
        if waiting:
            job = min(waiting, key=lambda j: left[j])
            left[job] -= 1
            total += 0 if left[job] else now - arrival[job]
    return total


def test_any_prices_on_any_grid_bound_the_whole_instance() -> None:
    closest = []
    for seed in range(12):
        rng = random.Random(seed)
        count = rng.randint(2, 4)
        rounds = [rng.randint(200, 2000) for _ in range(count)]
        arrival = [0, *(rng.randint(0, 1000) for _ in rounds[1:])]
        optimum = shortest_left_first(arrival, rounds)
        case = one_machine(
            comp_ns_JT=np.full((count, 1), 10**9), rounds_J=np.array(rounds),
            arrival_ns_J=np.array(arrival) * 10**9,
        )  # fmt: skip
        jobs = bound_jobs(**case)
        assert jobs is not None
        problem, good = to_price(jobs), best_prices(jobs)
        assert problem is not None
        assert good is not None
        ratio, price_TI = 0.0, good.price_TI
        for step in range(40):
            # Climb from good prices, and leave their grid: nothing may lead above the optimum.
            grid_s_E = np.sort(good.grid_s_E * [rng.choice([1, 1, 1.01]) for _ in good.grid_s_E])
            on_grid = problem._replace(grid_s_E=good.grid_s_E if step % 2 else grid_s_E)
            factor_I = [rng.choice([1, 1, 1, 0.98, 1.02, 0]) for _ in grid_s_E[1:]]
            trial_TI = price_TI * (rng.choice([0.9, 0.99, 1, 1.01, 1.1]) if step % 3 else factor_I)
            value = respond(on_grid, trial_TI, new_scratch(on_grid))
            assert value <= optimum, (arrival, rounds, grid_s_E, trial_TI)
            if value > ratio * optimum:
                ratio, price_TI = value / optimum, trial_TI
        closest.append(ratio)
    assert np.mean(closest) > 0.9, closest  # measured 0.92


def test_an_arrival_that_float_seconds_round_up_to_an_edge_may_use_what_lies_before_it() -> None:
    # 1 ns before the edge a task of 1 ns is free; in float seconds both are the same date.
    case = one_machine(
        comp_ns_JT=np.ones((2, 1), np.int64), arrival_ns_J=np.array([0, 10**17 - 1]),
        weight_J=np.array([0.0, 1e-9]),
    )  # fmt: skip
    assert float((10**17 - 1) / 1e9) == 1e8
    jobs = bound_jobs(**case)
    assert jobs is not None
    problem = to_price(jobs)
    assert problem is not None
    problem = problem._replace(grid_s_E=np.array([0.0, 1e8, 1e8 + 10]), devices_T=np.zeros(1))
    assert respond(problem, np.array([[0.0, 1.0]]), new_scratch(problem)) <= 1e-18
