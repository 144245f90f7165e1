"""HLAS: jobs that have attained least go first, on groups of GPUs that are equally fast.

What
    Devices are put into groups that are about equally fast for every job. A job's attained service
    is its rounds so far times its mean time of a round on a group. It sets the job's queue of K; an
    idle group takes the highest queue that is not empty: the rest of a round that is partly
    scheduled, else the first job of the queue.
Source
    Hare with HLAS (TCC'24), section IV, Algorithms 1-3, equations (4)-(6).
Differs
    Algorithm 1 loops over GPUs and Algorithm 3 lacks a break; as in the text, groups are scheduled:
    when one of its devices is idle, the group goes on with a round that is partly placed, else with
    the first job of the first queue. Of several such groups the fastest is served first, and of
    equally fast groups the one with most idle devices; the paper says "when a group is idle" and
    not which. The rest of a round stays in its group, where the paper has it go to idle groups. A
    queue is first in, first out by arrival, so that a job which stays in its queue keeps its place.
    Which device of its group a task takes is not in the algorithms. In Figs. 9 and 10 it is the
    device that is available first, which is ``dispatch: available``, and ``hlas-published``. Ours,
    and the default: the device on which the task completes first, be it idle or not. Then no small
    groups are needed, and where ``groups`` says nothing all devices are one. A job whose tasks wait
    for better devices lets those behind it take the idle ones. ``round: per-gpu`` is a reading that
    (4)-(6) and the figures contradict: a group waits until all its devices are idle, and takes one
    task a device. At a coarse grain a stretch needs all its tasks placed at once: they choose by
    the time of the whole stretch, several a device if need be, and wait until all these devices are
    idle. The paper gives no thresholds: see ``feedback_queues``. It gives no number of groups but
    that of its simulations, one for four GPUs. Groups are made when the first job arrives, from the
    jobs that are known then. ``age`` is ours: a job whose arrival is longer ago than that stands in
    a queue before all others, so that no stream of short jobs keeps it waiting for ever. Weights
    count for nothing: the paper's aim is the mean JCT.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Final

import numpy as np

from warren.model.cluster import Cluster
from warren.model.costs import CostTable, IntArray
from warren.model.decision import NOTHING, Decision
from warren.model.events import Event
from warren.model.units import parse_time_s, seconds_to_ns
from warren.model.view import View
from warren.policy.common.persistent_heap import PersistentHeap
from warren.policy.common.round_times import TASK_TRIGGERS
from warren.policy.place.hlas.dispatch import AGED, HlasDispatch
from warren.policy.place.hlas.feedback_queues import FeedbackQueues, parse_queues, queues_of
from warren.policy.place.hlas.gpu_groups import (
    GpuGroups,
    attained_ns,
    cluster_text,
    make_groups,
    usual_groups,
)
from warren.policy.place.hlas.predicted_rounds import NoPrediction, PredictedRounds
from warren.policy.place.hlas.round_dispatch import RoundStep
from warren.policy.place.hlas.waiting_jobs import QueuePosition, WaitingJobs

ALLOWED: Final = {"round": ("whole", "per-gpu"), "dispatch": ("completion", "available")}


@dataclass(frozen=True, slots=True, kw_only=True)
class HlasMemory:
    """The groups, the queues and the jobs in them.

    ``queues``: by expected size; ``line``: jobs whose next round may start; ``young``: jobs that
    have not waited too long yet, if age counts; ``partly``: jobs of whose round some tasks are
    placed, ``group_of`` on which group; ``free_ns_D``: when each device is expected to be free;
    ``foresight``: expectation of rounds to come.
    """

    queues: FeedbackQueues
    groups: GpuGroups | None = None
    line: WaitingJobs = field(default_factory=WaitingJobs)
    young: PersistentHeap[QueuePosition] | None = None
    partly: tuple[QueuePosition, ...] = ()
    group_of: Mapping[int, int] = field(default_factory=dict)
    free_ns_D: IntArray
    foresight: PredictedRounds = field(default_factory=NoPrediction)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hlas:
    """Give rounds of the jobs that have attained least to groups of equally fast devices."""

    groups: int = 0
    """Number of groups; 0: one, if tasks are dispatched by completion, else one for four devices.
    """
    round: str = "whole"
    """``whole``: a group takes all tasks of a round; ``per-gpu``: one for each of its devices."""
    dispatch: str = "completion"
    """Where a task of a whole round goes: to the device on which it completes first, or to the
    device that is ``available`` first."""
    thresholds: str = ""
    """Attained service at which a job leaves each queue but the last: ``1 min, 10 min, 2 h``."""
    age: str = ""
    """``12 h``: jobs whose arrival is longer ago go first; empty: no job does."""

    name: ClassVar[str] = "hlas"
    source: ClassVar[str] = "HLAS (TCC'24) IV, Algorithms 1-3"
    offline: ClassVar[bool] = False
    needs_rounds: ClassVar[bool] = False
    by_ahead: ClassVar[bool] = False
    """Whether the job with most expected rounds goes first in a queue, not the first to arrive."""
    triggers: ClassVar[frozenset[type[Event]]] = TASK_TRIGGERS

    def __post_init__(self) -> None:
        if self.groups < 0:
            raise ValueError("groups is a count, 0 for one of four devices each")
        for option, allowed in ALLOWED.items():
            if getattr(self, option) not in allowed:
                raise ValueError(f"{option} is {' or '.join(allowed)}")
        # Both raise for a text that is not a time, so that a mistake is reported before the run.
        parse_queues(self.thresholds)
        self.age_ns()

    def age_ns(self) -> int:
        """Return how long a job waits at most before it goes first, in ns; 0: for ever."""
        return seconds_to_ns(parse_time_s(self.age)) if self.age else 0

    def initial(self, view: View) -> HlasMemory:
        """Return the memory before the first job, without groups; the past may give thresholds."""
        ended_ns = attained_ns(view, self._count(len(view.type_D)))
        queues = queues_of(self.thresholds, ended_ns)
        free_ns_D = np.zeros(len(view.type_D), np.int64)
        return HlasMemory(queues=queues, free_ns_D=free_ns_D, foresight=self.foresight(view))

    def foresight(self, view: View) -> PredictedRounds:
        """Return the expectation of rounds to come before the first decision: always empty."""
        return NoPrediction()

    def decide(self, view: View, memory: HlasMemory) -> tuple[Decision, HlasMemory]:
        """Put jobs that may go on into their queues, from which idle groups then take."""
        # The preparation phase (IV-C), once: groups for the jobs that are known by then.
        if memory.groups is None:
            if not len(view.jobs):
                return NOTHING, memory
            groups = make_groups(view, self._count(len(view.type_D)))
            memory = replace(memory, groups=groups)
        # V: R^p may change before queues are updated, as sizes count it.
        if not isinstance(memory.foresight, NoPrediction):
            memory = replace(memory, foresight=memory.foresight.after(view))
        assert memory.groups is not None
        # Algorithm 1: line 5 (QueueUpdate, Algorithm 2), then lines 6-11 for each idle group.
        step = self._step(view, memory, memory.groups)
        step.queue_up()
        step.serve()
        # Steps of ``per-gpu`` know no device times and keep no round in its group.
        of_rounds = step if isinstance(step, RoundStep) else memory
        left = HlasMemory(
            queues=memory.queues,
            groups=memory.groups,
            line=step.line,
            young=step.young,
            partly=tuple(step.partly),
            group_of=of_rounds.group_of,
            free_ns_D=of_rounds.free_ns_D,
            foresight=memory.foresight,
        )
        return step.decision(), left

    def _step(self, view: View, memory: HlasMemory, groups: GpuGroups) -> HlasDispatch:
        """Begin a decision, with copies of the parts of the memory that it changes."""
        begun: dict[str, Any] = {
            "view": view,
            "groups": groups,
            "spot": partial(self.spot, view, memory),
            "ages": bool(self.age),
            "line": memory.line.copy(),
            "young": memory.young,
            "partly": list(memory.partly),
        }
        if self.round == "per-gpu":
            return HlasDispatch(**begun)
        return RoundStep(
            **begun,
            by_completion=self.dispatch == "completion",
            free_ns_D=memory.free_ns_D,
            group_of=dict(memory.group_of),
        )

    def explain(self, view: View, memory: HlasMemory, job: int) -> str:
        """Say in one sentence why this job is where it is."""
        if memory.groups is None or not view.open_J[job]:
            return "waits for nothing: it has not arrived or has ended"
        if view.next_round_J[job] > view.round_J[job]:
            return f"all its tasks of round {view.round_J[job]} are running or queued"
        had_ns = float(view.round_J[job] * memory.groups.round_ns(view, job))
        spot = self.spot(view, memory, job)
        count, said = len(memory.queues), memory.foresight.said(view, job)
        ahead = len({other.job for other in memory.line.spots if other < spot})
        aged = spot.queue == AGED
        stands = "before all queues" if aged else f"queue {int(spot.queue) + 1} of {count}"
        attained = f"has attained {had_ns / 1e9:.1f} s"
        return (
            f"{', '.join(filter(None, (attained, said, stands)))}; "
            f"{ahead} jobs go first when {self._what_is_idle(memory.groups)}"
        )

    def _what_is_idle(self, groups: GpuGroups) -> str:
        """Name the devices that must be idle for a waiting job to start."""
        count = len(groups.devices)
        if self.round == "per-gpu":
            return f"one of {count} groups is idle"
        return "a device is idle" + (f" in one of {count} groups" if count > 1 else "")

    def spot(self, view: View, memory: HlasMemory, job: int) -> QueuePosition:
        """Return a job's place in the queues now, by its size H_n(t) = (R_n^r + R_n^p) T_n.

        HLAS, IV-C (R^p is 0) and V-B. A job that has waited too long goes before all queues.
        """
        if self.age and view.now_ns - view.arrival_ns_J.item(job) >= self.age_ns():
            return QueuePosition(AGED, 0.0, job)
        assert memory.groups is not None, "a job has arrived, so there are groups"
        ahead = memory.foresight.ahead(view, job)
        size_ns = (view.round_J.item(job) + ahead) * memory.groups.round_ns(view, job)
        # V-B: inside a queue the largest R^p first; those of none after them, by arrival.
        place = -ahead if self.by_ahead else 0
        return QueuePosition(float(memory.queues.of(size_ns)), place, job)

    def explain_cluster(self, cluster: Cluster, costs: CostTable) -> str:
        """Describe the groups of a cluster, for ``warren policies hlas --explain CLUSTER``."""
        return cluster_text(cluster, costs, self._count(len(cluster.devices)))

    def _count(self, devices: int) -> int:
        """Return |U|, the number of groups of ``devices`` devices."""
        if self.groups:
            return min(self.groups, devices)
        # Ours: where tasks choose devices by completion, equally fast groups are not needed.
        is_one = self.round == "whole" and self.dispatch == "completion"
        return 1 if is_one else usual_groups(devices)


@dataclass(frozen=True, slots=True, kw_only=True)
class HlasPublished(Hlas):
    """HLAS as its paper has it: groups of four, tasks to the device that is available first."""

    dispatch: str = "available"

    name: ClassVar[str] = "hlas-published"
