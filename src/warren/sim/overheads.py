"""What sharing a machine with Warren's own processes and with other devices costs a task.

A profile row measured alone says T^c, the time a task computes on an idle machine, and T^s, what
lies between its end and its job's next round: update out, barrier, next state in. Two things are
not in it. While a device has other work its COMP lane waits for the next task to be handed over,
or, when all cores are busy, for the processor time ``o`` of controller, executors and servers; and
a task computes more slowly when the other cores compute too. For b devices at work on P cores::

    y    = T^c (1 + (slowdown - 1) (min(b, P) - 1) / (P - 1))
    o    = as measured with the row, or from the constants:
           task + bytes / task_rate + (round + bytes / round_rate) / scale
    x    = max(dispatch, (y + o) b / P - y)   where b >= P, else dispatch
    T^c' = y + x
    T^s' = max(0, T^s - dispatch)

Handing over was part of T^s when the job ran alone, so it is taken out there: with cores to spare a
job alone takes T^c + T^s as measured. The rest of x is not: what o takes from tasks on a full
machine comes on top of a barrier's latency. ``warren.sim.shared_cpu`` counts b. What this leaves
out stands in docs/decisions/0010.
"""

from __future__ import annotations

import numpy as np

from warren.model.costs import CostTable
from warren.model.errors import Problem, SpecError
from warren.model.overheads import Overheads
from warren.model.run import Run
from warren.model.units import NEVER_NS, NS_PER_S


def raised_costs(run: Run, costs: CostTable, at_work: int) -> CostTable:
    """The costs of a run with measured overheads while ``at_work`` devices are, 1 or more.

    Raises
    ------
    SpecError
        If a job would then take longer than time can count.
    """
    overheads = run.cluster.overheads
    assert overheads is not None, "without them nothing is raised"
    comp_ns_JT, sync_ns_JT = np.array(costs.comp_ns_JT), np.array(costs.sync_ns_JT)
    for job, kind in zip(*np.nonzero(costs.fits_JT), strict=True):
        comp_ns, sync_ns = int(comp_ns_JT[job, kind]), int(sync_ns_JT[job, kind])
        cpu_ns = _cpu_ns(run, costs, overheads, int(job), int(kind))
        raised = raised_ns(overheads, at_work, comp_ns, sync_ns, cpu_ns)
        _check_length(run, int(job), sum(raised))
        comp_ns_JT[job, kind], sync_ns_JT[job, kind] = raised
    return CostTable(
        comp_ns_JT=comp_ns_JT,
        sync_ns_JT=sync_ns_JT,
        fits_JT=costs.fits_JT,
        model_bytes_J=costs.model_bytes_J,
        overhead_ns_JT=costs.overhead_ns_JT,
        build_ns_JT=costs.build_ns_JT,
    )


def _cpu_ns(run: Run, costs: CostTable, overheads: Overheads, job: int, kind: int) -> float:
    """``o`` as it was measured with the job's row, else from the constants."""
    if costs.overhead_ns_JT is not None and costs.overhead_ns_JT[job, kind] >= 0:
        return float(costs.overhead_ns_JT[job, kind])
    model_bytes = 0 if costs.model_bytes_J is None else int(costs.model_bytes_J[job])
    return processor_ns(overheads, model_bytes, run.workload.jobs[job].scale)


def processor_ns(overheads: Overheads, model_bytes: int, scale: int) -> float:
    """``o``: processor time that Warren's own processes spend on one task, nanoseconds."""
    task_s_per_byte = _inverse(overheads.task_cpu_bytes_per_s)
    round_s_per_byte = _inverse(overheads.round_cpu_bytes_per_s)
    task_ns = overheads.task_cpu_ns + model_bytes * task_s_per_byte * NS_PER_S
    round_ns = overheads.round_cpu_ns + model_bytes * round_s_per_byte * NS_PER_S
    return task_ns + round_ns / scale


def raised_ns(
    overheads: Overheads, at_work: int, comp_ns: int, sync_ns: int, cpu_ns: float
) -> tuple[int, int]:
    """T^c' and T^s' of a task with this T^c, T^s and ``o``; ``at_work`` is b."""
    cores, dispatch_ns = overheads.cores, overheads.dispatch_ns
    busy = (min(at_work, cores) - 1) / (cores - 1) if cores > 1 else 1.0
    computing_ns = comp_ns * (1 + (overheads.slowdown - 1) * busy)
    added_ns = float(dispatch_ns)
    if at_work >= cores:
        added_ns = max(added_ns, (computing_ns + cpu_ns) * at_work / cores - computing_ns)
    return round(computing_ns + added_ns), max(0, round(sync_ns - dispatch_ns))


def _check_length(run: Run, index: int, task_ns: int) -> None:
    job = run.workload.jobs[index]
    if (job.rounds or 1) * job.scale * task_ns + job.arrival_ns >= NEVER_NS:
        message = "with the overheads its tasks one after another would take more than 146 years"
        raise SpecError(Problem(file=run.name, field=f"job {job.name}", message=message))


def _inverse(bytes_per_s: float | None) -> float:
    return 0.0 if bytes_per_s is None else 1.0 / bytes_per_s
