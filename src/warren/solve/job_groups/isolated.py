"""Machines of its own for each job: the baseline beside which jobs share machines.

Jobs are taken in an order; each gets as few machines as it can run on, those that run already
before all others, and one that does not fit is passed by. Then each further machine goes where it
makes iterations most faster, by the part.

*Source.* Harmony (dissertation 2020), 4.4.1: disjoint machines, the CPUs as busy as can be, a low
DoP. On few machines a job computes most of its time; what the paper says no more of is ours.
"""

from __future__ import annotations

import numpy as np

from warren.solve.common.arrays import BoolArray, IntArray
from warren.solve.job_groups.problem import (
    NOT_RUN,
    JobGrouping,
    JobGroupingProblem,
    grouping_of,
)


def isolated_machines(
    problem: JobGroupingProblem, least_J: IntArray, order_J: IntArray, runs_J: BoolArray
) -> JobGrouping:
    """Give each job of an order machines of its own, as far as there are some.

    Parameters
    ----------
    least_J
        On how many machines each job can run at least.
    order_J
        All jobs, the first one first.
    runs_J
        Those that run already, which go before the others.
    """
    group_J = np.full(len(least_J), NOT_RUN, np.int64)
    jobs: list[int] = []
    free = problem.machines
    for job in sorted(order_J.tolist(), key=lambda job: not runs_J[job]):
        if least_J[job] <= free:
            group_J[job] = len(jobs)
            jobs.append(job)
            free -= int(least_J[job])
    machine_J = least_J.astype(np.int64)
    for _ in range(free if jobs else 0):
        faster_J = problem.alone_s_J(machine_J) / problem.alone_s_J(machine_J + 1)
        best = max(jobs, key=lambda job: (faster_J[job], -job))
        if problem.rounds is not None and faster_J[best] <= 1:
            break  # COMM grows with machines: those that are left would only do harm
        machine_J[best] += 1
    return grouping_of(problem, group_J, machine_J[jobs])
