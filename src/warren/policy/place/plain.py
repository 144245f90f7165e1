"""One job after the other, whole, on the first device: the order of ``engine: plain``.

What
    The plain engine is the oracle of what a job computes; it schedules nothing. This policy
    hands it every job once, in order of arrival.
Source
    None; not a scheduler to compare with.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from warren.model.decision import NOTHING, Decision
from warren.model.events import Event, JobArrived, JobFailed, RoundsDone
from warren.model.plan import Assignment
from warren.model.view import View


@dataclass(frozen=True, slots=True, kw_only=True)
class Plain:
    """See the module's text. The memory is the next job to hand out."""

    name: ClassVar[str] = "plain"
    source: ClassVar[str] = "none: the oracle engine's order"
    offline: ClassVar[bool] = False
    needs_rounds: ClassVar[bool] = True
    triggers: ClassVar[frozenset[type[Event]]] = frozenset({JobArrived, RoundsDone, JobFailed})

    def initial(self, view: View) -> int:
        """Start with the first job."""
        return 0

    def decide(self, view: View, memory: int) -> tuple[Decision, int]:
        """The next job that has arrived, if the device is idle."""
        while memory < len(view.jobs) and view.done_J[memory]:
            memory += 1
        if view.queued_D[0] or memory == len(view.jobs) or not view.open_J[memory]:
            return NOTHING, memory
        job = view.jobs[memory]
        whole = Assignment(0, memory, 0, int(view.rounds_J[memory]), tuple(range(job.scale)))
        return Decision(assign=(whole,)), memory + 1

    def explain(self, view: View, memory: int, job: int) -> str:
        """One sentence."""
        return "jobs run one after the other in order of arrival"
