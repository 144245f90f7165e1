"""Alibaba's openb trace: pods of PAI in 2023, from the paper on GPU fragmentation.

*Source.* Weng et al., ATC'23 (alibaba/clusterdata, cluster-trace-gpu-v2023, ``openb_pod_list_*``):
``name, cpu_milli, memory_mib, num_gpu, gpu_milli, gpu_spec, qos, pod_phase, creation_time,
deletion_time, scheduled_time``, times in seconds.

*Differs.* A device is not shared here: a pod that asks for thousandths of a GPU gets a whole one,
and the notes count these pods. A pod runs from ``scheduled_time`` to ``deletion_time``; a pod that
was never scheduled is no job. ``gpu_spec``, the types a pod may use, is not kept: run times hold on
every device type.
"""

from __future__ import annotations

from typing import Final

from warren.workload.traces.csv_cells import CsvCells, rows_of
from warren.workload.traces.format import TraceFormat
from warren.workload.traces.rows import PART_OF_GPU, BadRow, TraceRow

_NEEDS: Final = (
    "name",
    "num_gpu",
    "gpu_milli",
    "creation_time",
    "deletion_time",
    "scheduled_time",
)


def _row(cells: CsvCells) -> TraceRow:
    if not cells.values.get("scheduled_time"):
        raise BadRow("was never scheduled")
    run_ns = cells.time_ns("deletion_time") - cells.time_ns("scheduled_time")
    if run_ns < 0:
        raise BadRow("ends before it starts")
    gpus = cells.count("num_gpu")
    # ``gpu_milli`` is in thousandths of a GPU.
    part = gpus > 0 and cells.count("gpu_milli") < 1000
    return TraceRow(
        line=cells.line,
        name=cells.name("name"),
        submitted_ns=cells.time_ns("creation_time"),
        gpus=gpus,
        run_ns=run_ns,
        remarks=(PART_OF_GPU,) if part else (),
    )


FORMAT: Final = TraceFormat(
    looks=lambda head: head.has(*_NEEDS),
    # A row without the cell ``scheduled_time`` is of a pod that was never scheduled.
    read=lambda request: rows_of(request, _NEEDS[:-1], _row),
)
