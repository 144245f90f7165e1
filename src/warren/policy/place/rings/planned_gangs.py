"""What policies that plan rings as gangs ahead of time share: the problem, the plan, the sentence.

A ring is a gang of as many devices as tasks a round. A job with parameter servers is planned as one
too: it then holds its devices to its end, and exchanges in T^s; of more tasks than devices that fit
it each device has some. Rings that cross hosts slow each other down under ``network: contention``;
under ``fluid`` plans estimate by the same formula, as if all on a link sent all of the time. Else
an exchange takes the T^s of the slowest device.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from warren.cost.ring import bandwidth_J
from warren.cost.run_rings import host_of_D, ring_exchanges, ring_network
from warren.model.costs import IntArray
from warren.model.decision import Decision, Plan
from warren.model.errors import Problem, SpecError
from warren.model.events import Event
from warren.model.units import NEVER_NS
from warren.model.view import View
from warren.policy.common.round_times import gang_sizes_J

if TYPE_CHECKING:
    from warren.solve.rings.packing import PackedRings
    from warren.solve.rings.sjf_bco import Schedule
    from warren.solve.rings.timing import PlacedRings, RingGangs, RingLinks

SLOT_NS = 10**9
"""The paper's T and theta count slots; a second here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedGangsMemory:
    """When the plan ends each job, -1 for none; the chosen theta (in slots) and kappa, or 0."""

    end_ns_J: IntArray
    theta: int = 0
    kappa: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RingProblem:
    """The view's jobs and devices as ``warren.solve`` takes them.

    ``rings`` for packing by estimates, ``gangs`` and ``links`` for times with contention;
    ``size_J``: the devices of each job, the paper's G_j.
    """

    rings: PackedRings
    gangs: RingGangs
    links: RingLinks
    size_J: IntArray


class RingPlanner:
    """The part that place policies share which plan all gangs at once; each adds ``schedule``."""

    __slots__ = ()

    name: ClassVar[str]
    offline: ClassVar[bool] = True
    needs_rounds: ClassVar[bool] = True
    plans_rings: ClassVar[bool] = True
    triggers: ClassVar[frozenset[type[Event]]] = frozenset()

    def schedule(self, view: View, problem: RingProblem) -> PlacedRings | None:
        """Place all gangs, the policy's own part; None: no schedule is within its horizon."""
        raise NotImplementedError

    def initial(self, view: View) -> PlannedGangsMemory:
        """Return the memory before the plan: no job has an end."""
        return PlannedGangsMemory(end_ns_J=np.full(len(view.jobs), -1, dtype=np.int64))

    def decide(self, view: View, memory: PlannedGangsMemory) -> tuple[Decision, PlannedGangsMemory]:
        """Make the whole plan, once.

        Raises SpecError if a ring is larger than the cluster, or no schedule keeps within the
        horizon.
        """
        if not view.jobs:
            return Decision(plan=Plan.empty()), memory
        problem = ring_problem(view, self.name)
        found = self.schedule(view, problem)
        if found is None:
            message = f"{self.name} finds no schedule that ends within this horizon; allow more"
            raise SpecError(Problem(file="policy", field="horizon", message=message))
        memory = PlannedGangsMemory(end_ns_J=found.end_ns_J, theta=found.theta, kappa=found.kappa)
        return Decision(plan=plan_of(view, problem, found)), memory

    def explain(self, view: View, memory: PlannedGangsMemory, job: int) -> str:
        """Say in one sentence where the plan has the job."""
        end_s = memory.end_ns_J[job] / 1e9
        done = f"{view.round_J[job]} of {view.rounds_J[job]} rounds are done"
        if end_s < 0:  # a run that goes on has the plan, not its estimates
            return f"{done}; the plan has a place for the others"
        how = f" (theta {memory.theta} s" + (f", kappa {memory.kappa})" if memory.kappa else ")")
        return f"{done}; the plan{how if memory.theta else ''} ends it at {end_s:.1f} s"


