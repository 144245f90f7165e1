"""How long jobs run: from ended jobs like them, and from their stated limits.

Ended jobs are looked at in groups, from near to wide: those of the same user and command, those of
the same user, and all. **Only ended jobs count that ran longer than this one has run so far.** A
group of n such jobs gets n / (n + ``shrink``) of the probability that nearer groups leave. What no
group takes goes to a rule that needs no history: with a limit, each length up to the limit is
equally likely; without one, a job that has run for some time runs for twice as long with
probability 1/2.

An ended job stands for its share of its limit where both jobs have one, else for its run time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, islice
from typing import Final, NamedTuple

from warren.model.units import NS_PER_S
from warren.serve.forecast.remaining import OVERDUE_S
from warren.serve.queue.state import Queue
from warren.serve.records.jobs import NO_STRIKE, ServiceJob
from warren.serve.schedule.known_lengths import command_kind

NEWEST_MOST: Final = 2_000
"""Most ended jobs of a queue that are looked at, those that were submitted last."""
SHORTEST_S: Final = 600.0
"""Shortest run that is expected of a job without a limit and without any history, in seconds."""

_ATOMS: Final = 20
"""Number of equally likely lengths that stand for the rule without history."""
_NO_RUN: Final = frozenset({"host", "start", *NO_STRIKE})
"""Causes after which an attempt says nothing about the length of its job."""


class LengthRules(NamedTuple):
    """How history counts.

    ``shrink``: number of jobs at which a group gets half of the probability. ``newest``: most jobs
    of a group that count, those that were submitted last. ``shares``: whether shares of limits
    stand for run times, where both jobs have a limit.
    """

    shrink: float = 20.0
    newest: int = 200
    shares: bool = True


RULES: Final = LengthRules()
"""The rules of the service; ``experiments/start_times.py`` chose them."""


class EndedRun(NamedTuple):
    """How long an ended job ran, in seconds, and its limit."""

    ran_s: float
    limit_s: float | None


class TimeLeft(NamedTuple):
    """The time that a job runs on: a list of times in seconds, rising, and their probabilities.

    ``up_to`` holds the sums of the probabilities; the last one is 1.
    """

    times_s: tuple[float, ...]
    up_to: tuple[float, ...]

    def quantile(self, probability: float) -> float:
        """Return the time in which the job ends with a probability from 0 to 1."""
        at = bisect_right(self.up_to, probability)
        return self.times_s[min(at, len(self.times_s) - 1)]


class RunLengths:
    """Ended jobs in their groups.

    Parameters
    ----------
    ended
        Ended jobs, the newest first.
    rules
        How they count.
    """

    def __init__(self, ended: Iterable[ServiceJob], rules: LengthRules = RULES) -> None:
        self._rules = rules
        self._groups: dict[tuple[str, ...], list[EndedRun]] = {}
        self._found: dict[tuple[object, ...], TimeLeft] = {}
        for job in ended:
            ran_s = run_s(job)
            if ran_s is None:
                continue
            for key in _groups_of(job):
                group = self._groups.setdefault(key, [])
                if len(group) < rules.newest:
                    group.append(EndedRun(ran_s, job.spec.time_limit_s))

    def remaining(self, job: ServiceJob, ran_s: float = 0.0) -> TimeLeft:
        """Return how long a job runs on that has run for some seconds."""
        limit_s = job.spec.time_limit_s
        keys = _groups_of(job)
        known = (keys[0], limit_s, ran_s)
        found = self._found.get(known)
        if found is None:
            found = self._found[known] = self._remaining(keys, limit_s, ran_s)
        return found

    def middle_s(self, job: ServiceJob, ran_s: float) -> float:
        """Return the time within which a job ends with a probability of one half, in seconds."""
        return self.remaining(job, ran_s).quantile(0.5)

    def _remaining(
        self, keys: Sequence[tuple[str, ...]], limit_s: float | None, ran_s: float
    ) -> TimeLeft:
        if limit_s is not None and ran_s >= limit_s:
            return TimeLeft((OVERDUE_S,), (1.0,))
        parts: list[tuple[float, float]] = []
        left = 1.0
        for key in keys:
            lengths_s = [one for one in self._lengths_s(key, limit_s) if one > ran_s]
            if lengths_s:
                taken = left * len(lengths_s) / (len(lengths_s) + self._rules.shrink)
                parts += [(one - ran_s, taken / len(lengths_s)) for one in lengths_s]
                left -= taken
        parts += [(one - ran_s, left / _ATOMS) for one in _without_history_s(limit_s, ran_s)]
        parts.sort()
        sums = list(accumulate(probability for _, probability in parts))
        return TimeLeft(tuple(one for one, _ in parts), tuple(one / sums[-1] for one in sums))

    def _lengths_s(self, key: tuple[str, ...], limit_s: float | None) -> Iterator[float]:
        """Yield the lengths that a group expects of a job with a limit, in seconds."""
        for run in self._groups.get(key, ()):
            if limit_s is None:
                yield run.ran_s
            elif self._rules.shares and run.limit_s is not None:
                yield limit_s * min(1.0, run.ran_s / run.limit_s)
            else:
                yield min(limit_s, run.ran_s)


def lengths_of(queue: Queue, rules: LengthRules = RULES) -> RunLengths:
    """Return the run lengths that the ended jobs of a queue show."""
    ended = (job for job in reversed(queue.in_order) if job.state.ended)
    return RunLengths(islice(ended, NEWEST_MOST), rules)


def run_s(job: ServiceJob) -> float | None:
    """Return how long the last attempt of an ended job ran, in seconds; None if that is unknown."""
    attempt = job.attempt
    if attempt is None or attempt.ended_ns is None or not attempt.ran or attempt.cause in _NO_RUN:
        return None
    started_ns = attempt.begun_ns if attempt.started_ns is None else attempt.started_ns
    return max(0, attempt.ended_ns - started_ns) / NS_PER_S


def _groups_of(job: ServiceJob) -> tuple[tuple[str, ...], ...]:
    """Return the groups of a job, from near to wide."""
    return (job.user, command_kind(job.spec)), (job.user,), ()


def _without_history_s(limit_s: float | None, ran_s: float) -> Iterator[float]:
    """Yield lengths that are equally likely by the rule without history, in seconds."""
    for index in range(_ATOMS):
        share = (index + 0.5) / _ATOMS
        if limit_s is not None:
            yield ran_s + (limit_s - ran_s) * share
        else:
            yield max(ran_s, SHORTEST_S) / (1 - share)
