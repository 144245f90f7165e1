"""Gavel_FIFO: jobs in order of arrival, each on the fastest free devices, as a gang.

What
    A job waits until as many devices as its scale are free, takes the fastest of them for its
    whole life, and no later job passes it. Weights and lengths of jobs count for nothing.
Source
    Hare (HPDC'22), section 7.1, "Gavel_FIFO"; after Narayanan et al., OSDI'20.
Differs
    A job of more tasks than the cluster has fitting devices takes all of them and runs several
    tasks of a round one after the other (the papers do not say). Gavel's own FIFO shares devices
    by a linear program and moves jobs between types; Hare's sentence has a job take the fastest
    GPUs that are free when it starts, which is what stands here. See ``gang_holding`` for how
    rounds are handed out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from warren.model.decision import Decision, Reason
from warren.model.events import Event, JobArrived, JobCancelled, JobFailed, RolledBack, RoundsDone
from warren.model.view import View
from warren.policy.common.gang_holding import GangHolder, Holdings
from warren.policy.common.round_times import fastest, gang_round_ns, gang_size


@dataclass(frozen=True, slots=True, kw_only=True)
class GavelFifoMemory:
    """``head``: first job (in arrival order) not started."""

    head: int
    holdings: Holdings


@dataclass(frozen=True, slots=True, kw_only=True)
class GavelFifo:
    """See the module's text."""

    name: ClassVar[str] = "gavel-fifo"
    source: ClassVar[str] = "Hare (HPDC'22) 7.1; Gavel (OSDI'20)"
    offline: ClassVar[bool] = False
    needs_rounds: ClassVar[bool] = False
    plans_rings: ClassVar[bool] = True
    holds_devices: ClassVar[bool] = True
    triggers: ClassVar[frozenset[type[Event]]] = frozenset(
        {JobArrived, RoundsDone, RolledBack, JobFailed, JobCancelled}
    )

    def initial(self, view: View) -> GavelFifoMemory:
        """Nothing started, nothing held."""
        return GavelFifoMemory(head=0, holdings=Holdings.none(view))

    def decide(self, view: View, memory: GavelFifoMemory) -> tuple[Decision, GavelFifoMemory]:
        """Continue the gangs that moved on, release those that ended, start from the head."""
        step = _Step(view, memory)
        step.holder.release_ended()
        step.holder.go_on()
        step.start_from_head()
        return Decision(assign=tuple(step.holder.assign), reasons=step.reasons), step.memory()

    def explain(self, view: View, memory: GavelFifoMemory, job: int) -> str:
        """One sentence: why this job is where it is."""
        if job in memory.holdings.by_job:
            return f"runs as a gang on {memory.holdings.names(view, job)} until it ends"
        if not view.arrived_J[job]:
            return "has not arrived yet"
        free = int(np.count_nonzero(~memory.holdings.held_D))
        need = gang_size(view, job)
        if job > memory.head:
            ahead = view.jobs[memory.head].name
            return f"waits for its turn: {ahead} arrived earlier and starts first"
        return f"is first in line and needs {need} devices that fit it; {free} are free"


@dataclass(slots=True)
class _Step:
    """One decision in the making."""

    view: View
    before: GavelFifoMemory
    reasons: dict[int, Reason] = field(default_factory=dict)
    holder: GangHolder = field(init=False)
    head: int = field(init=False)

    def __post_init__(self) -> None:
        self.holder = GangHolder(self.view, self.before.holdings)
        self.head = self.before.head

    def memory(self) -> GavelFifoMemory:
        before, holdings = self.before, self.holder.after()
        if holdings is before.holdings and self.head == before.head:
            return before
        return GavelFifoMemory(head=self.head, holdings=holdings)

    def start_from_head(self) -> None:
        view = self.view
        while self.head < len(view.jobs) and (view.arrived_J[self.head] or view.done_J[self.head]):
            job = self.head
            if not view.done_J[job]:
                free = np.flatnonzero(~self.holder.held_D)
                needed = gang_size(view, job)
                gang = fastest(view, job, free, needed)
                if len(gang) < needed:
                    break
                self.holder.start(job, gang, gang_round_ns(view, job, gang))
            self.head += 1
        self._reasons_for_arrivals()

    def _reasons_for_arrivals(self) -> None:
        for event in self.view.changes:
            if isinstance(event, JobArrived) and event.job >= self.head:
                first = event.job == self.head
                reason = Reason.WAITING_FOR_DEVICES if first else Reason.WAITING_FOR_TURN
                self.reasons[event.job] = reason
        waits = self.head < len(self.view.jobs) and self.view.arrived_J[self.head]
        if waits and self.head != self.before.head:
            self.reasons[self.head] = Reason.WAITING_FOR_DEVICES
