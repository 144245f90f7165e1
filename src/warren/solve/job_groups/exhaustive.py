"""The best grouping of a few jobs: every choice of jobs, partition and machine counts.

A dynamic program that looks at all of them without writing each down. best(S, m) is the most that
jobs of S can be worth on m machines. The first job of S either does not run, or is in a group T, a
part of S, on k of the machines::

    best(S, m) = max(best(S - first, m), max over T, k of value(T, k) + best(S - T, m - k))
    best(S, 0) = 0, best(nothing, m) = 0

Where all jobs must run, the first one of S does, and best(S, 0) is 0 for no jobs only.
3^J M^2 / 4 cases: for ten jobs on sixteen machines a few milliseconds.

*Source.* The paper compares Algorithm 1 with an exhaustive search (4.4.7) and does not say how that
is done.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from warren.solve.common.arrays import FloatArray, IntArray
from warren.solve.common.compile import kernel
from warren.solve.job_groups.problem import (
    NOT_RUN,
    WHOLE,
    JobGrouping,
    JobGroupingProblem,
    grouping_of,
)

JOBS_MOST: Final = 13
"""Most jobs; sets of jobs are numbers, and there is a table of all."""
MACHINES_MOST: Final = 100


class _Table(NamedTuple):
    """By set of jobs and machines (S, M): a group's value, the best, and the group that gives it.

    ``group_SM``: the set T, 0 where the first job does not run; ``taken_SM``: its machines.
    """

    value_SM: FloatArray
    best_SM: FloatArray
    group_SM: IntArray
    taken_SM: IntArray


def best_grouping(problem: JobGroupingProblem) -> JobGrouping:
    """Find the optimum of at most ``JOBS_MOST`` jobs on at most ``MACHINES_MOST`` machines.

    Raises ValueError if there are more.
    """
    jobs, machines = len(problem.net_s_J), problem.machines
    if jobs > JOBS_MOST or machines > MACHINES_MOST:
        raise ValueError(f"at most {JOBS_MOST} jobs and {MACHINES_MOST} machines can be tried")
    shape = (1 << jobs, machines + 1)
    table = _Table(
        value_SM=_values(problem), best_SM=np.full(shape, -np.inf),
        group_SM=np.zeros(shape, np.int64), taken_SM=np.zeros(shape, np.int64),
    )  # fmt: skip
    _fill(table, problem.all_run)
    group_J, machine_G = np.full(jobs, NOT_RUN, np.int64), list[int]()
    rest, left = (1 << jobs) - 1, machines
    while left and rest:
        group, taken = int(table.group_SM[rest, left]), int(table.taken_SM[rest, left])
        if group:
            group_J[[job for job in range(jobs) if group >> job & 1]] = len(machine_G)
            machine_G.append(taken)
        # If the first job does not run, only that job is taken.
        rest, left = rest & ~(group or rest & -rest), left - taken
    return grouping_of(problem, group_J, np.array(machine_G, np.int64))


def _values(problem: JobGroupingProblem) -> FloatArray:
    """Compute the value of every set of jobs on every number of machines; (S, M), 0 for none."""
    jobs, weight = len(problem.net_s_J), problem.cpu_weight
    member_SJ = (np.arange(1 << jobs)[:, None] >> np.arange(jobs) & 1).astype(np.bool_)
    comp_S, count_S = member_SJ @ problem.comp_machine_s_J, member_SJ.sum(axis=1)
    worth_S = member_SJ @ problem.worths_J
    value_SM = np.zeros((1 << jobs, problem.machines + 1))
    for machines in range(1, problem.machines + 1):
        net_S = member_SJ @ problem.comm_s_J(machines)
        longest_S = np.where(member_SJ, problem.alone_s_J(machines), 0.0).max(axis=1)
        time_S = np.maximum(np.maximum(comp_S / machines, net_S), longest_S)
        busy_S = weight * comp_S + (1 - weight) * machines * net_S
        time_S[(member_SJ & (problem.leasts_J > machines)).any(axis=1)] = np.inf
        time_S[member_SJ @ problem.memories_J > machines * (1 + WHOLE)] = np.inf
        gained_S = problem.busy_weight * busy_S + worth_S
        value_SM[1:, machines] = gained_S[1:] / time_S[1:]
        value_SM[:, machines] -= problem.job_weight * machines * count_S
    return value_SM


@kernel
def _fill(table: _Table, all_run: bool) -> None:
    """Fill the table, sets in the order of their numbers: parts of a set come before it."""
    sets, width = table.best_SM.shape
    table.best_SM[0] = 0.0
    for subset in range(1 if all_run else sets):
        table.best_SM[subset, 0] = 0.0
    for subset in range(1, sets):
        first = subset & -subset
        others = subset ^ first
        for machines in range(width if all_run else 1, width):
            table.best_SM[subset, machines] = table.best_SM[others, machines]
        part = others
        while True:
            _try_group(table, subset, part | first)
            if part == 0:
                break
            # The next smaller part of the others.
            part = (part - 1) & others


@kernel
def _try_group(table: _Table, subset: int, group: int) -> None:
    """Put the first job of a set into this group, on each number of machines."""
    rest, width = subset ^ group, table.best_SM.shape[1]
    for machines in range(1, width):
        for taken in range(1, machines + 1):
            value = table.value_SM[group, taken] + table.best_SM[rest, machines - taken]
            if value > table.best_SM[subset, machines]:
                table.best_SM[subset, machines] = value
                table.group_SM[subset, machines] = group
                table.taken_SM[subset, machines] = taken
