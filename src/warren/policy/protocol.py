"""The seam every policy stands behind: view in, decision out, memory passed by value."""

from __future__ import annotations

from typing import Any, ClassVar, Generic, Protocol, TypeVar

from warren.model.decision import Decision
from warren.model.events import Event
from warren.model.view import View

M = TypeVar("M")


class PlacePolicy(Protocol, Generic[M]):
    """Which task runs where and when?

    A class with four capabilities as data and three pure methods. ``decide`` may not read a
    clock, draw from a global generator or change the view or ``memory`` (it returns the new
    memory), so replay and what-if can carry it. A memory belongs to one list of jobs and their
    costs: what follows from these alone it may keep by a job's index, as it is found.

    ``offline`` policies know all arrivals in advance and are asked once before time starts.
    ``needs_rounds`` policies refuse jobs whose number of rounds is unknown. ``triggers`` are the
    event types after which the policy wants to be asked; a ``RolledBack`` always is one.
    """

    name: ClassVar[str]
    source: ClassVar[str]
    offline: ClassVar[bool]
    needs_rounds: ClassVar[bool]
    triggers: ClassVar[frozenset[type[Event]]]

    def initial(self, view: View) -> M:
        """The memory before the first decision."""
        ...

    def decide(self, view: View, memory: M) -> tuple[Decision, M]:
        """Answer one view. Assignments take effect in the order given."""
        ...

    def explain(self, view: View, memory: M, job: int) -> str:
        """One sentence: why this job is where it is."""
        ...


AnyPolicy = PlacePolicy[Any]
