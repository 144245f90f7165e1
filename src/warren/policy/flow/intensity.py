"""GPU seconds per byte: the job whose computation waits most for each byte sends first.

What
    Jobs are ordered by the ratio of two times of a round: the computation of all their devices over
    the transfer of the round's bytes. The greatest comes first, so that links keep most devices
    busy.
Source
    Crux (SIGCOMM'24), 4.1 and 4.2: GPU intensity, W_j over t_j.
Differs
    W_j is counted in seconds of devices (the profile's), not in operations, and t_j is the busiest
    link's time. Crux also chooses paths, corrects intensities for overlap and iteration length, and
    compresses priorities by a cut of the graph of jobs that share links. There is one path here,
    and classes are those of ``warren.solve.flows.class_order``; the correction is left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from warren.model.decision import Decision, Question
from warren.model.events import Event
from warren.model.units import NS_PER_S
from warren.model.view import View
from warren.policy.common.job_traffic import TOLD, JobTraffic
from warren.policy.common.link_loads import link_loads_s
from warren.policy.flow.changed import MOST, UNKNOWN, OrderMemory, checked_classes, reordered


@dataclass(frozen=True, slots=True, kw_only=True)
class Intensity:
    """Order jobs by GPU seconds over link seconds of a round, in ``classes`` classes."""

    classes: int = MOST

    name: ClassVar[str] = "intensity"
    source: ClassVar[str] = "Crux (SIGCOMM'24) 4"
    offline: ClassVar[bool] = False
    needs_rounds: ClassVar[bool] = False
    answers: ClassVar[frozenset[Question]] = frozenset({Question.FLOW})
    triggers: ClassVar[frozenset[type[Event]]] = TOLD

    def __post_init__(self) -> None:
        """Refuse a number of classes that no port has."""
        checked_classes(self.classes)

    def initial(self, view: View) -> OrderMemory:
        """Return a memory of nothing."""
        return OrderMemory()

    def decide(self, view: View, memory: OrderMemory) -> tuple[Decision, OrderMemory]:
        """Order the jobs again if one has come or gone."""

        def ranked(traffic: JobTraffic, known: list[int]) -> list[int]:
            return sorted(known, key=lambda job: (-intensity(view, traffic, job), job))

        return reordered(view, memory, ranked, self.classes)

    def explain(self, view: View, memory: OrderMemory, job: int) -> str:
        """Say in one sentence why the job has its class."""
        if job not in memory.traffic.tasks:
            return UNKNOWN
        found = intensity(view, memory.traffic, job)
        return f"its devices compute {found:.3g} s for each second of its busiest link"


def intensity(view: View, traffic: JobTraffic, job: int) -> float:
    """Compute W_j / t_j: device seconds of a round over the seconds of its busiest link.

    Infinite for a job that sends nothing.
    """
    ran = traffic.tasks[job]
    each_ns = [tasks * view.costs.comp_ns_JT[job, view.type_D[one]] for one, tasks in ran.items()]
    work_s = float(np.sum(each_ns)) / sum(ran.values()) * int(view.scale_J[job]) / NS_PER_S
    link_s = float(link_loads_s(view, traffic, job).max())
    return work_s / link_s if link_s > 0 else float("inf")
