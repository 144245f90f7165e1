"""``warren check --cost``: a job's task is timed with deterministic kernels and without."""

from __future__ import annotations

from pathlib import Path

import msgspec

from warren.live.oracle.kernel_costs import CostReport, TaskCost
from warren.live.oracle.probe_pool import ProbeEnded, ProbePool
from warren.live.process.specs import CostRole
from warren.model.job import Job


def cost_of_job(
    pool: ProbePool, job: Job, base: str, gpu: tuple[int, str] | None = None
) -> CostReport:
    """Time a task of a job in a process of its own.

    ``gpu``: the number and the name of the GPU to compute on; None: the CPU.
    """
    number, device = (None, "a processor") if gpu is None else gpu
    log, result = (str(Path(pool.folder, name)) for name in ("cost.log", "cost"))
    try:
        output = pool.output_of(CostRole(base, job, log, result, number))
        cost = msgspec.json.decode(output, type=TaskCost)
    except ProbeEnded as error:
        cost = TaskCost(error=str(error))
    return CostReport(job.name, device, cost)
