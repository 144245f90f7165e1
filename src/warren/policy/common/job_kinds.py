"""Which jobs are alike, so that those that have ended tell something of the others.

*By code* (``gittins``): the same code (its model, else its app's file and class, wherever the file
lies) of the same user under the same name, but for numbers at its ends (``model.past.stem``); that
of the same user; that of anybody; all jobs. The first kind with ``ENOUGH`` ended jobs counts. Of
one code any job that has ended says more than many of others.

*By name* (``hlas-p``, after V-A of HLAS, TCC'24): who has the same name, one's own jobs before
others', else who is of the same user. Where a trace names all jobs alike, this is the same user.
"""

from __future__ import annotations

from posixpath import basename
from typing import Final

from warren.model.job import Job
from warren.model.past import stem
from warren.policy.common.job_history import NOBODY, Ended, Kind, Records

ENOUGH: Final = 5
"""Ended jobs that tell enough of a user's, or a name's, not to look at others."""
_OF_CODE: Final = 1


def kinds_by_code(job: Job) -> tuple[Kind, ...]:
    """Code, user and stem, or the first of them; the closest first."""
    whole = (job.model or basename(job.app or ""), job.user, stem(job.name))
    return tuple(whole[:length] for length in range(len(whole), -1, -1))


def like(records: Records, job: Job) -> Ended:
    """Jobs like this one that have ended; none: nothing is known of any job.

    ``records`` are by code.
    """
    for kind in records.kinds_of(job):
        found = records.of(kind)
        if len(found.rounds) >= (ENOUGH if len(kind) > _OF_CODE else 1):
            return found
    return NOBODY


def kinds_by_name(job: Job) -> tuple[Kind, ...]:
    """("name", its stem, the user), ("name", its stem) or ("user", the user); the closest first.

    Who has no user is not of the same user as others without.
    """
    by_name = "name", stem(job.name)
    return ((*by_name, job.user), by_name, ("user", job.user)) if job.user else (by_name,)


def similar(records: Records, job: Job) -> tuple[str, tuple[int, ...]]:
    """What makes ended jobs similar to this one, "name" or "user", and their rounds; else nothing.

    ``records`` are by name.
    """
    for kind in records.kinds_of(job):
        if found := records.of(kind).rounds:
            return kind[0], found
    return "", ()
