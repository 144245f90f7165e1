"""The port of a simulation, chosen by what the run asks for."""

from __future__ import annotations

from warren.model.costs import CostTable
from warren.model.run import Run
from warren.sim.port import SimPort


def sim_port(run: Run, costs: CostTable) -> SimPort:
    """The port for a run: one that can copy, or counts the devices at work, only where it has to.

    Raises
    ------
    SpecError
        As for ``SimPort``, or if overheads make tasks longer than time can count.
    """
    if any(job.sync == "ring" for job in run.workload.jobs):
        if run.cluster.network.model == "fluid":
            from warren.sim.network.max_min import FluidPort

            return FluidPort(run, costs)
        from warren.sim.network.ring_gangs import RingPort

        return RingPort(run, costs)
    if run.cluster.raises_times:
        from warren.sim.shared_cpu import ContendedPort  # it can copy too, so it builds on this

        return ContendedPort(run, costs)
    if run.scheduler.copies_after is None:
        return SimPort(run, costs)
    from warren.sim.speculation import CopyingPort

    return CopyingPort(run, costs)
