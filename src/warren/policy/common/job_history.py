"""How many rounds jobs ran that have ended, by what a later job may have alike with them.

Jobs that ended before the run count, and those that end in it; of each kind the latest ``MOST``.
What makes jobs alike is another's matter: ``kinds``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from warren.model.events import RoundsDone
from warren.model.job import Job
from warren.model.past import Past
from warren.model.view import View
from warren.policy.common.persistent_map import Notes

Kind: TypeAlias = tuple[str, ...]
KindsOf: TypeAlias = Callable[[Job], tuple[Kind, ...]]
"""The kinds of a job, the closest first."""
MOST: Final = 256
"""Ended jobs of a kind that are remembered, the latest."""


class Ended(NamedTuple):
    """``rounds`` of ended jobs of a kind, the latest last; ``sizes``: the same, ascending."""

    rounds: tuple[int, ...]
    sizes: npt.NDArray[np.float64]


def ended(rounds: tuple[int, ...]) -> Ended:
    """These rounds, and in order of size."""
    return Ended(rounds, np.array(sorted(rounds), np.float64))


NOBODY: Final = ended(())


@dataclass(frozen=True, slots=True)
class Records:
    """What is known of ended jobs of each kind."""

    kinds_of: KindsOf
    known: Notes[Kind, Ended] = field(default_factory=Notes)

    def of(self, kind: Kind) -> Ended:
        """The ended jobs of a kind."""
        return self.known.get(kind) or NOBODY

    def learned(self, view: View) -> Records:
        """With the jobs that have ended since the last decision."""
        known = self.known
        for event in view.changes:
            if isinstance(event, RoundsDone) and event.finished:
                for kind in self.kinds_of(view.jobs[event.job]):
                    latest = (known.get(kind) or NOBODY).rounds[1 - MOST :]
                    known = known.noted(kind, ended((*latest, event.round + event.rounds)))
        return self if known is self.known else Records(self.kinds_of, known)


def records_of(past: Past, kinds_of: KindsOf) -> Records:
    """The records that a run begins with."""
    rounds_of = defaultdict[Kind, list[int]](list)
    for job in past.jobs:
        assert job.rounds is not None, "a job of the past states its rounds"
        for kind in kinds_of(job):
            rounds_of[kind].append(job.rounds)
    known = {kind: ended(tuple(all_[-MOST:])) for kind, all_ in rounds_of.items()}
    return Records(kinds_of, Notes(known))
