"""The exhaustive search finds the optimum of the problem as the paper states it, (4)-(8)."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp

from warren.solve.bounds.exhaustive import TinyInstance, least_makespan, least_weighted_jct


def tiny(seed: int) -> TinyInstance:
    """Up to 6 tasks on up to 3 devices; T^s may exceed T^c; a job may not fit a type."""
    rng = random.Random(seed)
    types = rng.randint(1, 3)
    shapes = [(4, 2)]
    while sum(scale * rounds for scale, rounds in shapes) > 6:
        shapes = [(rng.randint(1, 2), rng.randint(1, 3)) for _ in range(rng.randint(1, 3))]
    jobs = len(shapes)
    fits = np.array([[rng.random() < 0.8 for _ in range(types)] for _ in range(jobs)])
    fits[:, 0] = True
    return TinyInstance(
        arrival_ns_J=np.array([rng.choice([0, 0, 2, 5]) for _ in range(jobs)]),
        weight_J=np.array([rng.choice([0.5, 1.0, 3.0]) for _ in range(jobs)]),
        scale_J=np.array([scale for scale, _ in shapes]),
        rounds_J=np.array([rounds for _, rounds in shapes]),
        comp_ns_JT=np.array([[rng.randint(1, 6) for _ in range(types)] for _ in range(jobs)]),
        sync_ns_JT=np.array([[rng.randint(0, 6) for _ in range(types)] for _ in range(jobs)]),
        fits_JT=fits,
        type_D=np.array([0] + [rng.randrange(types) for _ in range(rng.randint(0, 2))]),
    )


class Program:
    """(4)-(8) as a mixed-integer program: starts x, devices y, orders z of pairs on a device."""

    def __init__(self, case: TinyInstance) -> None:
        self.case = case
        self.tasks = [
            (j, r)
            for j, rounds in enumerate(case.rounds_J)
            for r in range(int(rounds))
            for _ in range(int(case.scale_J[j]))
        ]
        tasks, devices = len(self.tasks), len(case.type_D)
        self.pairs = list(itertools.combinations(range(tasks), 2))
        self.y = tasks
        self.z = self.y + tasks * devices
        self.end = self.z + len(self.pairs)
        self.size = self.end + len(case.rounds_J) + 1
        self.big = float(case.arrival_ns_J.max() + 12 * tasks + 12)
        self.rows: list[tuple[dict[int, float], float]] = []

    def turn(self, task: int, column: str) -> dict[int, float]:
        """Sum over devices of y times T^c or T^s."""
        job = self.tasks[task][0]
        times = getattr(self.case, column)[job, self.case.type_D]
        first = self.y + task * len(times)
        return {first + m: float(time) for m, time in enumerate(times)}

    def at_least(self, terms: list[dict[int, float]], right: float) -> None:
        """A row: the sum of the terms is at least ``right``."""
        row: dict[int, float] = {}
        for term in terms:
            for column, value in term.items():
                row[column] = row.get(column, 0.0) + value
        self.rows.append((row, right))

    def solve(self, cost: dict[int, float]) -> float:
        """The least cost."""
        case, tasks, devices = self.case, len(self.tasks), len(self.case.type_D)
        lower, upper = np.zeros(self.size), np.full(self.size, self.big)
        upper[self.y : self.end] = 1
        integer = np.zeros(self.size)
        integer[self.y : self.end] = 1
        for i, (j, r) in enumerate(self.tasks):
            lower[i] = case.arrival_ns_J[j]  # (4)
            for m, kind in enumerate(case.type_D):
                upper[self.y + i * devices + m] = float(case.fits_JT[j, kind])
            once = {self.y + i * devices + m: 1.0 for m in range(devices)}
            self.at_least([once], 1.0)  # (5), with equality
            self.at_least([{k: -v for k, v in once.items()}], -1.0)
            spans = [
                {k: -v for k, v in self.turn(i, name).items()}
                for name in ("comp_ns_JT", "sync_ns_JT")
            ]
            self.at_least([{self.end + j: 1.0}, {i: -1.0}, *spans], 0.0)  # (6)
            for later, (other, s) in enumerate(self.tasks):
                if other == j and s == r + 1:
                    self.at_least([{later: 1.0}, {i: -1.0}, *spans], 0.0)  # (7)
        for (i, k), z in zip(self.pairs, range(self.z, self.end), strict=True):
            for m in range(devices):  # (8): on one device one after the other
                both = {self.y + i * devices + m: -self.big, self.y + k * devices + m: -self.big}
                for first, second, order in ((i, k, {z: -self.big}), (k, i, {z: self.big})):
                    span = {a: -v for a, v in self.turn(first, "comp_ns_JT").items()}
                    room = -2 * self.big - (self.big if first == i else 0.0)
                    self.at_least([{second: 1.0}, {first: -1.0}, span, both, order], room)
        for j in range(len(case.rounds_J)):
            self.at_least([{self.size - 1: 1.0}, {self.end + j: -1.0}], 0.0)
        matrix = np.zeros((len(self.rows), self.size))
        for number, (row, _) in enumerate(self.rows):
            matrix[number, list(row)] = list(row.values())
        objective = np.zeros(self.size)
        objective[list(cost)] = list(cost.values())
        right = np.array([limit for _, limit in self.rows])
        found: Any = milp(
            objective, integrality=integer, bounds=Bounds(lower, upper),
            constraints=LinearConstraint(matrix, lb=right),
        )  # fmt: skip
        assert found.success, (found.message, tasks)
        return float(found.fun)


def test_the_search_finds_what_a_mixed_integer_program_finds() -> None:
    for seed in range(12):
        case = tiny(seed)
        program = Program(case)
        cost = {program.end + j: float(w) for j, w in enumerate(case.weight_J)}
        waited = float(case.weight_J @ case.arrival_ns_J)
        assert least_weighted_jct(case) == pytest.approx(program.solve(cost) - waited, abs=1e-4)
        last = Program(case)
        shortest = last.solve({last.size - 1: 1.0}) - float(case.arrival_ns_J.min())
        assert least_makespan(case) == pytest.approx(shortest, abs=1e-4)


def test_a_synchronization_overlaps_the_next_task_on_its_device() -> None:
    # Two jobs of one task on one device: 2 + 5 and 4 + 1, not 2 + 5 + 2 + 1.
    case = TinyInstance(
        arrival_ns_J=np.zeros(2, np.int64), weight_J=np.ones(2), scale_J=np.ones(2, np.int64),
        rounds_J=np.ones(2, np.int64), comp_ns_JT=np.array([[2], [2]]),
        sync_ns_JT=np.array([[5], [1]]), fits_JT=np.ones((2, 1), bool), type_D=np.array([0]),
    )  # fmt: skip
    assert least_weighted_jct(case) == 12
    assert least_makespan(case) == 7
