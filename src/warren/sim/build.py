"""The port and the costs of a simulation, chosen by what the run asks for."""

from __future__ import annotations

from warren.cost.run_rings import with_rings
from warren.cost.switching import with_switching
from warren.model.costs import CostTable
from warren.model.run import Run
from warren.sim.port import SimPort


def simulated_costs(run: Run, costs: CostTable) -> CostTable:
    """The costs that policies see and bounds count with in virtual time.

    Beside the profile's: what a device pays between jobs, and the exchanges of rings.

    Raises
    ------
    SpecError
        If switching makes tasks longer than time can count.
    """
    if run.cluster.switching is not None:
        costs = with_switching(run, costs)
    return with_rings(run, costs) if has_rings(run) else costs


def has_rings(run: Run) -> bool:
    """Whether a job of the run is a ring."""
    return any(job.sync == "ring" for job in run.workload.jobs)


def sim_port(run: Run, costs: CostTable) -> SimPort:
    """The port for a run: one that can copy, or counts the devices at work, only where it has to.

    Raises
    ------
    SpecError
        As for ``SimPort``, or if overheads make tasks longer than time can count.
    """
    if has_rings(run):
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
