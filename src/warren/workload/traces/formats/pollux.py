"""Pollux's and Sia's workloads: submissions of six applications.

*Source.* Qiao et al., OSDI'21 (petuum/adaptdl) and Subramanya et al., SOSP'23: ``name, time,
application, num_replicas, batch_size``; ``time`` in seconds, ``batch_size`` of all replicas
together. No run time: a job trains a number of epochs that its application fixes.

*Differs.* A step is a round: epochs times items over ``batch_size``, rounded up. Epochs are those
of Pollux's simulator; items an epoch follow from its validation curves (iterations an epoch at the
smallest batch, times that batch). Batch sizes do not adapt, and a larger batch needs no more
epochs. Costs are not in the trace: the run's ``profiles`` needs a row for each application, whose
batch is that of one replica.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from warren.workload.traces.csv_cells import CsvCells, rows_of
from warren.workload.traces.format import TraceFormat
from warren.workload.traces.rows import BadRow, TraceRow

_NEEDS: Final = ("name", "time", "application", "num_replicas", "batch_size")
# Epochs of a job, and items of an epoch.
_EPOCHS_ITEMS: Final[Mapping[str, tuple[int, int]]] = {
    "bert": (2, 88_641),
    "cifar10": (100, 50_000),
    "ncf": (10, 4_970_845),
    "imagenet": (90, 1_281_167),
    "deepspeech2": (80, 7_150),
    "yolov3": (50, 16_551),
}


def _row(cells: CsvCells) -> TraceRow:
    application = cells.text("application")
    if application not in _EPOCHS_ITEMS:
        raise BadRow(f"application is none of {', '.join(_EPOCHS_ITEMS)}", application)
    epochs, items = _EPOCHS_ITEMS[application]
    batch = cells.count("batch_size", 1)
    return TraceRow(
        line=cells.line,
        name=cells.name("name"),
        submitted_ns=cells.time_ns("time"),
        gpus=cells.count("num_replicas"),
        # -(-a // b) is a / b rounded up: rounds, and then the batch of one replica.
        steps=-(-epochs * items // batch),
        model=application,
        batch=-(-batch // max(1, cells.count("num_replicas"))),
    )


FORMAT: Final = TraceFormat(
    looks=lambda head: head.has(*_NEEDS),
    read=lambda request: rows_of(request, _NEEDS, _row),
)
