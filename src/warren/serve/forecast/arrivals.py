"""Jobs that may come: those of the last week come again.

Under a fair share, and with priorities, jobs that come later start before some that wait. All that
is known of them is what came so far.
"""

from __future__ import annotations

from typing import Final

import msgspec

from warren.model.units import NS_PER_S
from warren.serve.queue.state import Queue
from warren.serve.records.events import JobSubmitted
from warren.serve.records.jobs import ServiceJob

SPAN_S: Final = 7 * 86_400.0
"""Time from which jobs come again, and in which they come, in seconds."""
JOBS_MOST: Final = 1_000
"""Most jobs that come again, the last ones; the time is shorter where there are more."""


class Arrivals:
    """The jobs of the last week, to come again from any point of the week on.

    Parameters
    ----------
    queue
        The queue, which stays as it is.
    now_ns
        The present.
    """

    def __init__(self, queue: Queue, now_ns: int) -> None:
        since_ns = now_ns - round(SPAN_S * NS_PER_S)
        found: list[ServiceJob] = []
        for job in reversed(queue.in_order):
            if job.submitted_ns < since_ns or len(found) == JOBS_MOST:
                break
            found.append(job)
        self._jobs = found[::-1]
        self._now_ns = now_ns
        self._begin_ns = self._jobs[0].submitted_ns if self._jobs else now_ns
        self._number = queue.next_number

    def __len__(self) -> int:
        return len(self._jobs)

    def again(self, share: float) -> list[JobSubmitted]:
        """Return the jobs as they come if the time begins again at a share of it, from 0 to 1."""
        span_ns = self._now_ns - self._begin_ns
        if span_ns <= 0:
            return []
        begin_ns = self._begin_ns + round(share * span_ns)
        return [
            JobSubmitted(
                time_ns=self._now_ns + (job.submitted_ns - begin_ns) % span_ns,
                job=str(self._number + index),
                user=job.user,
                spec=msgspec.structs.replace(job.spec, after=(), held=False, key=None),
            )
            for index, job in enumerate(self._jobs)
        ]
