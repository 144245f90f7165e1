"""A flow policy in one file, as a template for your own: fewest rounds left go first.

    warren policies examples/policies/fewest_rounds_first.py:FewestRoundsFirst --question flow

A run that names it where nothing tells classes of bytes apart is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from warren.model.decision import NOTHING, Decision, Question
from warren.model.events import Event, JobArrived, RoundsDone
from warren.model.view import View


@dataclass(frozen=True, slots=True, kw_only=True)
class FewestRoundsFirst:
    """Jobs with few rounds left send first: classes 1 to ``levels``, by their order."""

    levels: int = 7

    name: ClassVar[str] = "fewest-rounds-first"
    source: ClassVar[str] = "an example"
    offline: ClassVar[bool] = False
    needs_rounds: ClassVar[bool] = True
    answers: ClassVar[frozenset[Question]] = frozenset({Question.FLOW})
    triggers: ClassVar[frozenset[type[Event]]] = frozenset({JobArrived, RoundsDone})

    def initial(self, view: View) -> None:
        """It remembers nothing."""

    def decide(self, view: View, memory: None) -> tuple[Decision, None]:
        """Give the first class to the job with the fewest rounds left, and so on."""
        there = (view.arrived_J & ~view.done_J).nonzero()[0].tolist()
        order = sorted(there, key=lambda job: int(view.rounds_J[job] - view.round_J[job]))
        wanted = {job: min(1 + at, self.levels) for at, job in enumerate(order)}
        changed = {job: kind for job, kind in wanted.items() if kind != view.class_J[job]}
        return (Decision(classes=changed) if changed else NOTHING), None

    def explain(self, view: View, memory: None, job: int) -> str:
        """One sentence: why this job has its class."""
        return f"{view.rounds_J[job] - view.round_J[job]} rounds left"
