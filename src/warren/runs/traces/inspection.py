"""A description of a trace, or of the workload of a run file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from warren.model.run import Run
from warren.runs.inputs import run_of
from warren.runs.traces.table_columns import ProposedTable, proposed_table
from warren.runs.traces.trace_source import TraceOptions, trace_request
from warren.workload.traces.read_trace import TraceRows, read_rows
from warren.workload.traces.rows import TraceRow, UnusedRows

YAML: Final = (".yaml", ".yml")
"""Ends of the names of run files and cluster files; no trace has one of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectedTrace:
    """A trace as ``warren trace inspect`` describes it.

    ``summary``: the output of ``--json``. ``proposed``: the reading of its columns, if it is a
    table that Warren does not know.
    """

    summary: Mapping[str, Any]
    proposed: ProposedTable | None


def inspect_trace(asked: TraceOptions) -> InspectedTrace:
    """Summarize a trace, or the jobs that a run file (``.yaml``) lists, reads or generates.

    Raises SpecError if the file cannot be read, or is no trace and no table.
    """
    # Imported here, since only this needs numpy before a trace is read.
    from warren.workload.traces.summary import summary_of

    proposed = None
    if asked.file.endswith(YAML):
        found = _of_run(run_of(asked.file, None, ()))
    else:
        name, request, table = trace_request(asked, proposing=True)
        found = read_rows(name, replace(request, look=True))
        proposed = None if table is None else proposed_table(asked.file, table)
    summary = {"file": asked.file, **summary_of(found)}
    if proposed is not None:
        summary["proposed"] = proposed.spec
    return InspectedTrace(summary=summary, proposed=proposed)


def _of_run(run: Run) -> TraceRows:
    """Return a run's jobs as rows of a trace.

    They have run times where all of the run's costs are known without measuring: that of a job is
    its rounds, T^c + T^s each, on the type that is fastest for it.
    """
    import numpy as np

    from warren.profile.cost_table import cost_table, missing

    jobs = run.workload.jobs
    best_ns: list[int | None] = [None] * len(jobs)
    if not missing(run):
        costs = cost_table(run)
        # Where a job does not fit, T^c is NEVER_NS already; twice that would not fit into 64 bits.
        sync_ns_JT = np.where(costs.fits_JT, costs.sync_ns_JT, 0)
        best_ns = (costs.comp_ns_JT + sync_ns_JT).min(axis=1).tolist()
    rows = [
        TraceRow(
            line=job.index + 1,
            name=job.name,
            submitted_ns=job.arrival_ns,
            gpus=job.scale,
            run_ns=None if task_ns is None or job.rounds is None else job.rounds * task_ns,
            steps=job.rounds,
            model=job.model or "",
            batch=job.batch,
            weight=job.weight,
            user=job.user,
            group=job.group,
        )
        for job, task_ns in zip(jobs, best_ns, strict=True)
    ]
    return TraceRows(
        format="run file", rows=tuple(rows), unused=UnusedRows(), notes=run.workload.notes
    )
