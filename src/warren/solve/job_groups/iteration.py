"""The iteration of one group by Harmony's model, its three terms, and which of them limits it.

With m machines, all of the group's, or their code where there are kinds::

    (4.1)  T = max(sum_j COMP_j(m), sum_j COMM_j(m), max_j alone_j(m))

*Source.* Harmony (dissertation 2020), 4.3.2; ``problem`` has the terms.

*Symbols.* j: axis J (the jobs of the group).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from warren.solve.common.arrays import FloatArray
from warren.solve.job_groups.problem import JobGroupingProblem, iterations_s_G

Limit = Literal["cpu", "network", "job"]
"""The largest term of (4.1); of equal ones the first."""
_EQUAL: Final = 1 - 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupIteration:
    """COMP, COMM and the iteration alone of each job of a group (J,), in seconds.

    ``comp_s``: COMP of all jobs, of unequal machines on the type of devices on which it is longest.
    """

    comp_s_J: FloatArray
    comm_s_J: FloatArray
    alone_s_J: FloatArray
    comp_s: float

    @property
    def comm_s(self) -> float:
        """Return the COMM of all jobs."""
        return float(self.comm_s_J.sum())

    @property
    def iteration_s(self) -> float:
        """Return T."""
        return max(self.comp_s, self.comm_s, float(self.alone_s_J.max()))

    @property
    def limit(self) -> Limit:
        """Return the resource that limits the group."""
        if self.comp_s >= self.iteration_s * _EQUAL:
            return "cpu"
        return "network" if self.comm_s >= self.iteration_s * _EQUAL else "job"


def iteration_of(problem: JobGroupingProblem, machines: int) -> GroupIteration:
    """Compute the iteration of all jobs of a problem as one group on ``machines`` machines."""
    jobs = len(problem.net_s_J)
    comp_G, _, _ = iterations_s_G(problem, np.zeros(jobs, np.int64), np.array([machines]))
    return GroupIteration(
        comp_s_J=problem.comp_s_J(machines),
        comm_s_J=problem.comm_s_J(machines),
        alone_s_J=problem.alone_s_J(machines),
        comp_s=float(comp_G[0]),
    )
