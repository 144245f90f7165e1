"""Jobs that share machines, one COMP and one COMM step at a time: iteration time and utilization.

*Source.* Harmony (dissertation 2020), 4.3.2: (4.1) to (4.4). Symbols, paper and here, in seconds::

    m_g              machines               the degree of parallelism (DoP) of a group
    c_g              machines               where a job was measured
    T_cpu_j          comp_s_J               COMP of one iteration of a job, at the group's DoP
    T_net_j          net_s_J                COMM of one iteration, pull and push; see ``net_s``
    T_j_itr          comp_s_J + net_s_J     an iteration of a job alone
    T_g_itr          group_iteration_s      a round of all jobs of a group
    U(g)             Utilization            of a group's machines
    U                cluster_utilization    of all machines

*One number.* U is a vector, and Algorithm 1 compares it (line 10). The paper says only that CPU
counts more than the network, and that of equals the grouping with fewer jobs a group is better.
Here, with a = ``CPU_WEIGHT``::

    a U_cpu + (1 - a) U_net - JOB_WEIGHT x (mean number of jobs that share a machine)

With a = 2/3 CPU counts twice. ``JOB_WEIGHT`` is so small that it decides between equals only; jobs
that share a machine are weighed by machines as in (4.4), so that the value is a sum over groups.

*Differs.*

- (4.4) divides by the machines of all groups. Machines that no group has count as idle here, else
  one job on one machine of a thousand would use the cluster fully. Algorithm 1 hands out all
  machines, and then both are one.
- (4.2) is a proportion: the constant is T_cpu c_g, the COMP of an iteration on one machine.
- (4.2) has equal machines; of unequal ones each round is timed with whole tasks
  (``warren.solve.shapes.task_rounds``).
- (4.1) has one COMM a job. If pulls and pushes queue as steps of their own, a group may take longer
  (``warren.solve.flows.queued_steps``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from warren.model.costs import FloatArray

CPU_WEIGHT: Final = 2 / 3
"""Weight of CPU utilization out of 1; the rest is the network's."""
JOB_WEIGHT: Final = 1e-9
"""Cost of each job that shares a machine: this decides between equals."""


class Utilization(NamedTuple):
    """The parts of the time in which CPU and network are busy, between 0 and 1: (4.3)."""

    cpu: float
    net: float

    def weighted(self, cpu_weight: float = CPU_WEIGHT) -> float:
        """Return one number for both, without the cost of jobs that share a machine."""
        return cpu_weight * self.cpu + (1 - cpu_weight) * self.net


def comp_machine_s_J(comp_s_J: FloatArray, machines_J: FloatArray) -> FloatArray:
    """Compute the constant of (4.2), the COMP (s) of an iteration on one machine, as measured.

    ``machines_J``: c_g, how many machines each job had when its ``comp_s_J`` was measured.
    """
    one_J: FloatArray = comp_s_J * machines_J
    return one_J


def comp_s_J(comp_machine_s_J: FloatArray, machines: int) -> FloatArray:
    """Eq. (4.2): return T_cpu (s) of each job on ``machines`` machines, at least one."""
    if machines < 1:
        raise ValueError("a group has one machine at least")
    return comp_machine_s_J / machines


def group_iteration_s(comp_s_J: FloatArray, net_s_J: FloatArray) -> float:
    """Eq. (4.1): return T_g_itr (s), in which each job of a group does one iteration.

    The longest of all COMP steps, all COMM steps, and one job's own COMP and COMM; 0 for no jobs.
    """
    alone_s_J = comp_s_J + net_s_J
    return max(float(comp_s_J.sum()), float(net_s_J.sum()), float(alone_s_J.max(initial=0.0)))


def utilization(comp_s_J: FloatArray, net_s_J: FloatArray) -> Utilization:
    """Eq. (4.3): return U(g), the busy parts of a group iteration; 0 where nothing takes time."""
    iteration_s = group_iteration_s(comp_s_J, net_s_J)
    if iteration_s == 0:
        return Utilization(0.0, 0.0)
    return Utilization(float(comp_s_J.sum()) / iteration_s, float(net_s_J.sum()) / iteration_s)


def cluster_utilization(
    groups: Sequence[tuple[int, Utilization]], machines: int | None = None
) -> Utilization:
    """Eq. (4.4): return U, the mean over machines.

    Parameters
    ----------
    groups
        The machines of each group, and U(g).
    machines
        Of the cluster; machines of no group are idle. None: only those of groups, as printed.
    """
    total = sum(count for count, _ in groups) if machines is None else machines
    if total == 0:
        return Utilization(0.0, 0.0)
    sums = np.array([(count * use.cpu, count * use.net) for count, use in groups])
    cpu, net = sums.reshape(-1, 2).sum(axis=0).tolist()
    return Utilization(cpu / total, net / total)
