"""Gangs that start in the order of a rank, and keep their devices.

The first in line takes as many free devices as its scale and keeps them to its end; no later job
passes it. A job of more tasks than devices that fit it takes all of them. Policies made for
clusters of equal devices draw a gang's devices without regard to their types.
"""

from __future__ import annotations

from typing import ClassVar

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
from warren.policy.common.random_devices import drawn
from warren.policy.common.round_times import ROUND_TRIGGERS, gang_size


# A mixin without fields, so that each policy stays a frozen dataclass of its own.
class GangsInLine:
    """The part that these policies share; each adds its name, its source and its ``rank``."""

    __slots__ = ()

    first_are: ClassVar[str]
    """The common property of the jobs ahead of another, for a sentence."""
    offline: ClassVar[bool] = False
    holds_devices: ClassVar[bool] = True
    triggers: ClassVar[frozenset[type[Event]]] = ROUND_TRIGGERS

    def rank(self, view: View, job: int) -> float:
        """Return the place of a job among those that wait: the least starts first."""
        raise NotImplementedError

    def take(self, view: View, job: int, free: IntArray) -> list[int]:
        """Draw the devices of a gang from the free ones; none if they are too few."""
        return drawn(view, job, free, gang_size(view, job))

    def _on_one_host(self, view: View, job: int, free: IntArray) -> list[int]:
        """Take devices of one host, of that with the fewest that are enough; none if none has them.

        A gang that is larger than each host takes devices anywhere.
        """
        host_D, hosts = view.hosts.host_D, len(view.hosts.devices_H)
        fits_D, need = view.costs.fits_JT[job, view.type_D], gang_size(view, job)
        if need > np.bincount(host_D[fits_D], minlength=hosts).max():
            return self.take(view, job, free)
        usable = free[fits_D[free]]
        free_H = np.bincount(host_D[usable], minlength=hosts)
        enough = np.flatnonzero(free_H >= need)
        if not len(enough):
            return []
        return self.take(view, job, usable[host_D[usable] == enough[free_H[enough].argmin()]])

    def initial(self, view: View) -> GangQueueMemory:
        """Return the memory before the first job: none waits, no device is held."""
        return GangQueueMemory(waiting=(), holdings=Holdings.none(view))

    def decide(self, view: View, memory: GangQueueMemory) -> tuple[Decision, GangQueueMemory]:
        """Continue the gangs that moved on, then start jobs from the front of the line."""
        # An option of those that have it.
        take = self._on_one_host if getattr(self, "one_host", False) else self.take
        return GangQueue(self.rank, in_turn(take)).decide(view, memory)

    def explain(self, view: View, memory: GangQueueMemory, job: int) -> str:
        """Say in one sentence why this job is where it is."""
        if job in memory.holdings.by_job:
            return f"runs as a gang on {memory.holdings.names(view, job)} until it ends"
        if not view.arrived_J[job]:
            return "has not arrived yet"
        # A cancelled job waits no more; it has no place, and counts as the first.
        ahead = next((place for place, one in enumerate(memory.waiting) if one[1] == job), 0)
        if ahead:
            return f"waits for its turn: {ahead} jobs {self.first_are}"
        free = int(np.count_nonzero(~memory.holdings.held_D))
        return f"is first in line and needs {gang_size(view, job)} devices; {free} are free"
