"""Two jobs on one link, whose order is set at one time and reversed at another: the policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from warren.model.decision import Assignment, Decision, Question
from warren.model.events import Event, JobArrived, RolledBack, Woken
from warren.model.units import NS_PER_S
from warren.model.view import View

EQUAL_S: Final = 4.0
"""So long the classes of the jobs are equal."""
ORDERED_S: Final = 5.0
"""So long each is before the other."""
ORDERS: Final[tuple[Mapping[int, int], ...]] = ({0: 1, 1: 2}, {1: 3, 0: 4})
"""Class by job, after each change; no class is used twice, so that links tell who sends when."""
CHANGES_S: Final = tuple(EQUAL_S + ORDERED_S * at for at in range(len(ORDERS) + 1))
"""When the orders begin, and when both jobs are to be unequal no longer for what is measured."""
FIRST_DEVICE: Final = 1
"""Device 0 is of the host that has the servers; the jobs are on those that follow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoOnOneLink:
    """Gives each job a device for good, and changes their classes at set times."""

    name: ClassVar[str] = "two-on-one-link"
    source: ClassVar[str] = "an experiment"
    offline: ClassVar[bool] = False
    needs_rounds: ClassVar[bool] = True
    answers: ClassVar[frozenset[Question]] = frozenset({Question.PLACE, Question.FLOW})
    triggers: ClassVar[frozenset[type[Event]]] = frozenset({JobArrived, RolledBack, Woken})

    def initial(self, view: View) -> int:
        """The memory: how many orders have been set."""
        return 0

    def decide(self, view: View, memory: int) -> tuple[Decision, int]:
        """Assign all of a job when it comes, or comes back; set the order that is due."""
        back = [one.job for one in view.changes if isinstance(one, JobArrived | RolledBack)]
        assign = tuple(
            Assignment(
                FIRST_DEVICE + job,
                job,
                int(view.round_J[job]),
                int(view.rounds_J[job] - view.round_J[job]),
                tuple(range(int(view.scale_J[job]))),
            )
            for job in back
        )
        due = memory < len(ORDERS) and view.now_ns >= CHANGES_S[memory] * NS_PER_S
        there = [] if not due else (view.arrived_J & ~view.done_J).nonzero()[0].tolist()
        classes = {job: ORDERS[memory][job] for job in there}
        memory += due
        wake_ns = round(CHANGES_S[memory] * NS_PER_S) if memory < len(ORDERS) else None
        return Decision(assign=assign, classes=classes, wake_ns=wake_ns), memory

    def explain(self, view: View, memory: int, job: int) -> str:
        """One sentence: why this job has its class."""
        return f"{memory} of {len(ORDERS)} orders have been set"
