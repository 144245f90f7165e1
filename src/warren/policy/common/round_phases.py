"""When a job sends within a round, if it is alone on its links: it pulls first and pushes last."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warren.model.costs import FloatArray
from warren.model.units import NS_PER_S
from warren.model.view import View
from warren.policy.common.job_traffic import JobTraffic
from warren.policy.common.link_loads import PhaseLoads, phase_loads_s


class RoundPhases(NamedTuple):
    """A round alone: it pulls, computes for ``comp_s``, and pushes. A ring only pushes."""

    loads: PhaseLoads
    comp_s: float

    @property
    def load_s_L(self) -> FloatArray:
        """Return the seconds that a round keeps each link busy."""
        return self.loads.pull_s_L + self.loads.push_s_L

    @property
    def length_s(self) -> float:
        """Return how long it takes: each phase as long as its busiest link."""
        return self.comp_s + float(self.loads.pull_s_L.max() + self.loads.push_s_L.max())

    def demand_Ln(self, length_s: float, period_s: float, slices: int) -> FloatArray:
        """Return the part of each link that is asked for in each slice of a period.

        The round takes ``length_s`` of it, from its beginning, and pushes at its end. A link that
        is less busy than the busiest of a phase is asked for a part, all the time.
        """
        edges = np.linspace(0.0, period_s, slices + 1)
        demand_Ln = np.zeros((len(self.loads.pull_s_L), slices))
        pull_s, push_s = float(self.loads.pull_s_L.max()), float(self.loads.push_s_L.max())
        for load_s_L, begin_s, end_s in (
            (self.loads.pull_s_L, 0.0, pull_s),
            (self.loads.push_s_L, length_s - push_s, length_s),
        ):
            if end_s > begin_s:
                covered_s = np.minimum(edges[1:], end_s) - np.maximum(edges[:-1], begin_s)
                part_n = np.maximum(0.0, covered_s) / (period_s / slices)
                demand_Ln += np.outer(load_s_L / (end_s - begin_s), part_n)
        return demand_Ln


def round_phases(view: View, traffic: JobTraffic, job: int) -> RoundPhases:
    """Return a job's round by its costs: the device that computes longest counts."""
    ran = traffic.tasks[job]
    each = int(view.scale_J[job]) / sum(ran.values())
    # A device has whole tasks in a round, and tasks may have moved between devices.
    comp_ns = max(
        max(1.0, tasks * each) * int(view.costs.comp_ns_JT[job, view.type_D[device]])
        for device, tasks in ran.items()
    )
    return RoundPhases(phase_loads_s(view, traffic, job), comp_ns / NS_PER_S)
