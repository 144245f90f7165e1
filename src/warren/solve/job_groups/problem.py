"""Job grouping of Harmony: what is asked, what is answered, and the value of a grouping.

Each job has an iteration of COMP and then COMM. Jobs of a group share the group's machines: one
COMP and one COMM at a time. Which jobs run, how they are grouped, and how many of M machines each
group gets shall make the utilisation largest. With w_j the COMP of an iteration on one machine, n_j
its COMM, W and N their sums over a group S of m machines::

    (4.1, 4.2)  T(S, m) = max(W / m, N, max over j in S of w_j / m + n_j)
    (4.3, 4.4)  value of the group = (a W + (1 - a) m N) / T - e m |S|
                utilisation of the cluster = sum of values / M

a is what CPU counts; e is so small that it decides between equals: fewer jobs that share a machine
are better. Every machine is in a group, which loses nothing but e: as m grows T does not, so
neither W / T nor m N / T falls.

*Source.* Harmony (dissertation 2020), 4.3.2, (4.1) to (4.4). ``warren.cost.job_groups`` has the
same closed forms, group by group, and says how the vector U of (4.4) became one number.

*Symbols.* j: axis J (jobs); g: axis G (groups); S is a set of jobs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from warren.solve.common.arrays import FloatArray, IntArray

NOT_RUN: Final = -1
"""The group of a job that does not run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobGroupingProblem:
    """The jobs, the number of equal machines, and what counts how much.

    ``comp_machine_s_J`` (J,): COMP (s) of an iteration on one machine, above 0. ``net_s_J`` (J,):
    its COMM (s) on any number of machines, at least 0. ``cpu_weight``: a; ``job_weight``: e.
    ``all_run``: each job must be in a group, where none can be made to wait.

    Raises
    ------
    ValueError
        If there is no job or no machine, a time is not allowed, or a weight is not within 0 and 1.
    """

    comp_machine_s_J: FloatArray
    net_s_J: FloatArray
    machines: int
    cpu_weight: float = 2 / 3
    job_weight: float = 1e-9
    all_run: bool = False

    def __post_init__(self) -> None:
        if self.comp_machine_s_J.shape != self.net_s_J.shape or self.net_s_J.ndim != 1:
            raise ValueError("the columns of the jobs are not of one length")
        if not len(self.net_s_J) or self.machines < 1:
            raise ValueError("there is no job or no machine")
        times = np.concatenate([self.comp_machine_s_J, self.net_s_J])
        if not (np.isfinite(times).all() and (self.comp_machine_s_J > 0).all()):
            raise ValueError("a time is not finite, or a COMP is not above 0")
        if not (self.net_s_J >= 0).all():
            raise ValueError("a COMM is negative")
        if not (0 <= self.cpu_weight <= 1 and 0 <= self.job_weight <= 1):
            raise ValueError("a weight is not within 0 and 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobGrouping:
    """An answer: the group of each job (J,), ``NOT_RUN`` for none, and machines by group (G,).

    Groups are numbered in the order of their first jobs. ``cpu``, ``net``: (4.4) in its two parts;
    ``utilization``: both as one number; ``value``: that less what jobs on a machine cost.
    """

    group_J: IntArray
    machine_G: IntArray
    cpu: float
    net: float
    utilization: float
    value: float


def grouping_of(problem: JobGroupingProblem, group_J: IntArray, machine_G: IntArray) -> JobGrouping:
    """Make the answer of some groups, numbered in any way; a group without jobs is left out.

    Raises ValueError if a group with jobs has no machine, or all have more than there are.
    """
    there_G, first_G = np.unique(group_J[group_J != NOT_RUN], return_index=True)
    there_G = there_G[np.argsort(first_G)]
    number_G = np.full(len(machine_G) + 1, NOT_RUN, np.int64)
    number_G[there_G] = np.arange(len(there_G))
    # The last entry stands for jobs that do not run: their group is -1.
    group_J, machine_G = number_G[group_J], np.asarray(machine_G, np.int64)[there_G]
    if (machine_G < 1).any() or machine_G.sum() > problem.machines:
        raise ValueError("a group has no machine, or there are not so many machines")
    runs_J = group_J != NOT_RUN
    member_J, groups = group_J[runs_J], len(machine_G)
    comp_J = problem.comp_machine_s_J[runs_J] / machine_G[member_J]
    net_J = problem.net_s_J[runs_J]
    comp_G, net_G = sums(comp_J, member_J, groups), sums(net_J, member_J, groups)
    longest_G = np.zeros(groups)
    np.maximum.at(longest_G, member_J, comp_J + net_J)
    time_G = np.maximum(np.maximum(comp_G, net_G), longest_G)
    cpu = float((machine_G * comp_G / time_G).sum()) / problem.machines
    net = float((machine_G * net_G / time_G).sum()) / problem.machines
    sharing = float((machine_G * np.bincount(member_J, minlength=groups)).sum()) / problem.machines
    used = problem.cpu_weight * cpu + (1 - problem.cpu_weight) * net
    return JobGrouping(
        group_J=group_J, machine_G=machine_G, cpu=cpu, net=net, utilization=used,
        value=used - problem.job_weight * sharing,
    )  # fmt: skip


def sums(value_J: FloatArray, group_J: IntArray, groups: int) -> FloatArray:
    """Compute the sum of each group's values; shape (G,)."""
    sum_G = np.zeros(groups)
    np.add.at(sum_G, group_J, value_J)
    return sum_G
