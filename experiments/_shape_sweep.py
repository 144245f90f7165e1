"""A shape policy that goes through stated shapes, so many rounds in each: a grid in one run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from warren.model.decision import NOTHING, Decision, Question, Shape
from warren.model.events import Event, JobArrived, RoundsDone, ServersMoved
from warren.model.view import View


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """Give the only job each of ``shapes`` in turn, ``rounds`` rounds of it; it keeps the last one.

    ``shapes``: such as ``0123:45 012345:012345``: hosts that work and hosts that serve, by their
    places; each server holds in proportion to its link.
    """

    shapes: str
    rounds: int = 10

    name: ClassVar[str] = "sweep"
    source: ClassVar[str] = "none: a grid"
    offline: ClassVar[bool] = False
    needs_rounds: ClassVar[bool] = False
    answers: ClassVar[frozenset[Question]] = frozenset({Question.SHAPE})
    triggers: ClassVar[frozenset[type[Event]]] = frozenset({JobArrived, RoundsDone, ServersMoved})

    def initial(self, view: View) -> tuple[int, int]:
        """Return the place among the shapes, and the round after which the next one is due."""
        return 0, -1

    def decide(self, view: View, memory: tuple[int, int]) -> tuple[Decision, tuple[int, int]]:
        """Return the next shape, when its turn has come."""
        (place, last), told = memory, self.shapes.split()
        for event in view.changes:
            if isinstance(event, JobArrived):
                return self._answer(view, event.job, told[0]), (1, self.rounds)
            if isinstance(event, ServersMoved):
                last = event.round + self.rounds
            if isinstance(event, RoundsDone) and 0 <= last <= event.round and place < len(told):
                return self._answer(view, event.job, told[place]), (place + 1, -1)
        return NOTHING, (place, last)

    def explain(self, view: View, memory: tuple[int, int], job: int) -> str:
        """Say in one sentence why the job has its shape."""
        return f"it is shape {memory[0]} of {self.shapes}"

    def _answer(self, view: View, job: int, text: str) -> Decision:
        works, serves = hosts_of(text)
        rates = [view.cluster.link_bytes_per_s[host] for host in serves]
        assert view.costs.model_bytes_J is not None, "the profile states the model"
        model_bytes = view.costs.model_bytes_J.item(job)
        sizes = tuple(round(model_bytes * rate / sum(rates)) for rate in rates)
        return Decision(shapes={job: Shape(works, serves, sizes)})


def hosts_of(text: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the hosts that work and those that serve, of a shape's text."""
    works, _, serves = text.partition(":")
    return tuple(map(int, works)), tuple(map(int, serves))
