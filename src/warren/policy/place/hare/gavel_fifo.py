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

from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from warren.model.costs import IntArray
from warren.model.decision import Decision
from warren.model.events import Event
from warren.model.view import View
from warren.policy.common.gang_holding import (
    GangQueue,
    GangQueueMemory,
    Holdings,
    in_turn,
)
from warren.policy.common.round_times import ROUND_TRIGGERS, fastest, gang_size


def _by_arrival(view: View, job: int) -> float:
    """Return the same for each job: they go by index, which is arrival."""
    return 0.0


def _fastest(view: View, job: int, free: IntArray) -> list[int]:
    """Take the fastest free devices for a gang; none if they are too few."""
    # Gavel, as Hare has it: the fastest available GPUs; it waits where too few are idle.
    needed = gang_size(view, job)
    gang = fastest(view, job, free, needed)
    return gang if len(gang) == needed else []


_QUEUE: Final = GangQueue(_by_arrival, in_turn(_fastest))


@dataclass(frozen=True, slots=True, kw_only=True)
class GavelFifo:
    """Start jobs in order of arrival, as gangs on the fastest free devices; it has no options."""

    name: ClassVar[str] = "gavel-fifo"
    source: ClassVar[str] = "Hare (HPDC'22) 7.1; Gavel (OSDI'20)"
    offline: ClassVar[bool] = False
    needs_rounds: ClassVar[bool] = False
    plans_rings: ClassVar[bool] = True
    holds_devices: ClassVar[bool] = True
    triggers: ClassVar[frozenset[type[Event]]] = ROUND_TRIGGERS

    def initial(self, view: View) -> GangQueueMemory:
        """Return the memory before the first job: none waits, no device is held."""
        return GangQueueMemory(waiting=(), holdings=Holdings.none(view))

    def decide(self, view: View, memory: GangQueueMemory) -> tuple[Decision, GangQueueMemory]:
        """Continue the gangs that moved on, then start jobs from the head of the queue."""
        return _QUEUE.decide(view, memory)

    def explain(self, view: View, memory: GangQueueMemory, job: int) -> str:
        """Say in one sentence why this job is where it is."""
        if job in memory.holdings.by_job:
            return f"runs as a gang on {memory.holdings.names(view, job)} until it ends"
        if not view.arrived_J[job]:
            return "has not arrived yet"
        free = int(np.count_nonzero(~memory.holdings.held_D))
        need = gang_size(view, job)
        # Indexes are the order of arrival, and so of the queue.
        head = memory.waiting[0][1] if memory.waiting else job
        if job > head:
            ahead = view.jobs[head].name
            return f"waits for its turn: {ahead} arrived earlier and starts first"
        return f"is first in line and needs {need} devices that fit it; {free} are free"
