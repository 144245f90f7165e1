"""Rounds of ended jobs, by the properties that a later job may share with them.

Jobs that ended before the run count, and those that end in it; of each kind the latest ``MOST``.

*By code* (``gittins``): the same code (its model, else its app's file and class, wherever the file
lies) of the same user under the same name, but for numbers at its ends (``model.past.stem``); that
of the same user; that of anybody; all jobs. The first kind with ``ENOUGH`` ended jobs counts. Of
one code any job that has ended says more than many of others.

*By name* (``hlas-p``, after V-A of HLAS, TCC'24): jobs of the same name, the user's own before
others', else jobs of the same user. If a trace gives all jobs the same name, the same user's jobs
count.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from posixpath import basename
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from immutables import Map

from warren.model.events import RoundsDone
from warren.model.job import Job
from warren.model.past import Past, stem
from warren.model.view import View

Kind: TypeAlias = tuple[str, ...]
KindsOf: TypeAlias = Callable[[Job], tuple[Kind, ...]]
"""The kinds of a job, the closest first."""
MOST: Final = 256
"""Ended jobs of a kind that are remembered, the latest."""


class EndedRounds(NamedTuple):
    """The ``rounds`` of ended jobs of a kind, the latest last; ``sizes``: the same, ascending."""

    rounds: tuple[int, ...]
    sizes: npt.NDArray[np.float64]


def ended(rounds: tuple[int, ...]) -> EndedRounds:
    """Make the record of these rounds, given with the latest last."""
    return EndedRounds(rounds, np.array(sorted(rounds), np.float64))


NOBODY: Final = ended(())


@dataclass(frozen=True, slots=True)
class JobHistory:
    """The records of ended jobs of each kind, as a value for a policy's memory."""

    kinds_of: KindsOf
    known: Map[Kind, EndedRounds] = field(default_factory=Map)

    def of(self, kind: Kind) -> EndedRounds:
        """Return the ended jobs of a kind; empty if there are none."""
        return self.known.get(kind) or NOBODY

    def learned(self, view: View) -> JobHistory:
        """Return this history with the jobs that have ended since the last decision."""
        known = self.known
        for event in view.changes:
            if isinstance(event, RoundsDone) and event.finished:
                # Its rounds count for each of its kinds, from the closest to that of all jobs.
                for kind in self.kinds_of(view.jobs[event.job]):
                    # The MOST - 1 latest, so that with the new one there are MOST at most.
                    latest = (known.get(kind) or NOBODY).rounds[1 - MOST :]
                    known = known.set(kind, ended((*latest, event.round + event.rounds)))
        return self if known is self.known else JobHistory(self.kinds_of, known)


def records_of(past: Past, kinds_of: KindsOf) -> JobHistory:
    """Return the history that a run begins with: the jobs that ended before it."""
    rounds_of = defaultdict[Kind, list[int]](list)
    for job in past.jobs:
        assert job.rounds is not None, "a job of the past states its rounds"
        for kind in kinds_of(job):
            rounds_of[kind].append(job.rounds)
    known = {kind: ended(tuple(all_[-MOST:])) for kind, all_ in rounds_of.items()}
    return JobHistory(kinds_of, Map(known))


ENOUGH: Final = 5
"""Ended jobs that tell enough of a user's, or a name's, not to look at others."""
_OF_CODE: Final = 1
"""Length of the kind of all jobs of one code, for which one ended job is enough."""


def kinds_by_code(job: Job) -> tuple[Kind, ...]:
    """Return the kinds of a job by its code: (code, user, stem) and its beginnings.

    The closest comes first; the last is the empty kind, that of all jobs.
    """
    whole = (job.model or basename(job.app or ""), job.user, stem(job.name))
    return tuple(whole[:length] for length in range(len(whole), -1, -1))


def like(records: JobHistory, job: Job) -> EndedRounds:
    """Return the ended jobs that are most like this one; empty if none has ended.

    ``records`` are by code (``kinds_by_code``).
    """
    # From the closest kind on, the first of which enough jobs have ended.
    for kind in records.kinds_of(job):
        found = records.of(kind)
        if len(found.rounds) >= (ENOUGH if len(kind) > _OF_CODE else 1):
            return found
    return NOBODY


def kinds_by_name(job: Job) -> tuple[Kind, ...]:
    """Return the kinds of a job by its name, the closest first.

    They are ("name", its stem, the user), ("name", its stem) and ("user", the user). Jobs that
    state no user are not of the same user.
    """
    # HLAS V-A: the same name, one's own jobs before those of others; else the same user.
    by_name = "name", stem(job.name)
    return ((*by_name, job.user), by_name, ("user", job.user)) if job.user else (by_name,)


def similar(records: JobHistory, job: Job) -> tuple[str, tuple[int, ...]]:
    """Return the property by which ended jobs are similar, "name" or "user", and their rounds.

    An empty text and no rounds where no ended job is similar. ``records`` are by name
    (``kinds_by_name``).
    """
    for kind in records.kinds_of(job):
        if found := records.of(kind).rounds:
            return kind[0], found
    return "", ()
