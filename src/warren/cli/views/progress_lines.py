"""How a simulation goes: a bar on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from time import monotonic
from typing import Final

import numpy as np

from warren.cli.compose import Attend
from warren.core.loop import Core
from warren.model.run import Run

LINES_S: Final = 5.0


def simulation_view(run: Run) -> Attend:
    """What suits standard error."""
    if not sys.stderr.isatty():
        return progress_lines
    from warren.cli.views.progress import progress

    return progress(run)


def tasks_of(run: Run) -> int:
    """Tasks of all jobs that state their rounds."""
    return sum((job.rounds or 0) * job.scale for job in run.workload.jobs)


@contextmanager
def progress_lines(core: Core) -> Iterator[None]:
    """Lines from a thread of their own, so that they come while a policy plans, too."""
    begin, over = monotonic(), Event()

    def tell() -> None:
        while not over.wait(LINES_S):
            with suppress(OSError):
                print(_line(core, monotonic() - begin), file=sys.stderr, flush=True)

    thread = Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _line(core: Core, passed_s: float) -> str:
    state, total = core.state, tasks_of(core.run)
    done = int(np.sum(state.round_J * state.scale_J))
    if not done:
        return f"  {core.policy.name}: planning, {passed_s:.0f} s"
    ended = f"{int(state.done_J.sum()):,} of {len(state.done_J):,} jobs"
    return f"  {core.policy.name}: {done:,} of {total:,} tasks, {ended}, {passed_s:.0f} s"
