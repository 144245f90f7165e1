"""Problems of job grouping, drawn, and every grouping of a few jobs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, pairwise
from typing import Final

import numpy as np

from warren.cost.job_groups import cluster_utilization, comp_s_J, utilization
from warren.solve.job_groups.problem import NOT_RUN, JobGroupingProblem

GB: Final = 1e9
RATE: Final = 1.1e9 / 8
"""Bytes a second of an m4.2xlarge (4.4.2)."""
MODEL_GB: Final = (1.0, 5.0, 2.1, 1.1, 12.0, 24.0, 12.0, 24.0)
"""Table 4.1: NMF, LDA, MLR and Lasso, two data sets each."""
DOP: Final = 16
"""The machines on which the paper's jobs were measured (Fig. 4.9)."""


def problem(comp: list[float], net: list[float], machines: int) -> JobGroupingProblem:
    return JobGroupingProblem(
        comp_machine_s_J=np.array(comp, float), net_s_J=np.array(net, float), machines=machines
    )


def drawn(seed: int) -> JobGroupingProblem:
    """2 to 10 jobs on 2 to 24 machines.

    At a DoP that is drawn, COMP over COMM is log-normal around 1 with sigma 0.9, and lengths of
    iterations with sigma 0.7.
    """
    random = np.random.default_rng(seed)
    jobs, machines = int(random.integers(2, 11)), int(random.integers(2, 25))
    dop = np.exp(random.uniform(0, np.log(machines)))
    return _drawn_jobs(random, jobs, machines, dop, np.exp(random.normal(0, 0.7, jobs)))


def table_4_1(seed: int, jobs: int, machines: int) -> JobGroupingProblem:
    """Jobs of Table 4.1 in an order that is drawn.

    COMM is a pull and a push of 0.5 to 1.5 times a model of the table (hyper-parameters). Fig. 4.9
    is a picture: COMP over COMM at DoP 16 is ours, log-normal around 1 with sigma 0.8.
    """
    random = np.random.default_rng(seed)
    model_J = np.array([MODEL_GB[n % len(MODEL_GB)] * GB for n in range(jobs)])
    net_J = 2 * random.permutation(model_J) * random.uniform(0.5, 1.5, jobs) / RATE
    ratio_J = np.exp(random.normal(0, 0.8, jobs))
    return JobGroupingProblem(
        comp_machine_s_J=DOP * ratio_J * net_J, net_s_J=net_J, machines=machines
    )


def _drawn_jobs(
    random: np.random.Generator, jobs: int, machines: int, dop: float, alone_J: np.ndarray
) -> JobGroupingProblem:
    ratio_J = np.exp(random.normal(0, 0.9, jobs))
    return JobGroupingProblem(
        comp_machine_s_J=dop * alone_J * ratio_J / (1 + ratio_J),
        net_s_J=alone_J / (1 + ratio_J),
        machines=machines,
    )


def value_of(one: JobGroupingProblem, group_J: list[int], machine_G: list[int]) -> float:
    """The value of a grouping by the closed forms, group by group."""
    uses, sharing = [], 0.0
    for group, machines in enumerate(machine_G):
        jobs = [job for job, where in enumerate(group_J) if where == group]
        comp_J = comp_s_J(one.comp_machine_s_J[jobs], machines)
        uses.append((machines, utilization(comp_J, one.net_s_J[jobs])))
        sharing += machines * len(jobs) / one.machines
    return (
        cluster_utilization(uses, one.machines).weighted(one.cpu_weight) - one.job_weight * sharing
    )


def groupings(jobs: int, machines: int) -> Iterator[tuple[list[int], list[int]]]:
    """Every choice of jobs, every partition, every split of all machines."""
    for group_J in _partitions(jobs):
        groups = max(group_J, default=NOT_RUN) + 1
        if 1 <= groups <= machines:
            for cuts in combinations(range(1, machines), groups - 1):
                yield group_J, [b - a for a, b in pairwise((0, *cuts, machines))]


def _partitions(jobs: int) -> Iterator[list[int]]:
    if jobs == 0:
        yield []
        return
    for rest in _partitions(jobs - 1):
        for group in range(NOT_RUN, max(rest, default=NOT_RUN) + 2):
            yield [*rest, group]
