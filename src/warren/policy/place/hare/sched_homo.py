"""Sched_Homo: gangs in order of weight per GPU time, blind to what kind of GPU it takes.

What
    Waiting jobs are ranked by gang size times expected run time, divided by weight, least first.
    The first takes as many free devices as its scale, whatever their type, and keeps them to its
    end; no later job passes it.
Source
    Hare (HPDC'22), section 7.1, "Sched_Homo"; after Zhang, Zhou, Wu, Jiao and Li, "Online
    scheduling of heterogeneous distributed machine learning jobs", MobiHoc'20.
Differs
    Hare gives two sentences: made for homogeneous GPUs, weighted completion time through
    parallelism between and within jobs, no preemption of jobs. Read into them: (1) Zhang et al.
    gather waiting jobs into batches and fill each with the most weight that fits. Here each job
    is a batch of its own and the order is that of their greedy choice, weight per GPU time. A
    batch that must end before the next begins would leave GPUs idle, and Hare's Fig. 16 has
    Sched_Homo close to Hare on equal GPUs. (2) Their number of workers is a choice; a job's scale
    is fixed here. (3) A round takes on every GPU the mean of its times over the cluster's devices
    that fit it. (4) GPUs are drawn from the free ones by the run's seed and the job's index, since
    the lowest index would favour the type that a cluster file names first. A job of more tasks
    than fitting devices takes all of them. It is asked at arrivals and ends, as an online
    algorithm is, and knows nothing of jobs to come.
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from warren.model.decision import Decision, Reason
from warren.model.events import Event, JobArrived, JobCancelled, JobFailed, RolledBack, RoundsDone
from warren.model.view import View
from warren.policy.common.gang_holding import GangHolder, Holdings
from warren.policy.common.random_devices import drawn
from warren.policy.common.round_times import gang_round_ns, gang_size


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedHomoMemory:
    """``waiting``: (rank, job), first in line first."""

    waiting: tuple[tuple[float, int], ...]
    holdings: Holdings


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedHomo:
    """See the module's text."""

    name: ClassVar[str] = "sched-homo"
    source: ClassVar[str] = "Hare (HPDC'22) 7.1; Zhang et al. (MobiHoc'20)"
    first_are: ClassVar[str] = "have more weight for their GPU time"
    """Of the jobs ahead, for a sentence."""
    offline: ClassVar[bool] = False
    needs_rounds: ClassVar[bool] = True
    holds_devices: ClassVar[bool] = True
    triggers: ClassVar[frozenset[type[Event]]] = frozenset(
        {JobArrived, RoundsDone, RolledBack, JobFailed, JobCancelled}
    )

    def initial(self, view: View) -> SchedHomoMemory:
        """Nobody waits, nothing is held."""
        return SchedHomoMemory(waiting=(), holdings=Holdings.none(view))

    def rank(self, view: View, job: int, gang: int) -> float:
        """Gang size times run time, by weight: who has less starts first."""
        rounds = view.rounds_J.item(job)
        return gang * rounds * blind_round_ns(view, job, gang) / view.weight_J.item(job)

    def decide(self, view: View, memory: SchedHomoMemory) -> tuple[Decision, SchedHomoMemory]:
        """Continue the gangs that moved on, then start jobs from the front of the line."""
        step = _Step(self, view, memory)
        step.holder.release_ended()
        step.holder.go_on()
        step.queue_up()
        step.start()
        return Decision(assign=tuple(step.holder.assign), reasons=step.reasons()), step.memory()

    def explain(self, view: View, memory: SchedHomoMemory, job: int) -> str:
        """One sentence: why this job is where it is."""
        if job in memory.holdings.by_job:
            return f"runs as a gang on {memory.holdings.names(view, job)} until it ends"
        if not view.arrived_J[job]:
            return "has not arrived yet"
        ahead = next((place for place, one in enumerate(memory.waiting) if one[1] == job), 0)
        if ahead:
            return f"waits for its turn: {ahead} jobs {self.first_are}"
        free = int(np.count_nonzero(~memory.holdings.held_D))
        return f"is first in line and needs {gang_size(view, job)} devices; {free} are free"


def blind_round_ns(view: View, job: int, gang: int) -> float:
    """Time of one round of a job if all its devices were alike, in ns: the mean over them.

    Each member of the gang runs its share of the tasks, then one synchronisation.
    """
    fits_T = view.costs.fits_JT[job]
    count_T = fits_T * np.bincount(view.type_D, minlength=len(fits_T))
    devices = max(int(count_T.sum()), 1)
    comp_ns, sync_ns = (
        float((np.where(fits_T, time_JT[job], 0) * count_T).sum()) / devices
        for time_JT in (view.costs.comp_ns_JT, view.costs.sync_ns_JT)
    )
    return -(-view.scale_J.item(job) // max(gang, 1)) * comp_ns + sync_ns


@dataclass(slots=True)
class _Step:
    """One decision in the making."""

    policy: SchedHomo
    view: View
    before: SchedHomoMemory
    holder: GangHolder = field(init=False)
    waiting: list[tuple[float, int]] = field(init=False)

    def __post_init__(self) -> None:
        self.holder = GangHolder(self.view, self.before.holdings)
        self.waiting = list(self.before.waiting)

    def memory(self) -> SchedHomoMemory:
        holdings, waiting = self.holder.after(), tuple(self.waiting)
        if holdings is self.before.holdings and waiting == self.before.waiting:
            return self.before
        return replace(self.before, holdings=holdings, waiting=waiting)

    def queue_up(self) -> None:
        """Arrivals take their place in the line; who has ended leaves it."""
        for event in self.view.changes:
            if isinstance(event, JobArrived) and (gang := gang_size(self.view, event.job)):
                rank = self.policy.rank(self.view, event.job, gang)
                insort(self.waiting, (rank, event.job))
        if any(isinstance(event, JobFailed | JobCancelled) for event in self.view.changes):
            self.waiting = [one for one in self.waiting if not self.view.done_J[one[1]]]

    def start(self) -> None:
        view, started = self.view, 0
        for _, job in self.waiting:
            gang = self._gang(job)
            if not gang:
                break
            self.holder.start(job, gang, gang_round_ns(view, job, gang))
            started += 1
        del self.waiting[:started]

    def _gang(self, job: int) -> list[int]:
        """Devices for it; none if too few are free."""
        free = np.flatnonzero(~self.holder.held_D)
        return drawn(self.view, job, free, gang_size(self.view, job))

    def reasons(self) -> dict[int, Reason]:
        """Of arrivals that wait, of who is first in line now and of who was."""
        told = {
            event.job: Reason.WAITING_FOR_TURN
            for event in self.view.changes
            if isinstance(event, JobArrived)
        }
        first = self.waiting[0][1] if self.waiting else -1
        was = self.before.waiting[0][1] if self.before.waiting else -1
        if first != was:
            told |= {was: Reason.WAITING_FOR_TURN, first: Reason.WAITING_FOR_DEVICES}
        line = {job for _, job in self.waiting} if told else set()
        return {job: reason for job, reason in told.items() if job in line}
