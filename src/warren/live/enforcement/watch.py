"""Jobs that Warren did not start are watched, and their traffic gets a class each period.

It runs beside the jobs and never in them: if it is late, fails or ends, they go on, with their
present classes or with none.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from warren.live.enforcement import rules
from warren.live.enforcement.client import FlowHelper
from warren.live.enforcement.job_classes import classes_by_gain
from warren.live.enforcement.requests import (
    FlowRequest,
    MarkFlows,
    SetUpQueues,
    UnmarkFlows,
    checked,
)
from warren.live.enforcement.watched_jobs import WatchedJobs


@dataclass(frozen=True, slots=True)
class FlowWatch:
    """A watch over the jobs of one host, which it orders alone.

    ``seed``: of the predictions. ``say``: takes a line for people.
    """

    jobs: WatchedJobs
    period_s: float
    seed: int
    say: Callable[[str], None] = lambda _: None

    def step(self, elapsed_s: float) -> list[dict[str, Any]]:
        """Read all logs, order the jobs and set changed classes; return each job's row."""
        self.jobs.read(elapsed_s)
        self.jobs.warn(self.period_s, self.say)
        for one in self.jobs.states:
            self.jobs.predict(one, self.period_s, self.seed)
        jobs = [one.job for one in self.jobs.states]
        silent = {job.name for job in jobs if job.silent}
        self.jobs.set_classes(classes_by_gain({job.name: job.gain for job in jobs}, silent))
        return self.jobs.rows()


def watched(
    watch: FlowWatch, periods: int | None, sleep: Callable[[float], None] = time.sleep
) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows of each period, ``count`` times or until interrupted."""
    last_s: float | None = None
    done = 0
    while periods is None or done < periods:
        now_s = time.monotonic()
        yield watch.step(0.0 if last_s is None else now_s - last_s)
        last_s, done = now_s, done + 1
        if periods is None or done < periods:
            sleep(max(0.0, now_s + watch.period_s - time.monotonic()))


def shown(request: FlowRequest) -> str:
    """Return the rules that a request becomes, as ``nft`` and ``tc`` would be given them."""
    checked(request)
    if isinstance(request, SetUpQueues):
        lines = "".join(f"{line}\n" for line in rules.queue_lines(request))
        return f"# nft -f -\n{rules.queue_table(request)}# tc -batch -\n{lines}"
    if isinstance(request, MarkFlows):
        return f"# nft -f -\n{rules.marks(request)}"
    if isinstance(request, UnmarkFlows):
        return f"# nft -f -\n{rules.unmarks(request.label, request.job)}"
    raise ValueError("only what makes or removes rules has any")


def helper_for(label: str, sudo: bool, queues: SetUpQueues | None) -> FlowHelper:
    """Start a helper, and set up the queues of a device if asked to."""
    if queues is not None:
        checked(queues)
    helper = FlowHelper(label, sudo)
    try:
        if queues is not None:
            helper.ask(queues)
    except BaseException:
        helper.close()
        raise
    return helper
