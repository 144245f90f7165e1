"""Gavel_FIFO: jobs in order of arrival, each on the fastest free devices, as a gang.

What
    A job waits until as many devices as its scale are free, takes the fastest of them for its
    whole life, and no later job passes it.
Source
    Hare (HPDC'22), section 7.1, "Gavel_FIFO"; after Narayanan et al., OSDI'20.
Differs
    A job of more tasks than the cluster has fitting devices takes all of them and runs several
    tasks of a round one after the other (the papers do not say). The next stretch is handed out
    one ahead, so that a device need not wait for the scheduler; the order of tasks is the same.
    A job that is rolled back keeps its devices.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final

import numpy as np

from warren.model.costs import BoolArray, IntArray
from warren.model.decision import Decision, Reason
from warren.model.events import Event, JobArrived, JobCancelled, JobFailed, RolledBack, RoundsDone
from warren.model.plan import Assignment
from warren.model.view import View
from warren.policy.place.estimate import fastest, gang_sizes_J, round_ns_J, shares

AHEAD: Final = 2
"""Stretches of a job that are handed out at most: the running one and the next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """``head``: first job (in arrival order) not started. ``gangs``: devices of running jobs."""

    head: int
    gangs: Mapping[int, tuple[int, ...]]
    held_D: BoolArray
    gang_J: IntArray
    round_ns_J: IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class GavelFifo:
    """See the module's text."""

    name: ClassVar[str] = "gavel-fifo"
    source: ClassVar[str] = "Hare (HPDC'22) 7.1; Gavel (OSDI'20)"
    offline: ClassVar[bool] = False
    needs_rounds: ClassVar[bool] = False
    triggers: ClassVar[frozenset[type[Event]]] = frozenset(
        {JobArrived, RoundsDone, RolledBack, JobFailed, JobCancelled}
    )

    def initial(self, view: View) -> Memory:
        """Nothing started, nothing held."""
        return Memory(
            head=0,
            gangs={},
            held_D=np.zeros(len(view.type_D), dtype=np.bool_),
            gang_J=gang_sizes_J(view),
            round_ns_J=round_ns_J(view),
        )

    def decide(self, view: View, memory: Memory) -> tuple[Decision, Memory]:
        """Continue the gangs that moved on, release those that ended, start from the head."""
        step = _Step(view, memory)
        step.release_ended()
        moved = (one.job for one in view.changes if isinstance(one, RoundsDone | RolledBack))
        for job in dict.fromkeys(moved):
            step.hand_out(job)
        step.start_from_head()
        return Decision(assign=tuple(step.assign), reasons=step.reasons), step.memory()

    def explain(self, view: View, memory: Memory, job: int) -> str:
        """One sentence: why this job is where it is."""
        if job in memory.gangs:
            devices = ", ".join(view.cluster.devices[d].name for d in memory.gangs[job])
            return f"runs as a gang on {devices} until it ends"
        if not view.arrived_J[job]:
            return "has not arrived yet"
        free = int(np.count_nonzero(~memory.held_D))
        need = int(memory.gang_J[job])
        if job > memory.head:
            ahead = view.jobs[memory.head].name
            return f"waits for its turn: {ahead} arrived earlier and starts first"
        return f"is first in line and needs {need} devices that fit it; {free} are free"


@dataclass(slots=True)
class _Step:
    """One decision in the making: the memory's values, copied where they change."""

    view: View
    before: Memory
    assign: list[Assignment] = field(default_factory=list)
    reasons: dict[int, Reason] = field(default_factory=dict)
    gangs: dict[int, tuple[int, ...]] = field(init=False)
    held_D: BoolArray = field(init=False)
    head: int = field(init=False)

    def __post_init__(self) -> None:
        self.gangs = dict(self.before.gangs)
        self.held_D = self.before.held_D.copy()
        self.head = self.before.head

    def memory(self) -> Memory:
        before = self.before
        return Memory(
            head=self.head,
            gangs=self.gangs,
            held_D=self.held_D,
            gang_J=before.gang_J,
            round_ns_J=before.round_ns_J,
        )

    def release_ended(self) -> None:
        for event in self.view.changes:
            job = getattr(event, "job", -1)
            if job in self.gangs and self.view.done_J[job]:
                self.held_D[list(self.gangs.pop(job))] = False

    def start_from_head(self) -> None:
        view = self.view
        while self.head < len(view.jobs) and (view.arrived_J[self.head] or view.done_J[self.head]):
            job = self.head
            if not view.done_J[job]:
                gang = fastest(
                    view, job, np.flatnonzero(~self.held_D), int(self.before.gang_J[job])
                )
                if len(gang) < self.before.gang_J[job]:
                    break
                self.gangs[job] = tuple(gang)
                self.held_D[gang] = True
                self.hand_out(job)
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

    def hand_out(self, job: int) -> None:
        view = self.view
        if job not in self.gangs or not view.open_J[job]:
            return
        gang = self.gangs[job]
        following, passed = int(view.next_round_J[job]), int(view.round_J[job])
        total = int(view.rounds_J[job])
        remaining = total - following if total >= 0 else 2**40
        stretch = view.grain.rounds_for(int(self.before.round_ns_J[job]), remaining)
        cut = shares(int(view.scale_J[job]), len(gang))
        while remaining > 0 and following - passed < AHEAD * stretch:
            rounds = min(stretch, remaining)
            self.assign += [
                Assignment(device, job, following, rounds, shards)
                for device, shards in zip(gang, cut, strict=True)
            ]
            following, remaining = following + rounds, remaining - rounds
