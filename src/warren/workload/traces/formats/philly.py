"""Microsoft's Philly trace as a flat table: submission, run time, GPUs, virtual cluster.

*Source.* Jeon et al., ATC'19; the flattened form with columns ``timestamp, duration, num_gpus,
gpu_time, cluster``. Rows are not sorted, and equal rows are real: jobs submitted in bursts.

*Differs.* The trace knows run times only. A job of run time T on g GPUs becomes
ceil(T / ``round_s``) rounds of g tasks, each ``round_s`` long on every device type and without
synchronization: run alone on g devices it takes T, rounded up to whole rounds.
"""

from __future__ import annotations

from typing import Final

from warren.workload.traces.csv_cells import CsvCells, rows_of
from warren.workload.traces.format import TraceFormat
from warren.workload.traces.rows import TraceRow

_NEEDS: Final = ("timestamp", "duration", "num_gpus", "cluster")


def _row(cells: CsvCells) -> TraceRow:
    return TraceRow(
        line=cells.line,
        # The flat table has no ids.
        name=cells.row_name,
        submitted_ns=cells.when_ns("timestamp"),
        gpus=cells.count("num_gpus"),
        run_ns=cells.time_ns("duration"),
        pool=cells.text("cluster"),
    )


FORMAT: Final = TraceFormat(
    looks=lambda head: head.has(*_NEEDS),
    read=lambda request: rows_of(request, _NEEDS, _row),
)
