"""Groupings compared by when all jobs would end: each is played on by the model to the last end.

Which grouping is best now (``worth``) depends on how much early ends count, b. So groupings for
several b are tried, and the running one: jobs go on at the rates of (4.1), and whenever one has
ended, the rest is grouped again with b = 0.2. Where all b weigh alike, as for equal jobs, they
serve jobs alike; so the first 1, 2 and 3 jobs that would end on all machines are tried, too, which
are followed by the next ones. The score of a grouping is::

    sqrt(sum of w_j C_j / sum of w_j  x  max of C_j)

with C_j when job j ends from now on: the mean end and the last one count alike. Jobs that come
later are not foreseen, and moving costs nothing.

*Source.* Ours: a rollout, as dynamic programming has it, of the rule that ``worth`` is. Other b,
for later groupings too, and other scores were not compared on workloads that were not looked at.

*Symbols.* Axes J: jobs; G: groups.
"""

from __future__ import annotations

from math import sqrt
from typing import Final

import numpy as np

from warren.solve.common.arrays import FloatArray
from warren.solve.job_groups.problem import NOT_RUN, JobGroupingProblem, iterations_s_G
from warren.solve.job_groups.regrouping import RunningGroups
from warren.solve.job_groups.solve import grouped
from warren.solve.job_groups.worth import LEFT_POWER, weighed_speed

POWERS: Final = (0.0, LEFT_POWER, 0.5, 1.0)
"""The b that are tried."""
PREFIXES: Final = 3
"""Most jobs of the one group of all machines that is tried, those that would end first."""
_CLEARLY: Final = 1 - 1e-9
"""Part of the least score so far below which that of such a group is less, beyond rounding."""
_WORK: Final = 5000
"""Work of the search for each later grouping, which is not disturbed; see ``solve``."""
_DONE: Final = 1e-9
"""Part of the time to the next end by which ends may differ and count as one end."""


def by_lookahead(
    problem: JobGroupingProblem,
    left_J: FloatArray,
    weight_J: FloatArray,
    running: RunningGroups,
    threshold: float,
    work: int,
    seed: int = 0,
) -> RunningGroups:
    """Return the groups with the least score; the running ones unless that gains.

    Parameters
    ----------
    problem
        Its worths do not count.
    left_J
        Iterations left of each job (J,), above 0.
    weight_J
        Weights of the ends of jobs (J,), above 0.
    running
        The groups that there are.
    threshold
        The part of their score by which that of others must be less.
    work
        Work of all searches for groupings that are compared; see ``solve``.
    seed
        Seed of the draws of those searches.
    """
    chosen, best = running, (1 - threshold) * ends_score(problem, left_J, weight_J, running)
    seen = {_key(running)}
    for power in POWERS:
        weighed = weighed_speed(problem, left_J, weight_J, power)
        found = RunningGroups.of(grouped(weighed, work=work // len(POWERS), seed=seed))
        if _key(found) in seen:
            continue
        seen.add(_key(found))
        score = ends_score(problem, left_J, weight_J, found)
        if score < best:
            chosen, best = found, score
    for count in range(1, min(PREFIXES, len(left_J)) + 1):
        found = _prefix(problem, left_J, weight_J, count)
        score = ends_score(problem, left_J, weight_J, found, count)
        if score < best * _CLEARLY:
            chosen, best = found, score
    return chosen


def _prefix(
    problem: JobGroupingProblem, left_J: FloatArray, weight_J: FloatArray, count: int
) -> RunningGroups:
    """Return the jobs that would end first, ``count`` of them, as a group on all machines."""
    order_J = np.argsort(left_J * problem.alone_s_J(problem.all_machines) / weight_J, kind="stable")
    group_J = np.full(len(order_J), NOT_RUN, np.int64)
    group_J[order_J[:count]] = 0
    return RunningGroups(group_J=group_J, machine_G=np.array([problem.all_machines]))


def ends_score(
    problem: JobGroupingProblem,
    left_J: FloatArray,
    weight_J: FloatArray,
    first: RunningGroups,
    prefix: int = 0,
) -> float:
    """Compute the score (s) of groups; infinite if no job runs in them, or later.

    ``prefix``: most jobs of the one group of all machines that later groupings have; 0: they are
    of the largest weighed speed.
    """
    end_J, left_J = np.zeros(len(left_J)), left_J.astype(float)
    there, groups, now_s = np.arange(len(left_J)), first, 0.0
    while len(there):
        rate_J = rates_J(problem.part(there), groups)
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
        if len(there) and prefix:
            groups = _prefix(problem.part(there), left_J[there], weight_J[there], prefix)
        elif len(there):
            rest = weighed_speed(problem.part(there), left_J[there], weight_J[there])
            groups = RunningGroups.of(grouped(rest, work=_WORK, kicks=0))
    mean_s = float((weight_J * end_J).sum() / weight_J.sum())
    return sqrt(mean_s * float(end_J.max()))


def rates_J(problem: JobGroupingProblem, groups: RunningGroups) -> FloatArray:
    """Compute the iterations a second of each job (J,) by (4.1); 0 of those that do not run."""
    runs_J = groups.group_J != NOT_RUN
    _, _, time_G = iterations_s_G(problem, groups.group_J, groups.machine_G)
    rate_J = np.zeros(len(runs_J))
    rate_J[runs_J] = 1 / time_G[groups.group_J[runs_J]]
    return rate_J


def _key(groups: RunningGroups) -> tuple[bytes, bytes]:
    """Return a key of groupings; equal ones may be numbered otherwise."""
    return groups.group_J.tobytes(), groups.machine_G.tobytes()
