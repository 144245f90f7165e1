"""Worth of an iteration of each job, so that jobs end early and none of them crawls.

The value of a grouping is then the weighed speed of all jobs: with f_j the time of an iteration of
job j alone at its fastest, l_j its iterations left, and weights w_j::

    v_j = s_j f_j,  s_j = M w_j (l_j f_j)^-b / sum of the same,  value of a group = V / T

so a job counts by its share s_j times how fast it is, in parts of its speed alone. With b = 1 the
jobs that end soonest have nearly everything, and long jobs are left to the end, where they cannot
keep the machines busy; with b = 0 no job is let past.

*Source.* Ours. b was chosen on eight workloads in virtual time (seeds 0 to 2 and 20 to 24 of
``experiments/harmony_simulated.py``): of 0 to 2 one near 0.2 gave the shortest mean JCTs, and
nearly the shortest makespans.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from warren.solve.common.arrays import FloatArray
from warren.solve.job_groups.problem import JobGroupingProblem

LEFT_POWER: Final = 0.2
"""b."""


def iteration_worth_J(
    problem: JobGroupingProblem,
    left_J: FloatArray,
    weight_J: FloatArray | None = None,
    power: float = LEFT_POWER,
) -> FloatArray:
    """Compute v of each job (J,); ``left_J``: iterations left, above 0; no weights: all alike.

    ``power``: b.
    """
    fastest_J = fastest_s_J(problem)
    share_J = (left_J * fastest_J) ** -power
    if weight_J is not None:
        share_J = share_J * weight_J
    worth_J: FloatArray = problem.machines * share_J / share_J.sum() * fastest_J
    return worth_J


def weighed_speed(
    problem: JobGroupingProblem,
    left_J: FloatArray,
    weight_J: FloatArray,
    power: float = LEFT_POWER,
) -> JobGroupingProblem:
    """Return the problem whose value is the weighed speed; see ``iteration_worth_J``."""
    worth_J = iteration_worth_J(problem, left_J, weight_J, power)
    return replace(problem, worth_J=worth_J, busy_weight=0.0)


def fastest_s_J(problem: JobGroupingProblem) -> FloatArray:
    """Compute each job's least time of an iteration alone on 1, 2, 4, ... or all machines.

    Of numbers that it needs more than, the least that it needs. Of machines of several kinds it is
    the least on some of the fastest.
    """
    if problem.kinds is not None:
        counts = problem.alike.some_of(problem.machines)
        codes = [problem.kinds.dealt(np.array([count])) for count in counts]
        times = [
            np.where(count >= problem.leasts_J, problem.alone_s_J(code.item()), np.inf)
            for count, code in zip(counts, codes, strict=True)
        ]
        quickest_J: FloatArray = np.min([*times, problem.alone_s_J(problem.all_machines)], axis=0)
        return quickest_J
    counts = [1 << power for power in range(problem.machines.bit_length())]
    leasts_J = np.minimum(problem.leasts_J, problem.machines)
    times = [
        problem.alone_s_J(np.maximum(count, leasts_J)) for count in (*counts, problem.machines)
    ]
    fastest_J: FloatArray = np.min(times, axis=0)
    return fastest_J
