"""ElasticFlow's traces.

*Source.* Gu et al., ASPLOS'23 (pkusys/ElasticFlow): ``job_id, submit_time, iteration, model_name,
ddl, batch_size, num_gpu, duration``, in seconds; ``ddl`` is an absolute deadline.

*Differs.* An iteration is a round and takes duration / iteration on every device type, all of it
T^c. Deadlines are not used. ``batch_size`` is that of the whole round.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from warren.workload.traces.csv_cells import rows_of
from warren.workload.traces.format import TraceFormat
from warren.workload.traces.formats.stepped import duration_over_steps

_NEEDS: Final = (
    "job_id",
    "submit_time",
    "iteration",
    "model_name",
    "ddl",
    "batch_size",
    "num_gpu",
    "duration",
)


FORMAT: Final = TraceFormat(
    looks=lambda head: head.has(*_NEEDS),
    # T^c = duration / iteration, T^s = 0.
    read=lambda request: rows_of(
        request, _NEEDS, partial(duration_over_steps, types=request.types, steps="iteration")
    ),
    costs={"comp": "duration / iteration", "sync": "part of the duration"},
)
