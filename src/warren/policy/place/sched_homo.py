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
from typing import ClassVar, Final

import numpy as np
import numpy.typing as npt

from warren.model.costs import IntArray
from warren.model.decision import Decision, Reason
from warren.model.events import Event, JobArrived, JobCancelled, JobFailed, RolledBack, RoundsDone
from warren.model.view import View
from warren.policy.place.estimate import gang_round_ns, gang_sizes_J
from warren.policy.place.holding import Holder, Holdings

_DRAWS: Final = 0x40E0
"""Which stream of the run's seed the choice of devices is drawn from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """``waiting``: (rank, job), first in line first. ``rank_J``: gang times run time by weight."""

    waiting: tuple[tuple[float, int], ...]
    holdings: Holdings
    gang_J: IntArray
    rank_J: npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedHomo:
    """See the module's text."""

    name: ClassVar[str] = "sched-homo"
    source: ClassVar[str] = "Hare (HPDC'22) 7.1; Zhang et al. (MobiHoc'20)"
    offline: ClassVar[bool] = False
    needs_rounds: ClassVar[bool] = True
    triggers: ClassVar[frozenset[type[Event]]] = frozenset(
        {JobArrived, RoundsDone, RolledBack, JobFailed, JobCancelled}
    )

    def initial(self, view: View) -> Memory:
        """Nobody waits, nothing is held."""
        gang_J = gang_sizes_J(view)
        rank_J = gang_J * view.rounds_J * blind_round_ns_J(view, gang_J) / view.weight_J
        return Memory(waiting=(), holdings=Holdings.none(view), gang_J=gang_J, rank_J=rank_J)

    def decide(self, view: View, memory: Memory) -> tuple[Decision, Memory]:
        """Continue the gangs that moved on, then start jobs from the front of the line."""
        step = _Step(view, memory)
        step.holder.release_ended()
        step.holder.go_on()
        step.queue_up()
        step.start()
        return Decision(assign=tuple(step.holder.assign), reasons=step.reasons()), step.memory()

    def explain(self, view: View, memory: Memory, job: int) -> str:
        """One sentence: why this job is where it is."""
        if job in memory.holdings.by_job:
            return f"runs as a gang on {memory.holdings.names(view, job)} until it ends"
        if not view.arrived_J[job]:
            return "has not arrived yet"
        here = (float(memory.rank_J[job]), job)
        ahead = sum(1 for other in memory.waiting if other < here)
        if ahead:
            return f"waits for its turn: {ahead} jobs have more weight for their GPU time"
        free = int(np.count_nonzero(~memory.holdings.held_D))
        return f"is first in line and needs {memory.gang_J[job]} devices; {free} are free"


def blind_round_ns_J(view: View, gang_J: IntArray) -> npt.NDArray[np.float64]:
    """Time of one round of each job if all its devices were alike, in ns: the mean over them.

    Each member of the gang runs its share of the tasks, then one synchronisation.
    """
    fits_JD = view.costs.fits_JT.astype(np.float64)
    count_T = np.bincount(view.type_D, minlength=fits_JD.shape[1])
    count_JT = fits_JD * count_T
    devices_J = np.maximum(count_JT.sum(axis=1), 1)
    mean_J = [
        (np.where(view.costs.fits_JT, time_JT, 0) * count_JT).sum(axis=1) / devices_J
        for time_JT in (view.costs.comp_ns_JT, view.costs.sync_ns_JT)
    ]
    tasks_J = -(-view.scale_J // np.maximum(gang_J, 1))
    round_J: npt.NDArray[np.float64] = tasks_J * mean_J[0] + mean_J[1]
    return round_J


@dataclass(slots=True)
class _Step:
    """One decision in the making."""

    view: View
    before: Memory
    holder: Holder = field(init=False)
    waiting: list[tuple[float, int]] = field(init=False)

    def __post_init__(self) -> None:
        self.holder = Holder(self.view, self.before.holdings)
        self.waiting = list(self.before.waiting)

    def memory(self) -> Memory:
        holdings, waiting = self.holder.after(), tuple(self.waiting)
        if holdings is self.before.holdings and waiting == self.before.waiting:
            return self.before
        return replace(self.before, holdings=holdings, waiting=waiting)

    def queue_up(self) -> None:
        """Arrivals take their place in the line; who has ended leaves it."""
        for event in self.view.changes:
            if isinstance(event, JobArrived) and self.before.gang_J[event.job]:
                insort(self.waiting, (float(self.before.rank_J[event.job]), event.job))
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
        """Free devices that fit, drawn blindly, in order of index; none if they are too few."""
        view, need = self.view, int(self.before.gang_J[job])
        free = np.flatnonzero(~self.holder.held_D)
        free = free[view.costs.fits_JT[job, view.type_D[free]]]
        if len(free) < need:
            return []
        draws = np.random.default_rng([view.seed, _DRAWS, job])
        chosen: list[int] = sorted(draws.choice(free, size=need, replace=False).tolist())
        return chosen

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
