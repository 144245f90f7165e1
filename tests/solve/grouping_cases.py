"""Problems of GPU grouping, and every partition of a few GPUs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from warren.solve.gpu_groups.problem import (
    Grouping,
    GroupingProblem,
    relative_speeds,
)


def partitions(devices: int, groups: int) -> Iterator[list[list[int]]]:
    """Every way to put devices into so many groups, none empty."""
    if devices == 0:
        if groups == 0:
            yield []
        return
    last = devices - 1
    for rest in partitions(last, groups - 1) if groups else ():
        yield [*rest, [last]]
    for rest in partitions(last, groups):
        for place in range(groups):
            yield [*rest[:place], [*rest[place], last], *rest[place + 1 :]]


def value_of(problem: GroupingProblem, groups: list[list[int]]) -> float:
    """(4) to the letter, GPU by GPU."""
    worst = 0.0
    for speed_T in problem.speed_JT:
        p = [sum(float(speed_T[problem.type_D[gpu]]) for gpu in group) for group in groups]
        worst = max(worst, max(p) - min(p))
    return worst


def optimum(problem: GroupingProblem) -> float:
    every = partitions(len(problem.type_D), problem.groups)
    return min(value_of(problem, groups) for groups in every)


def lists(grouping: Grouping) -> list[list[int]]:
    groups = range(len(grouping.count_GT))
    return [np.flatnonzero(grouping.group_D == group).tolist() for group in groups]


def drawn(seed: int, most: int = 8, raw: bool = False) -> GroupingProblem:
    """Up to ``most`` GPUs of up to four types, up to four jobs, some that do not fit."""
    random = np.random.default_rng(seed)
    devices, types = int(random.integers(2, most + 1)), int(random.integers(1, 5))
    jobs = int(random.integers(1, 5))
    speed_JT = random.uniform(0.2, 3.0, (jobs, types))
    if seed % 3 == 0:  # many equal sums
        speed_JT = np.round(speed_JT)
    speed_JT[random.random(speed_JT.shape) < 0.1] = 0.0
    type_D = random.integers(0, types, devices)
    groups = int(random.integers(1, devices + 1))
    if not raw:
        speed_JT = relative_speeds(speed_JT, type_D, groups)
    return GroupingProblem(speed_JT=speed_JT, type_D=type_D, groups=groups)


def mixed(seed: int, devices: int, groups: int, types: int = 4, jobs: int = 8) -> GroupingProblem:
    """A larger cluster; jobs gain more or less by faster types, as real ones do."""
    random = np.random.default_rng(seed)
    gain_T = np.sort(random.uniform(1.0, 7.0, types))
    speed_JT = gain_T ** random.uniform(0.3, 1.2, (jobs, 1)) * random.uniform(0.9, 1.1, (jobs, 1))
    type_D = np.sort(random.choice(types, devices, p=random.dirichlet(np.full(types, 5.0))))
    return GroupingProblem(
        speed_JT=relative_speeds(speed_JT, type_D, groups), type_D=type_D, groups=groups
    )
