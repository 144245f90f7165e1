"""The port and the costs of a simulation, chosen by the features of the run.

A part is imported where it is chosen: most runs need few of them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from warren.model.costs import CostTable
from warren.model.errors import Problem, SpecError
from warren.model.run import Run
from warren.sim.lanes import Lanes
from warren.sim.port import Parts, SimPort, may_classify
from warren.sim.task_durations import TaskDurations, check_simulable

if TYPE_CHECKING:
    from warren.sim.network.link_flows import LinkFlows
    from warren.sim.network.ring_gangs import GangsAtWork, RoundEnds


def simulated_costs(run: Run, costs: CostTable) -> CostTable:
    """Return the costs that policies see and bounds count with in virtual time.

    Besides the profile's costs they hold a device's time between jobs, the exchanges of rings, and
    the pushes of jobs whose servers are on links.

    Raises
    ------
    SpecError
        If switching makes tasks longer than time can count.
    """
    if run.cluster.switching is not None:
        from warren.cost.switching import with_switching

        costs = with_switching(run, costs)
    if run.cluster.network.model == "fluid":
        from warren.cost.run_servers import with_servers

        costs = with_servers(run, costs)
    if has_rings(run):
        from warren.cost.run_rings import with_rings

        costs = with_rings(run, costs)
    return costs


def has_rings(run: Run) -> bool:
    """Tell whether a job of the run is a ring."""
    return any(job.sync == "ring" for job in run.workload.jobs)


def sim_port(run: Run, costs: CostTable) -> SimPort:
    """Return the port for a run, made of the parts that it needs.

    Raises
    ------
    SpecError
        As for ``SimPort``, or if overheads make tasks too long to count.
    """
    return SimPort(run, costs, parts_of(run, costs))


def parts_of(run: Run, costs: CostTable) -> Parts:
    """Choose the parts of a run's simulation; parts that it does not need are absent.

    Raises
    ------
    SpecError
        As for ``sim_port``.
    """
    check_simulable(run)
    is_fluid, has_servers = run.cluster.network.model == "fluid", False
    if is_fluid:
        from warren.cost.run_servers import linked_J

        has_servers = any(linked_J(run, costs))
    if has_servers:
        check_linked(run)
    processors, flows, servers, copies = None, None, None, None
    if run.cluster.raises_times:
        from warren.sim.shared_cpu import SharedProcessors
        from warren.sim.verified_tasks import VerifiedTasks

        # The extra time of a task after one of another job was measured with its row.
        costs = replace(costs, switch_ns_JT=costs.turn_ns_JT)
        processors = SharedProcessors(run, costs)
        lanes = Lanes(run, costs, processors, VerifiedTasks(run))
    else:
        lanes = Lanes(run, costs, TaskDurations(run, costs))
    if is_fluid and (has_servers or may_classify(run)):
        # numba is loaded only here, where links are shared in compiled code.
        from warren.sim.network.link_flows import LinkFlows
        from warren.sim.network.server_rounds import ServerRounds

        flows = LinkFlows(run, lanes, tells_classes=may_classify(run))
        servers = ServerRounds(run, costs, lanes, flows) if has_servers else None
    if run.scheduler.copies_after is not None:
        from warren.sim.speculation import TaskCopies

        copies = TaskCopies(lanes)
    hosts = None
    if run.truth.absences:
        if servers is None:
            message = "needs network: {model: fluid}, and a job whose model has a known size"
            raise SpecError(Problem(file=run.name, field="truth.absences", message=message))
        from warren.sim.opportunistic_hosts import OpportunisticHosts

        hosts = OpportunisticHosts(run, lanes, servers)
    after = None
    if run.truth.after:
        from warren.sim.jobs_after_others import JobsAfterOthers

        after = JobsAfterOthers(run, lanes)
    return Parts(
        lanes=lanes,
        after=after,
        rings=_gangs(run, costs, lanes, flows) if has_rings(run) else None,
        flows=flows,
        servers=servers,
        hosts=hosts,
        copies=copies,
        processors=processors,
    )


def check_linked(run: Run) -> None:
    """Refuse features that are not simulated yet for jobs whose servers are on links.

    Raises
    ------
    SpecError
        For copies of late tasks, and for measured overheads of tasks.
    """
    cluster, problems = run.cluster, []
    why = "jobs with servers are on links under network: {model: fluid}"
    if run.scheduler.copies_after is not None:
        message = f"{why}, where tasks are not copied yet; allowed: no copies, or another network"
        problems.append(Problem(file=run.name, field="scheduler.copies_after", message=message))
    if cluster.raises_times:
        message = f"{why}, where overheads are not counted yet; allowed: none, or another network"
        problems.append(Problem(file=run.name, field="cluster.overheads", message=message))
    if problems:
        raise SpecError(problems)


def _gangs(run: Run, costs: CostTable, lanes: Lanes, flows: LinkFlows | None) -> GangsAtWork:
    """Return the part that runs rings, with the network that the cluster names."""
    from warren.sim.network.contention import PricedRounds
    from warren.sim.network.fluid import FluidRounds
    from warren.sim.network.gang_starts import GangStarts
    from warren.sim.network.ring_gangs import GangsAtWork

    # ``PricedRounds`` stands for three models: under ``constant`` and ``lane`` an exchange is T^s.
    round_ends: RoundEnds
    if flows is not None:
        from warren.sim.network.linked_rings import LinkedRings

        round_ends = LinkedRings(run, costs, lanes, flows)
    elif run.cluster.network.model == "fluid":
        round_ends = FluidRounds(run, costs, lanes)
    else:
        round_ends = PricedRounds(run, costs, lanes)
    starts = GangStarts(run, costs) if run.cluster.delays_gangs else None
    return GangsAtWork(run, lanes, round_ends, starts)
