"""What the queue knows of the lengths of jobs: how long they have run, and jobs like them ran."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice
from statistics import median
from typing import Final, NamedTuple

from warren.model.units import NS_PER_S
from warren.serve.queue.state import Queue
from warren.serve.records.jobs import NO_STRIKE, CommandSpec, JobState, ServiceJob

NEWEST_MOST: Final = 512
"""Most finished jobs that are looked at, those that were submitted last."""
UNKNOWN_S: Final = 3600.0
"""Expected length of a job without a limit and without any finished job, in seconds."""
_WORDS: Final = 3
"""Number of words of a command that make its kind."""
_CHARACTERS: Final = 200
"""Longest kind of a command in characters."""
_DIGITS: Final = re.compile(r"\d+(?:\.\d+)*")


class FinishedJob(NamedTuple):
    """A job that has finished, and the time that it took, in seconds."""

    job: ServiceJob
    ran_s: float


class KnownLengths:
    """Lengths of finished jobs, and the lengths that are expected of others by these.

    A job is expected to take the median time of the finished jobs of its kind and user, but not
    more than its limit; else its limit; else the median time of all finished jobs.

    Parameters
    ----------
    queue
        The queue.

    Attributes
    ----------
    finished
        The finished jobs that count, the latest last.
    """

    def __init__(self, queue: Queue) -> None:
        ended = (job for job in reversed(queue.in_order) if job.state is JobState.FINISHED)
        newest = [FinishedJob(job, progress_s(job, 0)) for job in islice(ended, NEWEST_MOST)]
        newest.sort(key=lambda one: one.job.ended_ns or 0)
        self.finished = newest
        self._all_s = _middle(one.ran_s for one in newest)
        self._like: dict[tuple[str, str], list[float]] = {}
        for one in newest:
            key = one.job.user, command_kind(one.job.spec)
            self._like.setdefault(key, []).append(one.ran_s)

    def expected_s(self, job: ServiceJob) -> float:
        """Return how long a job is expected to run in all, in seconds."""
        limit_s = job.spec.time_limit_s
        like_s = _middle(self._like.get((job.user, command_kind(job.spec)), ()))
        if like_s is not None:
            return like_s if limit_s is None else min(like_s, limit_s)
        if limit_s is not None:
            return limit_s
        return UNKNOWN_S if self._all_s is None else self._all_s


def _middle(lengths_s: Iterable[float]) -> float | None:
    found = list(lengths_s)
    return median(found) if found else None


def progress_s(job: ServiceJob, now_ns: int) -> float:
    """Return how long a job has run, in seconds, as far as its next attempt goes on from there.

    An attempt that failed counts for nothing. Neither does what a preemption has lost.
    """
    done_s = 0.0
    for attempt in job.attempts:
        if attempt.started_ns is None:
            continue
        end_ns = now_ns if attempt.ended_ns is None else attempt.ended_ns
        ran_s = max(0, end_ns - attempt.started_ns) / NS_PER_S
        goes_on = attempt.ended_ns is None or attempt.cause in NO_STRIKE or attempt.exit_code == 0
        done_s = max(0.0, done_s + ran_s - (attempt.lost_s or 0.0)) if goes_on else 0.0
    return done_s


def command_kind(spec: CommandSpec) -> str:
    """Return what jobs of one kind have in common: the name, or the first words of the command.

    Numbers count as equal, and options do not count.
    """
    if spec.name:
        return _DIGITS.sub("#", spec.name)
    words = [word[:_CHARACTERS] for word in spec.command if not word.startswith("-")]
    return _DIGITS.sub("#", " ".join(words[:_WORDS]))[:_CHARACTERS]
