"""SRTF as the Hare paper may have run it: whole gangs that keep their devices.

What
    The waiting job with the least run time takes as many free devices as its scale, and keeps them
    to its end; no later one passes it. ``SrtfGangs`` takes the fastest free devices, ``SrtfBlind``
    any (drawn by the run's seed). With all jobs there from the start nothing is to be preempted:
    what runs has the least time left.
Source
    Hare (HPDC'22), 7.1: "It always schedule jobs that could complete earlier."
Differs
    From our ``srtf``, which runs the tasks of a round apart. Readings to compare with, for
    ``hare_figures.py``; not for use, since the jobs that come later never preempt.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from warren.model.costs import IntArray
from warren.model.decision import Decision
from warren.model.events import Event, JobArrived, JobCancelled, JobFailed, RolledBack, RoundsDone
from warren.model.view import View
from warren.policy.common.gang_holding import GangHolder, Holdings
from warren.policy.common.round_times import fastest, gang_sizes_J, round_ns_J


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Who holds what, gang sizes, the time of a round alone, and who has started."""

    holdings: Holdings
    gang_J: IntArray
    round_ns_J: IntArray
    started: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class SrtfGangs:
    """See the module's text."""

    name: ClassVar[str] = "srtf-gangs"
    source: ClassVar[str] = "Hare (HPDC'22) 7.1"
    offline: ClassVar[bool] = False
    needs_rounds: ClassVar[bool] = True
    triggers: ClassVar[frozenset[type[Event]]] = frozenset(
        {JobArrived, RoundsDone, RolledBack, JobFailed, JobCancelled}
    )

    def initial(self, view: View) -> Memory:
        """Nobody holds anything."""
        return Memory(
            holdings=Holdings.none(view), gang_J=gang_sizes_J(view), round_ns_J=round_ns_J(view)
        )

    def decide(self, view: View, memory: Memory) -> tuple[Decision, Memory]:
        """Continue the gangs that moved on, then start the shortest jobs."""
        holder = GangHolder(view, memory.holdings)
        holder.release_ended()
        holder.go_on()
        waiting = [
            job
            for job in np.flatnonzero(view.arrived_J & ~view.done_J).tolist()
            if job not in memory.started and memory.gang_J[job]
        ]
        started = set(memory.started)
        for job in sorted(waiting, key=lambda job: view.rounds_J[job] * memory.round_ns_J[job]):
            gang = self.gang(view, job, np.flatnonzero(~holder.held_D), int(memory.gang_J[job]))
            if len(gang) < memory.gang_J[job]:
                break
            holder.start(job, gang, int(memory.round_ns_J[job]))
            started.add(job)
        after = Memory(
            holdings=holder.after(), gang_J=memory.gang_J, round_ns_J=memory.round_ns_J,
            started=frozenset(started),
        )  # fmt: skip
        return Decision(assign=tuple(holder.assign)), after

    def gang(self, view: View, job: int, free: IntArray, need: int) -> list[int]:
        """The fastest free devices."""
        return fastest(view, job, free, need)

    def explain(self, view: View, memory: Memory, job: int) -> str:
        """One sentence: why this job is where it is."""
        if job in memory.holdings.by_job:
            return f"runs as a gang on {memory.holdings.names(view, job)} until it ends"
        return "waits for shorter jobs, or for as many devices as it has tasks"


@dataclass(frozen=True, slots=True, kw_only=True)
class SrtfBlind(SrtfGangs):
    """Gangs on any free devices."""

    name: ClassVar[str] = "srtf-blind"

    def gang(self, view: View, job: int, free: IntArray, need: int) -> list[int]:
        """Free devices that fit, drawn blindly."""
        fitting = free[view.costs.fits_JT[job, view.type_D[free]]]
        draws = np.random.default_rng([view.seed, job])
        chosen: list[int] = sorted(
            draws.choice(fitting, min(need, len(fitting)), replace=False).tolist()
        )
        return chosen
