"""What a person sees while a run goes on: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from time import monotonic
from typing import Any, Final

import numpy as np
from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from warren.cli.compose import Attend
from warren.core.loop import Core, Observer
from warren.core.state import Phase, State
from warren.model.events import AnyEvent, JobFailed, RoundsDone
from warren.model.run import Run
from warren.model.units import ns_to_seconds

REFRESH_S: Final = 0.2
LINES_S: Final = 5.0


def progress(run: Run) -> Attend:
    """A progress bar over jobs, on standard error."""

    @contextmanager
    def attend(core: Core) -> Iterator[Observer]:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("jobs"),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(f"simulating {core.policy.name}", total=len(run.workload.jobs))
            last = 0.0

            def observe(state: State, _: tuple[AnyEvent, ...]) -> None:
                nonlocal last
                if monotonic() - last > REFRESH_S:
                    last = monotonic()
                    bar.update(task, completed=int(state.done_J.sum()))

            yield observe

    return attend


def live_view(run: Run) -> Attend:
    """A live table on a terminal; elsewhere a line when a job ends and every few seconds."""
    return _table_view(run) if sys.stderr.isatty() else _line_view(run)


def _table_view(run: Run) -> Attend:
    def attend(core: Core) -> AbstractContextManager[Observer]:
        return _watch_table(run, core)

    return attend


@contextmanager
def _watch_table(run: Run, core: Core) -> Iterator[Observer]:
    losses: dict[int, float] = {}
    last = 0.0
    with Live(console=Console(stderr=True), refresh_per_second=8, transient=True) as live:

        def observe(state: State, events: tuple[AnyEvent, ...]) -> None:
            nonlocal last
            _note_losses(losses, events)
            if monotonic() - last > REFRESH_S:
                last = monotonic()
                live.update(_table(run, core, losses))

        yield observe


def _line_view(run: Run) -> Attend:
    @contextmanager
    def attend(core: Core) -> Iterator[Observer]:
        last = monotonic()

        def observe(state: State, events: tuple[AnyEvent, ...]) -> None:
            nonlocal last
            for event in events:
                _say_end(run, event)
            if monotonic() - last > LINES_S:
                last = monotonic()
                done, total = int(state.done_J.sum()), len(run.workload.jobs)
                busy = int((state.queued_D > 0).sum())
                now_s = ns_to_seconds(state.now_ns)
                _err(f"{now_s:9.1f} s  {done}/{total} jobs ended, {busy} devices busy")

        yield observe

    return attend


def _say_end(run: Run, event: AnyEvent) -> None:
    now_s = ns_to_seconds(event.time_ns)
    if isinstance(event, RoundsDone) and event.finished:
        job = run.workload.jobs[event.job]
        loss = "" if event.loss is None else f", loss {event.loss:.4g}"
        rounds = event.round + event.rounds
        _err(f"{now_s:9.1f} s  {job.name} finished after {rounds} rounds{loss}")
    elif isinstance(event, JobFailed):
        _err(f"{now_s:9.1f} s  {run.workload.jobs[event.job].name} FAILED: {event.reason}")


def _err(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _note_losses(losses: dict[int, float], events: tuple[AnyEvent, ...]) -> None:
    for event in events:
        if isinstance(event, RoundsDone) and event.loss is not None:
            losses[event.job] = event.loss


def _table(run: Run, core: Core, losses: Mapping[int, float]) -> Table:
    state = core.state
    busy, devices = int((state.queued_D > 0).sum()), len(run.cluster.devices)
    title = (
        f"{run.name} · {core.policy.name} · {ns_to_seconds(state.now_ns):.0f} s · "
        f"{int(state.done_J.sum())}/{len(run.workload.jobs)} jobs · {busy}/{devices} devices busy"
    )
    table = Table(title=title, title_justify="left", expand=False)
    for column in ("job", "phase", "rounds", "loss", "devices", "finish (est.)"):
        table.add_column(column, justify="left" if column in ("job", "devices") else "right")
    for job in _shown(state):
        table.add_row(*_row(run, state, job, losses))
    return table


def _shown(state: State, most: int = 24) -> list[int]:
    """Active jobs first, then those to come, then the last that ended."""
    order = np.lexsort((np.arange(len(state.phase_J)), state.phase_J != Phase.ACTIVE))
    shown: list[int] = sorted(order[:most].tolist())
    return shown


def _row(run: Run, state: State, job: int, losses: Mapping[int, float]) -> tuple[str, ...]:
    held = [
        run.cluster.devices[device].name
        for device, queue in enumerate(state.queues)
        if queue and queue[0].job == job
    ]
    loss = f"{losses[job]:.4g}" if job in losses else ""
    total = state.rounds_J[job] if state.rounds_J[job] >= 0 else "?"
    phase = Phase(state.phase_J[job]).name.lower()
    return (
        run.workload.jobs[job].name,
        phase,
        f"{state.round_J[job]}/{total}",
        loss,
        " ".join(held[:4]) + (" ..." if len(held) > 4 else ""),
        _finish_estimate(state, job),
    )


def _finish_estimate(state: State, job: int) -> str:
    """At the pace since arrival; empty before the first round and when the end is unknown."""
    done, total = int(state.round_J[job]), int(state.rounds_J[job])
    if done <= 0 or total < 0 or state.done_J[job]:
        return ""
    since = state.now_ns - int(state.arrival_ns_J[job])
    return f"{ns_to_seconds(state.now_ns + since * (total - done) // done):.0f} s"


def summary_lines(values: Mapping[str, Any], notes: Sequence[str] = ()) -> list[str]:
    """A summary for people."""
    lines = [*notes]
    lines.append(
        f"{values['run']}: {values['scheduler']['place']}, grain {values['grain']}: "
        f"{values['finished']}/{values['jobs']} jobs finished, {values['tasks']} tasks"
    )
    if values["mean_jct_s"] is not None:
        lines.append(
            f"mean JCT {values['mean_jct_s']:.1f} s, p95 {values['p95_jct_s']:.1f} s, weighted "
            f"{values['weighted_jct_s']:.1f} s, makespan {values['makespan_s']:.1f} s, "
            f"utilization {100 * values['utilization']:.1f} %"
        )
    gap = (values.get("gap") or {}).get("weighted_jct")
    if gap is not None:
        lines.append(
            f"weighted JCT is at most {100 * gap:.1f} % above the best any schedule can do"
        )
    lines.append(f"decided in {values['decide_s']:.3f} s, {values['wall_s']:.2f} s in all")
    return lines
