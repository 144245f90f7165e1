"""SenseTime's Helios trace: ``cluster_log.csv`` of one of its four clusters.

*Source.* Hu et al., SC'21 (S-Lab-System-Group/HeliosData): ``job_id, user, vc, gpu_num, cpu_num,
node_num, state, submit_time, start_time, end_time, duration, queue``; times as
``YYYY-MM-DD HH:MM:SS``, ``duration`` the run time in seconds.

*Differs.* Half of the rows ask for no GPU: they are counted and left out. Jobs that completed,
failed or were cancelled are all jobs. Costs are those of run times only.
"""

from __future__ import annotations

from typing import Final

from warren.workload.traces.csv_cells import CsvCells, rows_of
from warren.workload.traces.format import TraceFormat
from warren.workload.traces.rows import TraceRow

_NEEDS: Final = ("job_id", "gpu_num", "submit_time", "duration")


def _row(cells: CsvCells) -> TraceRow:
    return TraceRow(
        line=cells.line,
        name=cells.name("job_id"),
        submitted_ns=cells.when_ns("submit_time"),
        # ``gpu_num`` is of the whole job, on all its nodes; 0 leaves the row out.
        gpus=cells.count("gpu_num"),
        run_ns=cells.time_ns("duration"),
        user=cells.text("user"),
        pool=cells.text("vc"),
    )


FORMAT: Final = TraceFormat(
    looks=lambda head: head.has(*_NEEDS),
    read=lambda request: rows_of(request, _NEEDS, _row),
)
