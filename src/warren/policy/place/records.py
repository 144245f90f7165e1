"""How many rounds jobs ran that have ended, by what a later job may have alike with them.

Jobs that ended before the run count, and those that end in it; of each kind the latest ``MOST``.
What makes jobs alike is another's matter: ``kinds``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from warren.model.events import RoundsDone
from warren.model.job import Job
from warren.model.past import Past
from warren.model.view import View
from warren.policy.place.notes import Notes

Kind: TypeAlias = tuple[str, ...]
KindsOf: TypeAlias = Callable[[Job], tuple[Kind, ...]]
"""The kinds of a job, the closest first."""
MOST: Final = 256
"""Ended jobs of a kind that are remembered, the latest."""


@dataclass(frozen=True, slots=True)
class Records:
    """``rounds_of``: of ended jobs of a kind, the latest last."""

    kinds_of: KindsOf
    rounds_of: Notes[Kind, tuple[int, ...]] = field(default_factory=Notes)

    def of(self, kind: Kind) -> tuple[int, ...]:
        """The rounds of ended jobs of a kind."""
        return self.rounds_of.get(kind) or ()

    def learned(self, view: View) -> Records:
        """With the jobs that have ended since the last decision."""
        known = self.rounds_of
        for event in view.changes:
            if isinstance(event, RoundsDone) and event.finished:
                for kind in self.kinds_of(view.jobs[event.job]):
                    latest = (known.get(kind) or ())[1 - MOST :]
                    known = known.noted(kind, (*latest, event.round + event.rounds))
        return self if known is self.rounds_of else Records(self.kinds_of, known)


def records_of(past: Past, kinds_of: KindsOf) -> Records:
    """The records that a run begins with."""
    rounds_of = defaultdict[Kind, list[int]](list)
    for job in past.jobs:
        assert job.rounds is not None, "a job of the past states its rounds"
        for kind in kinds_of(job):
            rounds_of[kind].append(job.rounds)
    known = {kind: tuple(all_[-MOST:]) for kind, all_ in rounds_of.items()}
    return Records(kinds_of, Notes(known))
