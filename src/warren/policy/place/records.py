"""How long jobs ran that have ended, by what a later job may have alike with them.

Similar is who has the same name (``warren.model.past.stem``), one's own jobs before others',
else who is of the same user; after V-A of HLAS (TCC'24), and coarser than the kinds of ``gittins``,
which look at the code first. Where a trace names all jobs alike, this is the same user. Jobs that
ended before the run count, and those that end in it; of each kind the latest ``MOST``.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TypeAlias

from warren.model.events import RoundsDone
from warren.model.job import Job
from warren.model.past import Past, stem
from warren.model.view import View
from warren.policy.place.kinds import MOST
from warren.policy.place.notes import Notes

Kind: TypeAlias = tuple[str, ...]
"""("name", its stem, the user), ("name", its stem) or ("user", the user)."""


@dataclass(frozen=True, slots=True)
class Records:
    """``rounds_of``: of ended jobs of a kind, the latest last."""

    rounds_of: Notes[Kind, tuple[int, ...]] = field(default_factory=Notes)

    def similar(self, job: Job) -> tuple[str, tuple[int, ...]]:
        """What makes jobs similar to this one, "name" or "user", and their rounds; else nothing."""
        for kind in _kinds(job):
            if found := self.rounds_of.get(kind):
                return kind[0], found
        return "", ()

    def learned(self, view: View) -> Records:
        """With the jobs that have ended since the last decision."""
        known = self.rounds_of
        for event in view.changes:
            if isinstance(event, RoundsDone) and event.finished:
                for kind in _kinds(view.jobs[event.job]):
                    latest = (known.get(kind) or ())[1 - MOST :]
                    known = known.noted(kind, (*latest, event.round + event.rounds))
        return self if known is self.rounds_of else Records(known)


def records_of(past: Past) -> Records:
    """The records that a run begins with."""
    rounds_of = defaultdict[Kind, list[int]](list)
    for job in past.jobs:
        for kind in _kinds(job):
            rounds_of[kind].append(job.rounds or 0)
    return Records(Notes({kind: tuple(all_[-MOST:]) for kind, all_ in rounds_of.items()}))


def _kinds(job: Job) -> tuple[Kind, ...]:
    """The closest first. Who has no user is not of the same user as others without."""
    by_name = "name", stem(job.name)
    return ((*by_name, job.user), by_name, ("user", job.user)) if job.user else (by_name,)
