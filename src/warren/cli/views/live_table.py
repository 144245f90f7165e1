"""The live table: each job's present work, its progress, and its expected end."""

from __future__ import annotations

from typing import Final

import numpy as np
from rich import box
from rich.console import JustifyMethod
from rich.table import Table
from rich.text import Text

from warren.cli.views.job_progress import JobProgress
from warren.core.loop import Core
from warren.core.state import Phase, State
from warren.core.wait_reasons import reason
from warren.model.decision import Reason
from warren.model.run import Run
from warren.model.units import ns_to_seconds

_WIDEST: Final = 40
"""Names of devices are shown up to this many columns, if they fit; else their number."""
_DEVICES: Final = 4
"""The column of devices, by its place in ``_COLUMNS``."""
_FRAME_LINES: Final = 8
"""Lines of a terminal that are left to the title, the header, the caption and a margin."""
_COLUMNS: Final[tuple[tuple[str, JustifyMethod], ...]] = (
    ("job", "left"),
    ("phase", "left"),
    ("rounds", "right"),
    ("loss", "right"),
    ("devices", "left"),
    ("finish", "right"),
)
_LEAST: Final = {"phase": 14, "loss": 8, "finish": 8}
"""Largest widths of columns that grow during a run; the devices leave them room."""
_STYLES: Final = {
    Phase.PENDING: "dim",
    Phase.ACTIVE: "",
    Phase.FINISHED: "green",
    Phase.FAILED: "red",
    Phase.CANCELLED: "yellow",
}
_WAITS: Final = {
    Reason.WAITING_FOR_TURN: "waits: turn",
    Reason.WAITING_FOR_DEVICES: "waits: device",
    Reason.WAITING_FOR_BARRIER: "waits: barrier",
    Reason.PLANNED_LATER: "planned",
}
_ORDER: Final = (Phase.ACTIVE, Phase.FAILED, Phase.PENDING, Phase.FINISHED, Phase.CANCELLED)
"""Order in which jobs are shown if not all fit."""


class LiveTable:
    """The table of a live run: the core's state, beside the notes of ``progress``."""

    def __init__(self, run: Run, core: Core, progress: JobProgress) -> None:
        self._run = run
        self._core = core
        self._progress = progress
        # By phase its place in ``_ORDER``: the order in which jobs are shown.
        self._widths = [len(name) for name, _ in _COLUMNS]
        self._rank = np.zeros(len(Phase), dtype=np.int64)
        self._rank[list(_ORDER)] = np.arange(len(_ORDER))

    def draw(self, width: int, height: int) -> Table:
        """Return the table as it stands, for a terminal of this many columns and lines."""
        state = self._core.state
        shown = self._shown(state, max(3, height - _FRAME_LINES))
        rows = [self._row(state, job, width) for job in shown]
        # Columns only ever grow, so that the table does not jump about.
        self._widths = [
            max(known, *(len(row[column].plain) for row in rows)) if rows else known
            for column, known in enumerate(self._widths)
        ]
        hidden = len(state.phase_J) - len(shown)
        more = f"{hidden} more jobs; " if hidden else ""
        table = Table(
            title=self._title(state),
            title_justify="left",
            title_style="bold",
            box=box.SIMPLE_HEAD,
            pad_edge=False,
            caption=Text(f"{more}~ expected {self._progress.how}; Ctrl-C ends the run"),
            caption_justify="left",
        )
        for (name, justify), wide in zip(_COLUMNS, self._widths, strict=True):
            table.add_column(name, justify=justify, no_wrap=True, min_width=min(wide, _WIDEST))
        for job, row in zip(shown, rows, strict=True):
            table.add_row(*row, style=_STYLES[Phase(state.phase_J[job])])
        return table

    def _title(self, state: State) -> Text:
        """Return the line above the table: run, policy, time, jobs done, devices busy."""
        run, busy = self._run, int(np.count_nonzero(state.queued_D))
        now_s = ns_to_seconds(state.now_ns)
        return Text(
            f"\n{run.name} · {self._core.policy.name} · {now_s:.0f} s · "
            f"{int(state.done_J.sum())}/{len(run.workload.jobs)} jobs · "
            f"{busy}/{len(run.cluster.devices)} devices busy"
        )

    def _shown(self, state: State, most: int) -> list[int]:
        """Return the jobs that are shown, in file order.

        Where not all fit, running jobs go before failed, coming and ended ones.
        """
        # Stable: jobs of one phase stay in the order of the file.
        order = np.argsort(self._rank[state.phase_J], kind="stable")
        shown: list[int] = sorted(order[:most].tolist())
        return shown

    def _row(self, state: State, job: int, width: int) -> list[Text]:
        """Return the cells of a job; ``width``: columns of the terminal."""
        phase = Phase(state.phase_J[job])
        return [
            Text(self._run.workload.jobs[job].name),
            Text(self._phase(state, job, phase)),
            Text(self._progress.rounds(state, job)),
            Text(self._progress.loss(job)),
            Text(self._devices(state, job, width) if phase is Phase.ACTIVE else ""),
            Text(self._progress.finish(state, job)),
        ]

    def _phase(self, state: State, job: int, phase: Phase) -> str:
        """Return a job's present work, or the reason of its wait."""
        if phase is Phase.PENDING:
            return f"at {ns_to_seconds(int(state.arrival_ns_J[job])):.0f} s"
        if phase is Phase.ACTIVE:
            # Its synchronization may go on while its device computes another job already.
            if self._held(state, job) or any(one.job == job for d in state.syncing for one in d):
                return "running"
            return _WAITS.get(reason(state, job), "waiting")
        return phase.name.lower()

    def _devices(self, state: State, job: int, width: int) -> str:
        """Return the names of the devices that a job has; their number where names do not fit."""
        names = [self._run.cluster.devices[device].name for device in self._held(state, job)]
        grown = [
            max(wide, _LEAST.get(name, 0))
            for (name, _), wide in zip(_COLUMNS, self._widths, strict=True)
        ]
        # The width that all other columns may need, with three for the space between two columns.
        others = sum(grown) - grown[_DEVICES] + 3 * len(_COLUMNS)
        if len(" ".join(names)) > min(width - others, _WIDEST):
            return f"{len(names)}" if names else ""
        return " ".join(names)

    def _held(self, state: State, job: int) -> list[int]:
        """Return the devices that have a job at the head of their queue."""
        return [d for d, queue in enumerate(state.queues) if queue and queue[0].job == job]
