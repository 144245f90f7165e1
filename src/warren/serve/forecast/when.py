"""When a waiting job is expected to start and to end, with bounds of 80 %.

The queue is played forward again and again. In each play every job gets a length that jobs like it
took (see ``run_lengths``), jobs come as in the last week (see ``arrivals``), and the scheduler
decides as it does in earnest. Under ``backfill`` no jobs come. The middle start is the expected
one; 10 % of the plays start earlier than the interval, and 10 % later. The record of past forecasts
then corrects all three (see ``queue/forecasts``).

Nothing is drawn at random: each job's lengths are spread evenly over their probabilities, in an
order that its id gives. The same queue has the same answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

from warren.model.units import NS_PER_S
from warren.serve.forecast.arrivals import Arrivals
from warren.serve.forecast.copies import copied
from warren.serve.forecast.forward import play_forward
from warren.serve.forecast.run_lengths import RunLengths, lengths_of
from warren.serve.queue.forecasts import corrected
from warren.serve.queue.state import Queue
from warren.serve.queue.waiting import need_of
from warren.serve.records.events import Foreseen, JobHeld
from warren.serve.records.forecasts import Spread
from warren.serve.records.jobs import JobState, ServiceJob
from warren.serve.schedule.decide import Order, order_of
from warren.serve.schedule.placement import fitting_types

PLAYS_MOST: Final = 40
"""Number of plays for a queue that is not long."""
PLAYS_LEAST: Final = 10
"""Fewest plays."""
JOBS_PLAYED: Final = 10_000
"""Number of jobs in all plays together at which there are fewer plays."""
PLAYED_MOST: Final = 500
"""Most waiting jobs in a play, the first ones of the order; those behind have no forecast."""

_TAIL: Final = 0.1
"""Share of the plays before the interval, and of those after it."""
_KNOWN: Final = 0.9
"""Least share of the plays in which a job has to start."""


class Outlook(NamedTuple):
    """When a job starts and ends in the plays."""

    start: Spread
    end: Spread


class When(NamedTuple):
    """When a job is expected to start and to end, in seconds from now.

    It starts from ``start_low_s`` to ``start_high_s`` with a probability of 80 %; ends likewise. A
    job that runs has started at ``start_s``, which is below 0.
    """

    start_s: float
    start_low_s: float
    start_high_s: float
    end_s: float
    end_low_s: float
    end_high_s: float


def when(queue: Queue, job: ServiceJob, now_ns: int, order: Order) -> When | None:
    """Return when a job is expected to start and to end.

    None for a job that has ended, is held, depends on a held job, comes behind the first
    ``PLAYED_MOST`` jobs of the order, or finds no devices.

    Parameters
    ----------
    queue
        The queue, which stays as it is.
    job
        A job of it.
    now_ns
        The present, in nanoseconds since 1970.
    order
        How jobs may overtake each other.
    """
    found = outlook(queue, job, now_ns, order, lengths_of(queue))
    return None if found is None else when_of(queue, job, found, now_ns)


def when_of(queue: Queue, job: ServiceJob, found: Outlook, now_ns: int) -> When:
    """Return what an outlook means after the correction by past errors.

    The outlook of a job that runs is not corrected: the errors are those of waiting jobs.
    """
    start, end = found
    if job.state is JobState.QUEUED:
        start = corrected(start, queue.forecasts.starts.correction(now_ns))
        end = corrected(end, queue.forecasts.ends.correction(now_ns))
    return When(start.expected_s, start.low_s, start.high_s, end.expected_s, end.low_s, end.high_s)


def foreseen(queue: Queue, job: str, found: Outlook, now_ns: int) -> Foreseen:
    """Return the event that records an outlook, with the corrections of now."""
    return Foreseen(
        time_ns=now_ns,
        job=job,
        start=found.start,
        end=found.end,
        start_by=queue.forecasts.starts.correction(now_ns),
        end_by=queue.forecasts.ends.correction(now_ns),
    )


def outlook(
    queue: Queue, job: ServiceJob, now_ns: int, order: Order, lengths: RunLengths
) -> Outlook | None:
    """Return when a job starts and ends in plays of the queue; None as for ``when``.

    Parameters
    ----------
    queue, job, now_ns, order
        As for ``when``.
    lengths
        How long jobs run.
    """
    if job.state is JobState.RUNNING:
        return _running(job, now_ns, lengths)
    if job.state is not JobState.QUEUED:
        return None
    played = _shortened(queue, job, now_ns)
    if played is None:
        return None
    arrivals = Arrivals(queue, now_ns)
    jobs = len(played.running) + len(played.waiting) + len(arrivals)
    plays = max(PLAYS_LEAST, min(PLAYS_MOST, JOBS_PLAYED // (jobs + 1)))
    starts_s, ends_s = [], []
    draws = _Draws(lengths, plays)
    for play in range(plays):
        draws.play = play
        later = arrivals.again((play + 0.5) / plays)
        found = play_forward(
            played, now_ns, order, draws.remaining_s, later=later, until=job.id
        ).get(job.id)
        if found is not None and found.begin_ns is not None and found.end_ns is not None:
            starts_s.append((found.begin_ns - now_ns) / NS_PER_S)
            ends_s.append((found.end_ns - now_ns) / NS_PER_S)
    if len(starts_s) < _KNOWN * plays:
        return None
    return Outlook(_spread(starts_s), _spread(ends_s))


class _Draws:
    """Lengths of jobs, one for each play."""

    def __init__(self, lengths: RunLengths, plays: int) -> None:
        self._lengths = lengths
        self._plays = plays
        self._orders: dict[str, list[int]] = {}
        self.play = 0

    def remaining_s(self, job: ServiceJob, ran_s: float) -> float:
        """Return how long a job runs on in this play, in seconds."""
        order = self._orders.get(job.id)
        if order is None:
            digest = blake2b(job.id.encode(), digest_size=PLAYS_MOST).digest()
            order = self._orders[job.id] = sorted(range(self._plays), key=digest.__getitem__)
        probability = (order[self.play] + 0.5) / self._plays
        return self._lengths.remaining(job, ran_s).quantile(probability)


def _running(job: ServiceJob, now_ns: int, lengths: RunLengths) -> Outlook:
    """Return the outlook of a job that runs."""
    attempt = job.attempts[-1]
    began_s = (attempt.begun_ns - now_ns) / NS_PER_S
    ran_s = 0.0
    if attempt.started_ns is not None:
        ran_s = max(0.0, (now_ns - attempt.started_ns) / NS_PER_S)
    left = lengths.remaining(job, ran_s)
    end = Spread(*(left.quantile(one) for one in (_TAIL, 0.5, 1 - _TAIL)))
    return Outlook(Spread(began_s, began_s, began_s), end)


def _spread(times_s: Sequence[float]) -> Spread:
    """Return the middle of some times, and the bounds that leave a tenth on each side."""
    ordered = sorted(times_s)
    outside = int(_TAIL * len(ordered))
    return Spread(ordered[outside], ordered[len(ordered) // 2], ordered[-1 - outside])


def _shortened(queue: Queue, job: ServiceJob, now_ns: int) -> Queue | None:
    """Return a queue without jobs far behind a job; None if the job is far behind itself."""
    if len(queue.waiting) <= PLAYED_MOST:
        return queue
    first = _first(queue, now_ns)
    if job.id not in first:
        return None
    shorter = copied(queue)
    for other in queue.in_order:
        if other in queue.waiting and other.id not in first:
            shorter.apply(JobHeld(time_ns=now_ns, job=other.id))
    return shorter


def _first(queue: Queue, now_ns: int) -> dict[str, None]:
    """Return the first waiting jobs of the order."""
    jobs = order_of(queue, now_ns)
    found: dict[str, None] = {}
    while len(found) < PLAYED_MOST and (one := jobs.next()) is not None:
        _, job = one
        types = fitting_types(queue, need_of(job))
        if types:
            found[job.id] = None
            jobs.take(types[0], job.spec.devices)
        else:
            jobs.drop()
    return found
