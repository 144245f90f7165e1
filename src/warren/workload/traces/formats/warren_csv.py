"""Warren's own ``jobs.csv``, written by hand or by a run.

*Source.* ``docs/reference/jobs-file.md``: ``job, arrival_s, model, batch, scale, rounds, weight,
sync, user, group, app, seed``; the table of a run's results has more columns, which are not used.

*Differs.* As a trace, rows that are wrong are counted and left out, where a jobs file is refused.
Apps, seeds and ``sync`` are not kept: a trace is only simulated. Costs are those of ``model``.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from warren.workload.traces.csv_cells import CsvCells, rows_of
from warren.workload.traces.format import TraceFormat, TraceHead
from warren.workload.traces.rows import BadRow, NoJob, TraceRequest, TraceRow


def _read(request: TraceRequest) -> Iterator[TraceRow | NoJob]:
    return rows_of(request, ("job",), partial(_row, look=request.look))


def _row(cells: CsvCells, look: bool) -> TraceRow:
    # Empty cells have the defaults of a jobs file.
    given = cells.values
    weight = cells.number_of("weight") if given.get("weight") else 1.0
    if weight <= 0:
        raise BadRow("weight is not more than 0", given["weight"])
    # Only looked at, a row needs no costs.
    if not look and not given.get("model"):
        raise BadRow("names no model: its costs are not known")
    return TraceRow(
        line=cells.line,
        name=cells.name("job"),
        submitted_ns=cells.time_ns("arrival_s") if given.get("arrival_s") else 0,
        gpus=cells.count("scale", 1) if given.get("scale") else 1,
        steps=cells.count("rounds", 1) if given.get("rounds") else None,
        model=cells.text("model"),
        batch=cells.count("batch", 1) if given.get("batch") else 1,
        weight=weight,
        user=cells.text("user"),
        group=cells.text("group"),
    )


def _looks(head: TraceHead) -> bool:
    """Tell whether a table has Warren's columns; tables of others have a column ``job`` too."""
    return head.has("job") and any(map(head.has, ("arrival_s", "scale", "rounds", "model")))


FORMAT: Final = TraceFormat(looks=_looks, read=_read)
