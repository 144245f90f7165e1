"""A queue played forward: when each waiting job starts, and when it ends.

Jobs run as long as they are expected to, and end with exit code 0. A job that waits behind
``STARTS_MOST`` others, or behind a job that never ends, has no forecast.

Under ``strict`` the queue is played end by end with the service's own ``decide``. The service also
looks at its queue between ends, and the fair share may favor another user by then; this play looks
at ends alone.

Under ``backfill`` a decision takes some milliseconds, too long for one at each end. What starts now
is what ``decide`` says. For the other jobs there is one plan, which differs from the service in
what ``plan`` lists.

A place policy is asked again at each end, under ``backfill``, too, if at most ``ASKED_MOST`` jobs
wait. If more wait it is asked once, and there is a plan, in which jobs may overtake as under
``backfill``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from warren.serve.forecast.device_times import Closing
from warren.serve.forecast.plan import planned
from warren.serve.forecast.play import played
from warren.serve.forecast.remaining import JobForecast as JobForecast
from warren.serve.forecast.remaining import Remaining, by_limits
from warren.serve.queue.state import Queue
from warren.serve.records.events import AnyEvent, Drained
from warren.serve.schedule.decide import Order

ASKED_MOST: Final = 50
"""Most waiting jobs for which a place policy is asked again at each end."""


def play_forward(
    queue: Queue,
    now_ns: int,
    order: Order,
    remaining_s: Remaining = by_limits,
    *,
    later: Sequence[AnyEvent] = (),
    until: str | None = None,
) -> dict[str, JobForecast]:
    """Return the forecast of each job that has not ended.

    Parameters
    ----------
    queue
        The queue, which stays as it is.
    now_ns
        The present, in nanoseconds since 1970.
    order
        How jobs may overtake each other.
    remaining_s
        How long jobs run on, in seconds: by default up to their limits.
    later
        Events that come later. Where there is one plan, only drains count.
    until
        The job that is asked for. What starts after it may be left out.
    """
    asks_again = queue.policy is not None and len(queue.waiting) <= ASKED_MOST
    if not asks_again and (order == "backfill" or queue.policy is not None):
        closings = [
            Closing(one.time_ns, one.host, one.device) for one in later if isinstance(one, Drained)
        ]
        return planned(queue, now_ns, order, remaining_s, closings)
    return played(queue, now_ns, order, remaining_s, later, until)
