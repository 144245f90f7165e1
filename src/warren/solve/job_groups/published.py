"""Algorithms 1 and 2 of Harmony: the first jobs of a list, in balanced groups.

*Algorithm 1.* For the first 1, 2, 3, ... jobs: the number of groups whose common DoP, M over that
number, makes COMP and COMM most alike (line 5); the jobs into groups (``grouping_algorithm2``); the
machines to groups. It ends at the first number of jobs that is not better. *Machines:* one for each
group; then one after the other to the most computation-intensive group.

*Source.* Harmony (dissertation 2020), 4.3.2, Algorithms 1 and 2 and the text beside them.

*Symbols.* n_G: ``groups``. T_cpu, T_net, T_diff, S_diff: as printed, at the common DoP M / n_G.

*Mended*, line by line of Algorithm 1:

- Lines 4 and 5 begin with two jobs; J[0 : n_j - 1] has both if its ends count, and one, and never
  the last job, if it is read as most languages do. The text starts "from a single job": the first
  n, for n = 1 to |J|.
- Line 6 gives no range for n_G: 1 to the smaller of n and M, since a group has a job and a machine.
  Of equals the fewest.
- Line 10 compares vectors: the one number of ``problem`` is compared.
- Line 14 returns the grouping at which the loop broke off, which is not the best: the best is.

*Left open*, and so an argument:

- Which group is the most computation-intensive. 4.4.5 measures a workload's intensity by the ratio
  of COMP to COMM time, W / (m N); the other reading is S_diff of Algorithm 2, W / m - N.
- The order of the jobs; they are taken as they stand.

*Differs.* ``patience``: numbers of jobs in a row that are no better, after which it ends. 1 is as
printed; then it may leave most jobs out.
"""

from __future__ import annotations

from heapq import heapify, heapreplace
from typing import Final, Literal, get_args

import numpy as np

from warren.solve.common.arrays import FloatArray, IntArray
from warren.solve.job_groups.grouping_algorithm2 import assign_jobs
from warren.solve.job_groups.problem import (
    NOT_RUN,
    JobGrouping,
    JobGroupingProblem,
    grouping_of,
    sums,
)

AS_PRINTED: Final = 1
"""The patience of Algorithm 1."""
Intensity = Literal["ratio", "difference"]
"""Measure of computation: COMP over COMM, or COMP less COMM."""
INTENSITIES: Final[tuple[Intensity, ...]] = get_args(Intensity)


def published_grouping(
    problem: JobGroupingProblem, patience: int = AS_PRINTED, intensity: Intensity = "ratio"
) -> JobGrouping:
    """Group jobs by Algorithm 1, which takes them in their order.

    ``patience``: numbers of jobs in a row that are no better before it ends, at least 1. Groups
    whose data do not fit are none; if not even the first job's data fit, no job runs. If all jobs
    must run, their number is given, and no other is tried.
    """
    if problem.all_run:
        return grouping_of_first(problem, len(problem.net_s_J), intensity)
    best, since = None, 0
    for count in range(1, len(problem.net_s_J) + 1):
        found = grouping_of_first(problem, count, intensity)
        fits = problem.fits(found.group_J, found.machine_G)
        if fits and (best is None or found.value > best.value):
            best, since = found, 0
        else:
            since += 1
        if since >= patience:
            break
    if best is None:
        nobody_J = np.full(len(problem.net_s_J), NOT_RUN, np.int64)
        return grouping_of(problem, nobody_J, np.zeros(0, np.int64))
    return best


def grouping_of_first(
    problem: JobGroupingProblem, count: int, intensity: Intensity = "ratio"
) -> JobGrouping:
    """Group the first ``count`` jobs, all of which run: lines 5 to 9 of Algorithm 1."""
    comp_J, net_J = problem.comp_machine_s_J[:count], problem.net_s_J[:count]
    groups = balanced_groups(comp_J, net_J, problem.machines)
    return grouping_in(problem, count, groups, intensity)


def grouping_in(
    problem: JobGroupingProblem, count: int, groups: int, intensity: Intensity
) -> JobGrouping:
    """Group the first ``count`` jobs in ``groups`` groups: lines 7 to 9 of Algorithm 1."""
    comp_J, net_J = problem.comp_machine_s_J[:count], problem.net_s_J[:count]
    group_J = np.full(len(problem.net_s_J), NOT_RUN, np.int64)
    group_J[:count] = assign_jobs(comp_J * groups / problem.machines, net_J, groups)
    comp_G = sums(comp_J, group_J[:count], groups)
    net_G = sums(net_J, group_J[:count], groups)
    machine_G = allocate_machines(comp_G, net_G, problem.machines, intensity)
    return grouping_of(problem, group_J, machine_G)


def balanced_groups(comp_machine_s_J: FloatArray, net_s_J: FloatArray, machines: int) -> int:
    """Find n_G, the number of groups with the least sum of |T_cpu(n_G) - T_net|: line 6.

    T_cpu(n_G) = w n_G / M, so the sum is convex and least at the median of M n / w, weighted by w.
    """
    balanced_J = machines * net_s_J / comp_machine_s_J
    order_J = np.argsort(balanced_J, kind="stable")
    weight_J = np.cumsum(comp_machine_s_J[order_J])
    median = balanced_J[order_J[np.searchsorted(weight_J, weight_J[-1] / 2)]]
    most = min(len(net_s_J), machines)
    near = {int(np.clip(one, 1, most)) for one in (np.floor(median), np.floor(median) + 1)}
    return min(
        sorted(near),
        key=lambda n: float(np.abs(comp_machine_s_J * n / machines - net_s_J).sum()),
    )


def allocate_machines(
    comp_machine_s_G: FloatArray, net_s_G: FloatArray, machines: int, intensity: Intensity
) -> IntArray:
    """Give each group one machine, then each further one to the most computation-intensive group.

    That is the group with the largest W / (m N), or W / m - N; of equals the first.
    """
    comp_G, net_G = comp_machine_s_G.tolist(), net_s_G.tolist()

    def below(group: int, count: int) -> tuple[float, int]:
        """Order groups with ``count`` machines, the most intensive group first."""
        comp, net = comp_G[group] / count, net_G[group]
        if intensity == "difference":
            return net - comp, group
        return -(comp / net) if net else -np.inf, group

    machine_G = [1] * len(comp_G)
    waiting = [below(group, 1) for group in range(len(comp_G))]
    heapify(waiting)
    for _ in range(machines - len(comp_G)):
        group = waiting[0][1]
        machine_G[group] += 1
        heapreplace(waiting, below(group, machine_G[group]))
    return np.array(machine_G, np.int64)
