"""One job after the other, whole, on the first device that it fits: the plain engine's order.

What
    The plain engine is the oracle for the result of a job; it schedules nothing. This policy hands
    it every job once, in order of arrival; of unknown length, until it ends.
Source
    None; not a scheduler to compare with.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from warren.model.decision import ENDLESS, NOTHING, Assignment, Decision
from warren.model.events import Event, JobArrived, JobFailed, RolledBack, RoundsDone
from warren.model.view import View


@dataclass(frozen=True, slots=True, kw_only=True)
class Serial:
    """Hand whole jobs to the first device that they fit, in order of arrival, one at a time."""

    name: ClassVar[str] = "plain"
    source: ClassVar[str] = "none: the oracle engine's order"
    offline: ClassVar[bool] = False
    needs_rounds: ClassVar[bool] = True
    triggers: ClassVar[frozenset[type[Event]]] = frozenset(
        {JobArrived, RoundsDone, RolledBack, JobFailed}
    )

    def initial(self, view: View) -> None:
        """Return None: there is nothing to remember."""

    def decide(self, view: View, memory: None) -> tuple[Decision, None]:
        """Assign all that is left of the first job that has some, if all devices are idle."""
        waiting = np.flatnonzero(view.open_J)
        if view.queued_D.any() or not len(waiting):
            return NOTHING, None
        job = int(waiting[0])
        first, scale = int(view.next_round_J[job]), int(view.scale_J[job])
        # Of unknown length: until its stop rule ends it.
        known = int(view.rounds_J[job])
        rounds = known - first if known >= 0 else ENDLESS
        device = int(np.argmax(view.costs.fits_JT[job, view.type_D]))
        return Decision(assign=(Assignment(device, job, first, rounds, tuple(range(scale))),)), None

    def explain(self, view: View, memory: None, job: int) -> str:
        """Say in one sentence why the job is where it is; the same of every job."""
        return "jobs run one after the other in order of arrival"
