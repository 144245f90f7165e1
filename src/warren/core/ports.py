"""The two ports of the core: what carries commands out and brings events back.

The simulator and the live controller both implement ``Port``; the core cannot tell them apart.
"""

from __future__ import annotations

from typing import Protocol

from warren.model.events import AnyEvent
from warren.model.plan import Assignment, Plan
from warren.model.timeline import PlanOutcome


class Port(Protocol):
    """A world: virtual time or the real cluster."""

    def submit(self, assignments: tuple[Assignment, ...]) -> None:
        """Append to device queues, in order. Called only with checked assignments."""
        ...

    def wake_at(self, time_ns: int) -> None:
        """Ask for a ``Woken`` event at ``time_ns`` (or now, if that is past)."""
        ...

    def next_events(self) -> tuple[AnyEvent, ...]:
        """All events of the next instant, sorted by (time, rank, sequence); () when over.

        The port itself produces ``JobArrived``. Times never go back. It is over when no job
        that has arrived or will arrive can make progress without a further ``submit``.
        """
        ...

    def run_plan(self, plan: Plan) -> PlanOutcome | None:
        """Run a whole plan in compiled code; None where it must go through events (live)."""
        ...
