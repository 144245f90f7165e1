"""Muri's traces: Philly's arrivals and run times, models measured on V100s.

*Source.* Zhao et al., SIGCOMM'22 (Rivendile/Muri): ``job_id, num_gpu, submit_time, iterations,
model_name, batch_size, duration, interval, iteration_time, resource_time_0/1/2, priority``, all
times in **milliseconds**.

*Differs.* An iteration is a round and takes ``iteration_time``; ``resource_time_2`` of it is T^s
(by its values the network: 0 on one GPU, growing with GPUs), the rest T^c, storage and processor
included, because stages overlap and their sum may exceed the iteration. ``duration`` is not used:
in one published file it is about 6 % off. Priorities are not used. Times hold on every device
type.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from warren.workload.traces.csv_cells import CsvCells, rows_of
from warren.workload.traces.format import TraceFormat
from warren.workload.traces.formats.stepped import stepped_row
from warren.workload.traces.rows import BadRow, TraceRow

_NEEDS: Final = (
    "job_id",
    "num_gpu",
    "submit_time",
    "iterations",
    "model_name",
    "batch_size",
    "iteration_time",
    "resource_time_2",
)
_MS: Final = 1e-3


def _row(cells: CsvCells, types: tuple[str, ...]) -> TraceRow:
    step_ms = cells.number_of("iteration_time")
    sync_ms = cells.number_of("resource_time_2")
    # T^c is the rest of the iteration and must be more than 0.
    if sync_ms >= step_ms:
        raise BadRow("iteration_time leaves nothing to compute", cells.values["iteration_time"])
    return stepped_row(
        cells, types, steps="iterations", step_s=step_ms * _MS, sync_s=sync_ms * _MS, unit_s=_MS
    )


FORMAT: Final = TraceFormat(
    looks=lambda head: head.has(*_NEEDS),
    read=lambda request: rows_of(request, _NEEDS, partial(_row, types=request.types)),
    costs={"comp": "iteration_time less resource_time_2", "sync": "resource_time_2"},
)
