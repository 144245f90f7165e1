"""A queue played end by end, with the service's own ``decide``."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

from warren.serve.forecast.copies import copied
from warren.serve.forecast.remaining import (
    NOTHING_KNOWN,
    STARTS_MOST,
    JobForecast,
    Remaining,
    after,
    expected_end_ns,
)
from warren.serve.queue.ends import attempt_ends
from warren.serve.queue.state import Queue
from warren.serve.records.events import AnyEvent, AttemptEnded
from warren.serve.records.jobs import ServiceJob
from warren.serve.schedule.decide import Order, decide


def played(
    queue: Queue,
    now_ns: int,
    order: Order,
    remaining_s: Remaining,
    later: Sequence[AnyEvent] = (),
    until: str | None = None,
) -> dict[str, JobForecast]:
    """Return the forecasts of all jobs that have not ended; see ``forward.play_forward``."""
    play = _Play(queue, now_ns, order, remaining_s, later)
    play.run(until)
    return play.forecasts


class _Play:
    """A copy of a queue, on which time passes."""

    def __init__(
        self,
        queue: Queue,
        now_ns: int,
        order: Order,
        remaining_s: Remaining,
        later: Sequence[AnyEvent],
    ) -> None:
        self._queue = copied(queue)
        self._time_ns = now_ns
        self._order: Order = order
        self._remaining_s = remaining_s
        self._later = sorted(later, key=lambda event: -event.time_ns)
        self._ends: list[tuple[int, int, str]] = []
        jobs = self._queue.jobs.values()
        self.forecasts = {job.id: NOTHING_KNOWN for job in jobs if job.ended_ns is None}
        for job_id in self._queue.running:
            job = self._queue.jobs[job_id]
            self._runs(job, job.attempts[-1].begun_ns, expected_end_ns(job, now_ns, remaining_s))

    def run(self, until: str | None) -> None:
        """Play until nothing starts any more, or until a job has started."""
        starts = 0
        while starts < STARTS_MOST:
            while self._later and self._later[-1].time_ns <= self._time_ns:
                self._queue.apply(self._later.pop())
            for begun in decide(self._queue, self._time_ns, self._order):
                self._queue.apply(begun)
                job = self._queue.jobs[begun.job]
                self._runs(job, self._time_ns, after(self._time_ns, self._remaining_s(job, 0.0)))
                starts += 1
                if begun.job == until:
                    return
            if not self._go_on():
                return

    def _runs(self, job: ServiceJob, begin_ns: int, end_ns: int | None) -> None:
        self.forecasts[job.id] = JobForecast(begin_ns, end_ns)
        if end_ns is not None:
            heappush(self._ends, (end_ns, job.order, job.id))

    def _go_on(self) -> bool:
        """Go on to the next end or change; tell whether there is one."""
        times = [*(end for end, _, _ in self._ends[:1]), *(it.time_ns for it in self._later[-1:])]
        if not times:
            return False
        self._time_ns = max(self._time_ns, min(times))
        while self._ends and self._ends[0][0] <= self._time_ns:
            job = self._queue.jobs[heappop(self._ends)[2]]
            for event in attempt_ends(self._queue, [_end(job, self._time_ns)]):
                self._queue.apply(event)
        return True


def _end(job: ServiceJob, time_ns: int) -> AttemptEnded:
    """Return the end of an attempt as it is expected."""
    number = job.attempts[-1].number
    if job.cancelled_by is not None:
        return AttemptEnded(time_ns=time_ns, job=job.id, attempt=number, cause="cancel")
    if job.attempts[-1].preempt_ns is not None:  # it waits again
        return AttemptEnded(time_ns=time_ns, job=job.id, attempt=number, cause="preempt")
    return AttemptEnded(time_ns=time_ns, job=job.id, attempt=number, cause="exit", exit_code=0)
