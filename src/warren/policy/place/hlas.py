"""HLAS: jobs that have attained least go first, on groups of GPUs that are equally fast.

What
    Devices are put into groups that are about equally fast for every job. A job's attained service
    is its rounds so far times its mean time of a round on a group. It sets the job's queue of K;
    a group that is idle takes the highest queue that is not empty: the rest of a round that is
    partly scheduled, else the first job of the queue.
Source
    Hare with HLAS (TCC'24), section IV, Algorithms 1-3, equations (4)-(6).
Differs
    Algorithm 1 loops over GPUs and Algorithm 3 lacks a break; as in the text, a group is what is
    scheduled, once all its devices are idle, and it takes one job: a task on each device that fits
    the job, fastest first, as far as the round has tasks. Of several idle groups the fastest is
    served first; the paper does not say which. A queue is first in, first out by
    arrival, so that a job which stays in its queue keeps its place. At a coarse grain a stretch
    needs all its tasks placed at once: a job then takes as many idle groups as it has tasks for,
    and several tasks a device where these are too few. The paper gives no thresholds: see
    ``queues``. It gives no number of groups but that of its simulations, one for four GPUs. Groups
    are made when the first job arrives, from the jobs that are known then. ``age`` is ours: a job
    whose arrival is so long ago stands in a queue before all others, so that no stream of short
    jobs keeps it waiting for ever. Weights count for nothing: the paper's aim is the mean JCT.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar

from warren.model.cluster import Cluster
from warren.model.costs import CostTable
from warren.model.decision import NOTHING, Decision
from warren.model.events import (
    CompDone,
    Event,
    JobArrived,
    JobCancelled,
    JobFailed,
    RolledBack,
    RoundsDone,
)
from warren.model.units import parse_time_s, seconds_to_ns
from warren.model.view import View
from warren.policy.place.foresight import Blind, Foresight
from warren.policy.place.gpu_groups import cluster_text, usual_groups
from warren.policy.place.grouped import Groups, attained_ns, make_groups
from warren.policy.place.hlas_step import AGED, Spot, Step
from warren.policy.place.line import Line, entries
from warren.policy.place.queues import Queues, parse_queues, queues_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """``queues``: by expected size; ``line``: jobs whose next round may start; ``young``: jobs that
    have not waited too long yet, if age counts; ``partly``: jobs of whose round some tasks are
    placed; ``foresight``: what is expected of rounds to come."""

    queues: Queues
    groups: Groups | None = None
    line: Line[Spot] | None = None
    young: Line[Spot] | None = None
    partly: tuple[Spot, ...] = ()
    foresight: Foresight = field(default_factory=Blind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hlas:
    """See the module's text."""

    groups: int = 0
    """0: one for four devices."""
    thresholds: str = ""
    """Attained service at which a job leaves each queue but the last: ``1 min, 10 min, 2 h``."""
    age: str = ""
    """``12 h``: who has waited longer since his arrival goes first; empty: nobody."""

    name: ClassVar[str] = "hlas"
    source: ClassVar[str] = "HLAS (TCC'24) IV, Algorithms 1-3"
    offline: ClassVar[bool] = False
    needs_rounds: ClassVar[bool] = False
    by_ahead: ClassVar[bool] = False
    """Whether in a queue the job goes first of which most rounds are expected, not by arrival."""
    triggers: ClassVar[frozenset[type[Event]]] = frozenset(
        {JobArrived, CompDone, RoundsDone, RolledBack, JobFailed, JobCancelled}
    )

    def __post_init__(self) -> None:
        if self.groups < 0:
            raise ValueError("groups is a count, 0 for one of four devices each")
        parse_queues(self.thresholds)
        self.age_ns()

    def age_ns(self) -> int:
        """How long a job waits at most before it goes first; 0: for ever."""
        return seconds_to_ns(parse_time_s(self.age)) if self.age else 0

    def initial(self, view: View) -> Memory:
        """Nothing is known of any job yet, so nothing is grouped; the past may give thresholds."""
        ended_ns = attained_ns(view, self._count(len(view.type_D)))
        queues = queues_of(self.thresholds, ended_ns)
        return Memory(queues=queues, foresight=self.foresight(view))

    def foresight(self, view: View) -> Foresight:
        """What is expected of rounds to come before the first decision: nothing, ever."""
        return Blind()

    def decide(self, view: View, memory: Memory) -> tuple[Decision, Memory]:
        """Jobs that may go on take their places in the line; idle groups take from it."""
        if memory.groups is None:
            if not len(view.jobs):
                return NOTHING, memory
            groups = make_groups(view, self._count(len(view.type_D)))
            memory = replace(memory, groups=groups)
        memory = replace(memory, foresight=memory.foresight.after(view))
        assert memory.groups is not None
        step = Step(
            view=view,
            groups=memory.groups,
            spot=partial(self.spot, view, memory),
            ages=bool(self.age),
            line=memory.line,
            young=memory.young,
            partly=list(memory.partly),
        )
        step.queue_up()
        step.serve()
        left = tuple(step.partly)
        return step.decision(), replace(memory, line=step.line, young=step.young, partly=left)

    def explain(self, view: View, memory: Memory, job: int) -> str:
        """One sentence: why this job is where it is."""
        if memory.groups is None or not view.open_J[job]:
            return "waits for nothing: it has not arrived or has ended"
        if view.next_round_J[job] > view.round_J[job]:
            return f"all its tasks of round {view.round_J[job]} are running or queued"
        had_ns = float(view.round_J[job] * memory.groups.round_ns(view, job))
        spot = self.spot(view, memory, job)
        count, said = len(memory.queues), memory.foresight.said(view, job)
        ahead = len({other.job for other in entries(memory.line) if other < spot})
        aged = spot.queue == AGED
        stands = "before all queues" if aged else f"queue {int(spot.queue) + 1} of {count}"
        attained = f"has attained {had_ns / 1e9:.1f} s"
        return (
            f"{', '.join(filter(None, (attained, said, stands)))}; "
            f"{ahead} jobs go first when one of {len(memory.groups.devices)} groups is idle"
        )

    def spot(self, view: View, memory: Memory, job: int) -> Spot:
        """Where a job stands now, by H_n(t) = (R_n^r + R_n^p) T_n; who has waited too long, first.

        HLAS, IV-C (R^p is 0) and V-B.
        """
        if self.age and view.now_ns - view.arrival_ns_J.item(job) >= self.age_ns():
            return Spot(AGED, 0.0, job)
        assert memory.groups is not None, "a job has arrived, so there are groups"
        ahead = memory.foresight.ahead(view, job)
        size_ns = (view.round_J.item(job) + ahead) * memory.groups.round_ns(view, job)
        place = -ahead if self.by_ahead else 0
        return Spot(float(memory.queues.of(size_ns)), place, job)

    def explain_cluster(self, cluster: Cluster, costs: CostTable) -> str:
        """The groups of a cluster, for ``warren policies hlas --explain CLUSTER``."""
        return cluster_text(cluster, costs, self._count(len(cluster.devices)))

    def _count(self, devices: int) -> int:
        """Groups of so many devices."""
        return min(self.groups or usual_groups(devices), devices)
