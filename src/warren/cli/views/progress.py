"""A person's view of a simulation: a bar on a terminal, else plain lines.

An observer is called at every step of the core, so it looks at the clock and little else unless it
is time to draw.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from threading import Event, Thread
from time import monotonic
from typing import Final

import numpy as np

from warren.core.loop import Core, Observer
from warren.core.state import State
from warren.model.events import AnyEvent
from warren.model.run import Run
from warren.runs.compose import Attend
from warren.runs.notices import COMPILING

LINES_S: Final = 5.0
"""Least seconds between two lines."""


def simulation_view(core: Core) -> AbstractContextManager[Observer | None]:
    """Show a simulation while it goes on: a bar on a terminal, elsewhere lines."""
    return progress(core.run)(core) if sys.stderr.isatty() else progress_lines(core)


@contextmanager
def progress_lines(core: Core) -> Iterator[None]:
    """Print lines from a thread of their own, so that they come while a policy plans, too."""
    over = Event()

    def clock() -> float:
        """Return real seconds, without those of compiling."""
        return monotonic() - COMPILING.seconds

    begin = clock()

    def tell() -> None:
        """Print a line from time to time until the simulation is over."""
        while not over.wait(LINES_S):
            with suppress(OSError):
                print(_line(core, clock() - begin), file=sys.stderr, flush=True)

    thread = Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _line(core: Core, passed_s: float) -> str:
    """Return the progress of a simulation; ``passed_s``: real seconds so far, without compiling."""
    if COMPILING.is_compiling:
        return f"  {COMPILING.line}"
    # Read from another thread while the core goes on: figures may be of two steps.
    state, total = core.state, core.run.stated_tasks
    done = int(np.sum(state.round_J * state.scale_J))
    if not done:
        return f"  {core.policy.name}: planning, {passed_s:.0f} s"
    ended = f"{int(state.done_J.sum()):,} of {len(state.done_J):,} jobs"
    return f"  {core.policy.name}: {done:,} of {total:,} tasks, {ended}, {passed_s:.0f} s"


REFRESH_S: Final = 0.2
"""Seconds between two pictures of a bar or a table."""


def progress(run: Run) -> Attend:
    """Return an observer that shows a spinner while a plan is made, then a bar over tasks."""
    # Imported here: a simulation whose lines go to a file draws no bar.
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        ProgressColumn,
        SpinnerColumn,
        Task,
        TextColumn,
        TimeElapsedColumn,
    )
    from rich.text import Text

    class Doing(ProgressColumn):
        """Jobs that ended or, drawn by a thread of the bar's, how far compiling is."""

        def render(self, task: Task) -> Text:
            """Return the text of now."""
            return Text(COMPILING.line if COMPILING.is_compiling else task.fields["jobs"])

    @contextmanager
    def attend(core: Core) -> Iterator[Observer]:
        """Show the bar while the block runs; yield the function that moves it at each step."""
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            Doing(),
            TimeElapsedColumn(),
        )
        total = run.stated_tasks
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(f"simulating {core.policy.name}", total=None, jobs="planning")
            due = monotonic()

            def observe(state: State, _: tuple[AnyEvent, ...]) -> None:
                """Move the bar if that is due; else only look at the clock."""
                nonlocal due
                if monotonic() < due:
                    return
                due = monotonic() + REFRESH_S
                done = int(np.sum(state.round_J * state.scale_J))
                jobs = f"{int(state.done_J.sum())}/{len(run.workload.jobs)} jobs"
                bar.update(task, completed=done, total=total, jobs=jobs)

            yield observe

    return attend
