"""A person's view of a live run: a table on a terminal, elsewhere lines.

The observers here are called at every step of the core, so they look at the clock and little else
unless it is time to draw.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from time import monotonic
from typing import Final

import numpy as np
from rich.console import Console
from rich.live import Live

from warren.cli.views.job_progress import JobProgress
from warren.cli.views.live_table import LiveTable
from warren.cli.views.progress import LINES_S, REFRESH_S
from warren.core.loop import Core, Observer
from warren.core.state import Phase, State
from warren.model.events import (
    AnyEvent,
    HostJoined,
    HostLeft,
    JobCancelled,
    JobFailed,
    RoundsDone,
    ServersMoved,
)
from warren.model.run import Run
from warren.model.units import ns_to_seconds
from warren.report.number_text import count
from warren.runs.compose import Attend
from warren.runs.studies.expected_ends import predicted_ends

_SELDOM: Final = 0.1
"""Lines come this share of the time passed apart: the log of a long run stays short."""
_MOST_S: Final = 60.0
"""Most seconds between two lines."""
_SHOWN: Final = (ServersMoved, HostLeft, HostJoined, JobFailed, JobCancelled)
"""Kinds of events that have a line each."""
_JOBS: Final = 10
"""Most jobs with a line each."""


def live_view(run: Run, folder: str, past: Sequence[RoundsDone] = ()) -> Attend:
    """Make the observer of a live run: a table on a terminal, elsewhere lines.

    There is a line when a job ends, and now and then one a job. ``past``: the rounds that were done
    before a resumed run was cut off.
    """
    is_terminal = sys.stderr.isatty()
    # Before the run begins: the simulation that predicts ends would take time from it.
    far = JobProgress(run, predicted_ends(run))
    for event in past:
        far.note(event)

    def attend(core: Core) -> AbstractContextManager[Observer]:
        """Announce the run; return its observer."""
        jobs = count(len(run.workload.jobs), "job")
        devices = count(len(run.cluster.devices), "device")
        what = f"training {jobs} on {devices} under {core.policy.name}"
        _err(f"{what} into {folder}; times are cluster seconds")
        if not is_terminal:
            return _watch_lines(run, core, far)
        return _watch_table(run, LiveTable(run, core, far), far)

    return attend


@contextmanager
def _watch_table(run: Run, table: LiveTable, far: JobProgress) -> Iterator[Observer]:
    """Show the table while the block runs; jobs that fail get a line above it, which stays."""
    due = monotonic()
    console = Console(stderr=True)
    # Drawn by the core's thread alone: the state changes only between two calls of ``observe``.
    with Live(console=console, auto_refresh=False, transient=True) as live:

        def observe(state: State, events: tuple[AnyEvent, ...]) -> None:
            """Take the events of a step, and draw the table if that is due."""
            nonlocal due
            for event in events:
                # Exact types: they are quicker to compare than subclasses are to tell.
                if type(event) is RoundsDone:
                    far.note(event)
                elif type(event) in _SHOWN:
                    console.print(_end_line(run, event), markup=False, highlight=False)
            if monotonic() < due:
                return
            due = monotonic() + REFRESH_S
            live.update(table.draw(console.width, console.height), refresh=True)

        yield observe


@contextmanager
def _watch_lines(run: Run, core: Core, far: JobProgress) -> Iterator[Observer]:
    """Print a line when a job ends or servers move, and from time to time how far all are."""
    begin = monotonic()
    due = begin + LINES_S

    def observe(state: State, events: tuple[AnyEvent, ...]) -> None:
        """Take the events of a step, and print the lines that are due."""
        nonlocal due
        for event in events:
            if type(event) is RoundsDone:
                far.note(event)
            if type(event) in (RoundsDone, *_SHOWN) and (line := _end_line(run, event)):
                _err(line)
        now = monotonic()
        if now < due:
            return
        due = now + min(max((now - begin) * _SELDOM, LINES_S), _MOST_S)
        # Times are those of the core, in cluster seconds, not those of the clock here.
        done, total = int(state.done_J.sum()), len(run.workload.jobs)
        # Not how many devices are busy: at the end of a round, when this is called, few are.
        _err(f"{ns_to_seconds(state.now_ns):9.1f} s  {done}/{total} jobs ended")
        active = np.flatnonzero(state.phase_J == Phase.ACTIVE).tolist()
        for job in active[:_JOBS]:
            _err(f"{'':11}  {far.line(state, job)}")
        if len(active) > _JOBS:
            _err(f"{'':11}  and {len(active) - _JOBS} more")

    yield observe


def _err(text: str) -> None:
    """Print a line on standard error at once."""
    print(text, file=sys.stderr, flush=True)


def _end_line(run: Run, event: AnyEvent) -> str:
    """Return one line for an end of a job, a move of its servers, or a host; else nothing."""
    now_s = ns_to_seconds(event.time_ns)
    if isinstance(event, RoundsDone) and event.finished:
        job = run.workload.jobs[event.job]
        loss = "" if event.loss is None else f", loss {event.loss:.4g}"
        return (
            f"{now_s:9.1f} s  {job.name} finished after {event.round + event.rounds} rounds{loss}"
        )
    if isinstance(event, ServersMoved):
        name, count = run.workload.jobs[event.job].name, len(event.servers)
        if event.reason:
            return f"{now_s:9.1f} s  {name}: its servers stay where they are: {event.reason}"
        return (
            f"{now_s:9.1f} s  {name}: round {event.round} begins at {count} servers; "
            f"{event.far_bytes / 1e6:.4g} MB came from other hosts, "
            f"{ns_to_seconds(event.took_ns):.3g} s after the barrier"
        )
    if isinstance(event, HostLeft | HostJoined):
        what = "is gone" if isinstance(event, HostLeft) else "is there"
        return f"{now_s:9.1f} s  host {run.cluster.hosts[event.host].name} {what}"
    if isinstance(event, JobFailed):
        return f"{now_s:9.1f} s  {run.workload.jobs[event.job].name} FAILED: {event.reason}"
    if isinstance(event, JobCancelled):
        return f"{now_s:9.1f} s  {run.workload.jobs[event.job].name} was cancelled"
    return ""
