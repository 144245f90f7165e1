"""Forecasts of the daemon: made beside the loop, and some of them put on record.

A forecast plays the queue forward, which takes longer than the loop may stand still. It is made in
a thread, on a copy.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final

from warren.model.errors import one_line
from warren.model.units import NS_PER_S
from warren.serve.forecast.copies import copied
from warren.serve.forecast.run_lengths import lengths_of
from warren.serve.forecast.when import Outlook, When, foreseen, outlook, when_of
from warren.serve.journal.journal import JournalWriteError
from warren.serve.queue.state import Queue
from warren.serve.records.events import AnyEvent, JobSubmitted
from warren.serve.records.jobs import JobState, ServiceJob
from warren.serve.schedule.decide import Order

WAITING_MOST: Final = 5_000
"""Most waiting jobs of a queue that is played forward; a longer one has no forecasts."""
FRESH_S: Final = 30.0
"""Time for which a forecast is shown again, in seconds: pages are drawn after each change."""
REST: Final = 20
"""Rest after a forecast for the record, in times that it took."""
_NEW_MOST: Final = 1_000
"""Most new jobs that wait for their forecast."""
_KEPT_MOST: Final = 1_000
"""Most forecasts that are kept to be shown again."""


class Foresight:
    """When jobs are expected to start and end.

    Parameters
    ----------
    queue
        Returns the queue; after an error of the disk it is another.
    order
        How jobs may overtake each other.
    now_ns
        The clock, in nanoseconds since 1970.
    record
        Called with events for the journal.
    say
        Called with each line that an operator should read.
    """

    def __init__(
        self,
        queue: Callable[[], Queue],
        order: Order,
        now_ns: Callable[[], int],
        record: Callable[[Sequence[AnyEvent]], None],
        say: Callable[[str], None],
    ) -> None:
        self._queue = queue
        self._order: Order = order
        self._now_ns = now_ns
        self._record = record
        self._say = say
        self._recording: asyncio.Task[None] | None = None
        self._new: deque[str] = deque(maxlen=_NEW_MOST)
        self._kept: dict[str, tuple[float, int, Outlook | None]] = {}
        self._next_s = 0.0
        self._one_look = asyncio.Lock()

    def note(self, events: Iterable[AnyEvent]) -> None:
        """Take down the jobs that have come; of many only some are put on record."""
        self._new += (event.job for event in events if isinstance(event, JobSubmitted))

    async def when(self, job: ServiceJob) -> When | None:
        """Return when a job is expected to start and to end, from now on; None as for ``when``."""
        loop_s = asyncio.get_running_loop().time()
        kept = self._kept.get(job.id)
        if kept is None or loop_s - kept[0] > FRESH_S or job.state is not JobState.QUEUED:
            at_ns = self._now_ns()
            kept = loop_s, at_ns, await self._outlook(job, at_ns)
            self._kept[job.id] = kept
            if len(self._kept) > _KEPT_MOST:
                del self._kept[next(iter(self._kept))]
        _, at_ns, found = kept
        if found is None or job.state.ended:
            return None
        now_ns = self._now_ns()
        seen = when_of(self._queue(), job, found, now_ns)
        later_s = (now_ns - at_ns) / NS_PER_S
        if job.state is not JobState.QUEUED:
            return seen
        return When(*(max(0.0, one - later_s) for one in seen))

    def begin(self) -> None:
        """Begin to put a forecast on record, if none is being made; the caller does not wait."""
        if self._recording is None or self._recording.done():
            self._recording = asyncio.get_running_loop().create_task(self._recorded())

    async def stop(self) -> None:
        """Give up the forecast that is being made."""
        if self._recording is not None:
            self._recording.cancel()
            with suppress(asyncio.CancelledError):
                await self._recording

    async def _recorded(self) -> None:
        try:
            await self.record()
        except Exception as error:  # a forecast must not stop the service
            self._say(f"a forecast is left out: {one_line(error)}")

    async def record(self) -> None:
        """Put the forecast of one new job on record, if one waits and the last is long past."""
        loop = asyncio.get_running_loop()
        job = self._waiting() if loop.time() >= self._next_s else None
        if job is None:
            return
        begun_s, now_ns = loop.time(), self._now_ns()
        found = await self._outlook(job, now_ns)
        self._next_s = loop.time() + REST * (loop.time() - begun_s)
        queue = self._queue()
        if found is not None and queue.jobs[job.id].state is JobState.QUEUED:
            with suppress(JournalWriteError):  # said already; a forecast is no loss
                self._record([foreseen(queue, job.id, found, now_ns)])

    def _waiting(self) -> ServiceJob | None:
        """Return the newest job without a forecast that waits for its first start."""
        while self._new:
            job = self._queue().jobs.get(self._new.pop())
            if job is not None and job.state is JobState.QUEUED and not job.attempts:
                return job
        return None

    async def _outlook(self, job: ServiceJob, now_ns: int) -> Outlook | None:
        queue = self._queue()
        has_outlook = job.state in (JobState.QUEUED, JobState.RUNNING)
        if not has_outlook or len(queue.waiting) > WAITING_MOST:
            return None
        lengths = lengths_of(queue)
        if job.state is JobState.RUNNING:  # needs no play
            return outlook(queue, job, now_ns, self._order, lengths)
        async with self._one_look:
            copy = copied(queue)
            if job.id not in copy.jobs:  # it has ended meanwhile
                return None
            return await asyncio.to_thread(
                outlook, copy, copy.jobs[job.id], now_ns, self._order, lengths
            )
