"""Tiresias's traces.

*Source.* Gu et al., NSDI'19 (SymbioticLab/Tiresias): ``job_id, num_gpu, submit_time, iterations,
model_name, duration, interval``, in seconds. Muri's tables have these columns too, in milliseconds.

*Differs.* An iteration is a round and takes duration / iterations on every device type, all of it
T^c: a job on its GPUs takes its duration.
"""

from __future__ import annotations

from typing import Final

from warren.workload.traces.format import Format
from warren.workload.traces.stepped import duration_over_steps

_NEEDS: Final = ("job_id", "num_gpu", "submit_time", "iterations", "model_name", "duration")

FORMAT: Final = Format(
    what="Tiresias",
    looks=lambda head: head.has(*_NEEDS) and "iteration_time" not in head.columns,
    read=duration_over_steps(_NEEDS, "iterations"),
    costs={"comp": "duration / iterations", "sync": "part of the duration"},
)
