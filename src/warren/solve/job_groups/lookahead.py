"""Groupings compared by when all jobs would end: each is played on by the model to the last end.

A grouping that is best now (``worth``) depends on how much early ends count, b. No b is best for
all: with a large one short jobs end soon, and long ones are left that do not fill the machines. So
groupings for several b are tried: jobs go on at the rates of (4.1), and whenever one has ended, the
rest is grouped anew with the same b. Of all, that one is taken which makes the smallest::

    sqrt(sum of w_j C_j / sum of w_j  x  max of C_j)

with C_j when job j ends from now on: mean and last end count alike. Jobs that come later are not
foreseen, and moving costs nothing.

*Source.* Ours: a rollout, as dynamic programming has it, of the rule that ``worth`` is. Both ends
count since the mean alone lets makespans grow.

*Symbols.* Axes J: jobs; G: groups.
"""

from __future__ import annotations

from dataclasses import replace
from math import sqrt
from typing import Final

import numpy as np

from warren.solve.common.arrays import FloatArray
from warren.solve.job_groups.iteration import iteration_of
from warren.solve.job_groups.problem import JobGrouping, JobGroupingProblem
from warren.solve.job_groups.regrouping import RunningGroups
from warren.solve.job_groups.solve import grouped
from warren.solve.job_groups.worth import LEFT_POWER, iteration_worth_J

POWERS: Final = (0.0, LEFT_POWER, 0.5, 1.0)
"""The b that are tried."""
_WORK: Final = 50_000
_KICKS: Final = 5
"""Of the search for each later grouping; see ``solve``."""
_DONE: Final = 1e-9
"""So small a part of the time to the next end is no later one."""


def by_lookahead(
    problem: JobGroupingProblem,
    left_J: FloatArray,
    weight_J: FloatArray,
    running: RunningGroups,
    threshold: float,
    work: int,
    seed: int = 0,
) -> RunningGroups:
    """Choose groups by when all jobs would end with them; keep those that run unless that gains.

    Parameters
    ----------
    left_J
        Iterations left of each job (J,), above 0.
    weight_J
        Of the ends of jobs (J,), above 0.
    running
        The groups that there are.
    threshold
        The part of the score by which others must be better.
    work
        Of the search for each grouping that is compared; see ``solve``.
    """
    chosen = running
    best = (1 - threshold) * min(
        ends_score(problem, left_J, weight_J, power, running) for power in POWERS
    )
    for power in POWERS:
        weighed = _weighed(problem, left_J, weight_J, power)
        found = _running(grouped(weighed, work=work, seed=seed))
        score = ends_score(problem, left_J, weight_J, power, found)
        if score < best:
            chosen, best = found, score
    return chosen


def ends_score(
    problem: JobGroupingProblem,
    left_J: FloatArray,
    weight_J: FloatArray,
    power: float,
    first: RunningGroups,
) -> float:
    """Compute the score (s) of groups if those after them are chosen with b = ``power``.

    Infinite if no job of ``first`` runs.
    """
    end_J = np.zeros(len(left_J))
    left_J = left_J.astype(float)
    there, groups, now_s = np.arange(len(left_J)), first, 0.0
    while len(there):
        part = problem.part(there)
        rate_J = rates_J(part, groups)
        if not rate_J.any():
            return np.inf
        with np.errstate(divide="ignore"):
            span_J = left_J[there] / rate_J
        span_s = float(span_J.min())
        now_s += span_s
        left_J[there] -= rate_J * span_s
        ended_J = span_J <= span_s * (1 + _DONE)
        end_J[there[ended_J]] = now_s
        there = there[~ended_J]
        if len(there):
            rest = _weighed(problem.part(there), left_J[there], weight_J[there], power)
            groups = _running(grouped(rest, work=_WORK, kicks=_KICKS))
    mean_s = float((weight_J * end_J).sum() / weight_J.sum())
    return sqrt(mean_s * float(end_J.max()))


def rates_J(problem: JobGroupingProblem, groups: RunningGroups) -> FloatArray:
    """Compute the iterations a second of each job (J,) by (4.1); 0 of those that do not run."""
    rate_J = np.zeros(len(problem.net_s_J))
    for group, machines in enumerate(groups.machine_G.tolist()):
        jobs = np.flatnonzero(groups.group_J == group)
        if len(jobs):
            rate_J[jobs] = 1 / iteration_of(problem.part(jobs), machines).iteration_s
    return rate_J


def _weighed(
    problem: JobGroupingProblem, left_J: FloatArray, weight_J: FloatArray, power: float
) -> JobGroupingProblem:
    """Return the problem whose value is the weighed speed with so large a b."""
    worth_J = iteration_worth_J(problem, left_J, weight_J, power)
    return replace(problem, worth_J=worth_J, busy_weight=0.0)


def _running(found: JobGrouping) -> RunningGroups:
    return RunningGroups(group_J=found.group_J, machine_G=found.machine_G)
