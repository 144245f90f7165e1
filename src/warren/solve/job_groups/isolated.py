"""Machines of its own for each job: the baseline beside which jobs share machines.

Jobs are taken in an order; each gets the fewest machines on which it can run, jobs that run already
before all others, and a job that does not fit is passed by. Then each further machine goes where it
makes iterations most faster, by the part.

*Source.* Harmony (dissertation 2020), 4.4.1: disjoint machines, the CPUs as busy as can be, a low
DoP. On few machines a job computes most of its time; the paper says no more, the rest is ours.
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
    """Assign machines of its own to each job of an order, as far as there are some.

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
    while jobs and (step := _best_step(problem, jobs, machine_J, free)):
        job, count = step
        machine_J[job] += count
        free -= count
    return grouping_of(problem, group_J, machine_J[jobs])


def _best_step(
    problem: JobGroupingProblem, jobs: list[int], machine_J: IntArray, free: int
) -> tuple[int, int] | None:
    """Return the job and number of further machines with most speed-up a machine; None: none.

    Rounds of whole tasks take as long on a machine more, and less on several.
    """
    best, most = None, 0.0
    now_J = problem.alone_s_J(machine_J)
    for count in range(1, free + 1 if problem.rounds is not None else min(free, 1) + 1):
        gain_J = np.log(now_J / problem.alone_s_J(machine_J + count)) / count
        for job in jobs:
            if gain_J[job] > most + 1e-12:
                best, most = (job, count), float(gain_J[job])
    return best
