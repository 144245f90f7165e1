"""Tiresias's traces.

*Source.* Gu et al., NSDI'19 (SymbioticLab/Tiresias): ``job_id, num_gpu, submit_time, iterations,
model_name, duration, interval``, in seconds; an older form has no ``iterations``. Muri's tables
have these columns too, in milliseconds.

*Differs.* An iteration is a round and takes duration / iterations on every device type, all of it
T^c: a job on its GPUs takes its duration. Without iterations costs are those of run times only.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from warren.workload.traces.csv_cells import CsvCells, rows_of
from warren.workload.traces.format import TraceFormat
from warren.workload.traces.formats.stepped import duration_over_steps
from warren.workload.traces.rows import TraceRow

_NEEDS: Final = ("job_id", "num_gpu", "submit_time", "model_name", "duration")


def _row(cells: CsvCells, types: tuple[str, ...]) -> TraceRow:
    if "iterations" in cells.values:
        return duration_over_steps(cells, types, "iterations")
    return TraceRow(
        line=cells.line,
        name=cells.name("job_id"),
        submitted_ns=cells.time_ns("submit_time"),
        gpus=cells.count("num_gpu"),
        run_ns=cells.time_ns("duration"),
        model=cells.text("model_name"),
    )


FORMAT: Final = TraceFormat(
    looks=lambda head: (
        # Muri's and ElasticFlow's tables have these columns too, and one of their own.
        head.has(*_NEEDS) and not any(name in head.columns for name in ("iteration_time", "ddl"))
    ),
    read=lambda request: rows_of(request, _NEEDS, partial(_row, types=request.types)),
    costs={"comp": "duration / iterations, or length of a round", "sync": "part of the duration"},
)
