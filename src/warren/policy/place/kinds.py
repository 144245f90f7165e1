"""Which jobs are alike, so that those that have ended tell something of the others.

A job's kinds, the most specific first: the same code (its model, else its app's file and class,
wherever the file lies) of the same user under the same name, but for numbers at its ends
(``model.past.stem``); that of the same user; that of anybody; all jobs. What is known of the first
kind with ``ENOUGH`` ended jobs counts. Of one code any job that has ended says more than many of
others.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from posixpath import basename
from typing import Final, TypeAlias

from warren.model.job import Job
from warren.model.past import Past, stem

Kind: TypeAlias = tuple[str, ...]
"""Code, user and stem, or the first of them."""
Known: TypeAlias = Mapping[Kind, tuple[int, ...]]
"""Rounds of jobs that have ended, by kind, the latest last."""
KINDS: Final = 4096
"""Kinds that are remembered: those that a job ended of last."""
ENOUGH: Final = 5
"""Ended jobs that tell enough of a user's, or a name's, not to look at others."""
MOST: Final = 256
"""Ended jobs of a kind that are remembered, the latest."""
_OF_CODE: Final = 1


def kinds(job: Job) -> tuple[Kind, ...]:
    """The kinds of a job, the most specific first."""
    whole = (job.model or basename(job.app or ""), job.user, stem(job.name))
    return tuple(whole[:length] for length in range(len(whole), -1, -1))


def learned(known: Known, job: Job, rounds: int) -> Known:
    """What is known once a job has ended after so many rounds."""
    more = dict(known)
    _learn(more, job, rounds)
    return more


def learned_from(past: Past) -> Known:
    """What is known before a run begins."""
    known: dict[Kind, tuple[int, ...]] = {}
    for job in past.jobs:
        assert job.rounds is not None, "a job of the past states its rounds"
        _learn(known, job, job.rounds)
    return known


def _learn(known: dict[Kind, tuple[int, ...]], job: Job, rounds: int) -> None:
    for kind in kinds(job):
        known[kind] = (*known.pop(kind, ())[1 - MOST :], rounds)
    for kind in list(islice(known, max(0, len(known) - KINDS))):
        del known[kind]


def rounds_of_like(known: Known, job: Job) -> tuple[int, ...]:
    """The rounds of jobs like this one that have ended; empty: nothing is known of any job."""
    for kind in kinds(job):
        rounds = known.get(kind, ())
        if len(rounds) >= (ENOUGH if len(kind) > _OF_CODE else 1):
            return rounds
    return ()
