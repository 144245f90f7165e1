"""A number that no utilization of a job grouping is above.

With w_j, n_j, W, N, T, a as in ``problem``, b = 1 - a, r_j = w_j / n_j (the machines on which a job
computes as long as it sends; infinite for n_j = 0) and x = W / (m T), y = N / T the two parts of
(4.3) of a group of m machines, value / M is at most each of:

*1.* x, y <= 1, and all groups have M machines.

*Few jobs for the machines.* A group of two jobs or more has x m = W / T <= W / N <= the largest
r_j of its jobs, a mean being no larger than the largest. So it is worth a m x + b m y <= a r + b m,
with an r of one of its jobs and another job beside it. A job alone has T = w / m + n, so x + y = 1
and a m x + b m y = b m + (a - b) m x; for a > b that is at most b m + (a - b) r, since m x <= r,
else at most b m. Summed over k groups of several jobs and s jobs alone, 2 k + s <= J::

    value <= b M + a (the k largest r) + max(0, a - b) (the next s)

The jobs whose r count are different ones, so no sum of the kind is larger. Every k is tried.

*Few machines for the jobs.* n_j = w_j / r_j, so N <= W / r with r the least of all jobs, and
y = N / T <= W / (r T) = x m / r <= m / r <= M / r. So a x + b y <= a + b min(1, M / r).

*One job* has all machines, which is computed.

*Source.* Ours; the paper has none.
"""

from __future__ import annotations

import numpy as np

from warren.solve.common.arrays import FloatArray
from warren.solve.job_groups.problem import JobGroupingProblem


def most_utilization(problem: JobGroupingProblem) -> float:
    """Compute an upper bound of the utilization of every grouping; at most 1."""
    cpu, net = problem.cpu_weight, 1 - problem.cpu_weight
    comp_J, net_J, machines = problem.comp_machine_s_J, problem.net_s_J, problem.machines
    if len(net_J) == 1:
        busy = cpu * comp_J[0] + net * machines * net_J[0]
        return float(busy / (comp_J[0] + machines * net_J[0]))
    ratio_J = np.divide(comp_J, net_J, out=np.full(len(net_J), np.inf), where=net_J > 0)
    few_machines = cpu + net * min(1.0, machines / float(ratio_J.min()))
    few_jobs = net + _most_comp(ratio_J, cpu, max(0.0, cpu - net)) / machines
    return min(1.0, few_machines, few_jobs)


def _most_comp(ratio_J: FloatArray, paired: float, alone: float) -> float:
    """Return the most of ``paired`` (the k largest) + ``alone`` (the next J - 2 k), over k."""
    sum_K = np.concatenate([[0.0], np.cumsum(np.sort(ratio_J)[::-1])])
    jobs = len(ratio_J)
    if not np.isfinite(sum_K[-1]):
        return np.inf
    pairs_K = np.arange(jobs // 2 + 1)
    most_K = paired * sum_K[pairs_K] + alone * (sum_K[jobs - pairs_K] - sum_K[pairs_K])
    return float(most_K.max())
