"""The rounds of jobs as coflows, bottleneck first: Sincronia.

What
    A round of a job is a coflow with a load on each link of its hosts. All jobs that send are
    ordered by BSSI when one comes or goes, and have classes in that order.
Source
    Sincronia (SIGCOMM'18), Algorithm 1 and 5 (an order, and priorities of the network for the
    rest), as JPAS (JNCA'20) 5.1 runs it; ``warren.solve.coflows.bssi``.
Differs
    Coflows here come again each round, and their number is unknown, so a coflow is one round and
    all weigh the same. Loads are those of a round: half its bytes leave the tasks and enter the
    servers, half go back; a ring's are spread over its hosts. Sincronia orders by the remainder of
    each coflow at each arrival; here a coflow that has begun counts as a whole one. At most seven
    classes (``warren.solve.flows.class_order``); Sincronia puts the rest into the last, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from warren.model.decision import Decision, Question
from warren.model.events import Event
from warren.model.view import View
from warren.policy.common.job_traffic import TOLD, JobTraffic
from warren.policy.common.link_loads import link_loads_s
from warren.policy.flow.changed import MOST, UNKNOWN, OrderMemory, checked_classes, reordered
from warren.solve.coflows.bssi import bssi_order


@dataclass(frozen=True, slots=True, kw_only=True)
class Sincronia:
    """Order rounds as coflows, by BSSI, in ``classes`` classes."""

    classes: int = MOST

    name: ClassVar[str] = "sincronia"
    source: ClassVar[str] = "Sincronia (SIGCOMM'18) Algorithm 1"
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
            each = [link_loads_s(view, traffic, job) for job in known]
            load = np.array(each) if each else np.zeros((0, 0))
            return [known[one] for one in bssi_order(load, np.ones(len(known)))]

        return reordered(view, memory, ranked, self.classes)

    def explain(self, view: View, memory: OrderMemory, job: int) -> str:
        """Say in one sentence why the job has its class."""
        if job not in memory.order:
            return UNKNOWN
        return f"{memory.order.index(job)} of {len(memory.order)} rounds as coflows go before it"