def ring_problem(view: View, policy: str) -> RingProblem:
    """Return the view as a problem of rings.

    Raises SpecError if a ring is larger than the part of the cluster that fits it.
    """
    from warren.solve.rings.packing import PackedRings
    from warren.solve.rings.timing import RingGangs, links

    # A ring needs a device for each of its tasks; a gang of a job with servers may have fewer.
    costs, cluster = view.costs, view.cluster
    size_J = gang_sizes_J(view)
    ring_J = np.array([job.sync == "ring" for job in view.jobs], dtype=np.bool_)
    large = np.flatnonzero(ring_J & (size_J < view.scale_J))
    if len(large):
        job = view.jobs[large.item(0)]
        message = f"a ring of {job.scale} fits {size_J[job.index]} devices; {policy} needs them all"
        raise SpecError(
            Problem(file=job.source or policy, field=f"job {job.name}", message=message)
        )
    # A gang with fewer devices than tasks: the largest share of a device, one after the other.
    turns_J = -(-view.scale_J // np.maximum(size_J, 1))
    comp_ns_JT = np.where(costs.fits_JT, costs.comp_ns_JT, 0) * turns_J[:, None]
    sync_ns_JT = np.where(costs.fits_JT, costs.sync_ns_JT, 0)
    round_ns_JT = np.where(costs.fits_JT, comp_ns_JT + sync_ns_JT, NEVER_NS)
    present_T = np.bincount(view.type_D, minlength=round_ns_JT.shape[1]) > 0
    # The devices of all gangs are one array A; those of job j are first_J[j] to first_J[j + 1].
    first_J = np.append(0, np.cumsum(size_J))
    network = ring_network(cluster)
    return RingProblem(
        rings=PackedRings(
            first_J=first_J,
            # rho-hat, constant: as many rounds as the job has, each as on the fastest type.
            rho_ns_J=view.rounds_J * round_ns_JT[:, present_T].min(axis=1),
            fits_JT=np.array(costs.fits_JT),
        ),
        gangs=RingGangs(
            first_J=first_J,
            ready_ns_J=np.array(view.arrival_ns_J),
            rounds_J=np.array(view.rounds_J),
            comp_ns_JT=comp_ns_JT,
            sync_ns_JT=sync_ns_JT,
            shared_J=ring_J & cluster.network.slows_rings,
            sent_bytes_J=ring_exchanges(view.jobs, costs).sent_bytes_J,
        ),
        links=links(
            view.type_D,
            host_of_D(cluster),
            len(cluster.hosts),
            # B of (8) by the number of contenders p, from 0 (one host) up to all devices.
            bandwidth_J(network, np.arange(len(view.type_D) + 1)),
            network.xi2_s,
        ),
        size_J=size_J,
    )


def plan_of(view: View, problem: RingProblem, found: PlacedRings) -> Plan:
    """Return the plan: one stretch a job, a row a task, shards on a gang's devices by index.

    So neighbors in the ring are on one host where they can be.
    """
    columns: list[list[Any]] = [[], [], []]
    for job in found.order_J.tolist():
        first, stop = problem.rings.first_J[job], problem.rings.first_J[job + 1]
        shard_K = np.arange(view.scale_J[job])
        columns[0].append(np.full(len(shard_K), job))
        columns[1].append(shard_K)
        columns[2].append(np.sort(found.device_A[first:stop])[shard_K % (stop - first)])
    job_R, shard_R, device_R = (np.concatenate(one).astype(np.int64) for one in columns)
    return Plan(
        job_R=job_R,
        round_R=np.zeros_like(job_R),
        rounds_R=view.rounds_J[job_R],
        shard_R=shard_R,
        device_R=device_R,
    )


def by_one_rule(
    problem: RingProblem, rule: int, horizon: int, order_J: IntArray
) -> Schedule | None:
    """Place all rings by one rule of ``rings.packing``, in this order, at the least theta.

    Theta is bisected for: SJF-BCO's Algorithm 1 with one rule for all, and so without kappa.
    """
    from warren.solve.rings.sjf_bco import SjfBcoSearch, sjf_bco

    search = SjfBcoSearch(
        small=rule, large=rule, kappas=(0,), horizon=horizon, slot_ns=SLOT_NS, by_makespan=False
    )
    return sjf_bco(problem.rings, problem.gangs, problem.links, order_J, search)
