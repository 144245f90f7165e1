"""SRTF: the job that could complete earliest runs first, preemptive at task boundaries.

What
    Whenever a device is free or a round may start, jobs are ranked by remaining rounds times the
    time of one round alone on the cluster; tasks of the first job take the free devices that end
    its round soonest, then tasks of the next.
Source
    Hare (HPDC'22), section 7.1, "SRTF".
Differs
    Weights are not looked at, as in the paper. The paper does not say how a job's remaining time is
    measured on unequal devices, nor which of them it takes: here a round is timed alone, as a gang
    on the job's fastest devices. Tasks need not start together (Hare's relaxed synchronization) and
    take the fastest free devices; but as the slowest one sets the pace of a round, faster ones are
    left to other jobs where as slow a one will do. On mixed GPUs it may so do better here than
    there, where Sched_Allox beats it. At a coarse grain a whole stretch is handed out at once. It
    has the rounds that the grain has time for on these very devices, so a job on slow devices is
    looked at again as soon as a job on fast ones. A job that then finds too few free devices keeps
    the free ones waiting for it, so a wide job does not starve behind narrow ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

import numpy as np

from warren.model.costs import IntArray
from warren.model.decision import NOTHING, Assignment, Decision, Reason
from warren.model.events import (
    Event,
    JobArrived,
    RolledBack,
)
from warren.model.view import View
from warren.policy.common.round_times import (
    TASK_TRIGGERS,
    gang_sizes_J,
    made_ready,
    next_tasks,
    no_faster,
    round_ns_J,
)

_ROUND_TO_START: Final = (JobArrived, RolledBack)


@dataclass(frozen=True, slots=True, kw_only=True)
class SrtfMemory:
    """Estimates of jobs that do not change (gang size and time of one round alone).

    ``left``: whether tasks that could start may have been left without a device. If not, only the
    jobs of the next events can have such tasks.
    """

    gang_J: IntArray
    round_ns_J: IntArray
    left: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Srtf:
    """Give free devices to the ready jobs with the least remaining time; it has no options."""

    name: ClassVar[str] = "srtf"
    source: ClassVar[str] = "Hare (HPDC'22) 7.1"
    offline: ClassVar[bool] = False
    needs_rounds: ClassVar[bool] = True
    keeps_to_shapes: ClassVar[bool] = True
    triggers: ClassVar[frozenset[type[Event]]] = TASK_TRIGGERS

    def initial(self, view: View) -> SrtfMemory:
        """Estimate all jobs that are known, for all decisions until more come."""
        return SrtfMemory(gang_J=gang_sizes_J(view), round_ns_J=round_ns_J(view))

    def decide(self, view: View, memory: SrtfMemory) -> tuple[Decision, SrtfMemory]:
        """Give free devices to ready jobs, shortest remaining time first."""
        if len(memory.gang_J) < len(view.scale_J):
            memory = replace(memory, gang_J=gang_sizes_J(view), round_ns_J=round_ns_J(view))
        waiting = {
            event.job: Reason.WAITING_FOR_DEVICES
            for event in view.changes
            if isinstance(event, _ROUND_TO_START)
        }
        assign: list[Assignment] = []
        given: list[Assignment] = []
        idle_D = view.queued_D == 0
        free = idle_D.nonzero()[0]
        # ``left``: some task that could start has no device, so the next decision must look at all
        # ready jobs, not only at those of its events.
        left = not len(free)
        for job in self._ranked(view, memory, len(free)) if len(free) else ():
            if given:
                idle_D[[one.device for one in given]] = False
                free = idle_D.nonzero()[0]
            if not len(free):
                left = True
                break
            given = next_tasks(
                view,
                job,
                free,
                gang=memory.gang_J.item(job),
                round_ns=memory.round_ns_J.item(job),
                remaining=view.rounds_J.item(job) - view.next_round_J.item(job),
            )
            assign += given
            waiting.pop(job, None)
            left |= sum(len(one.shards) for one in given) < _tasks_to_start(view, job)
            # Ours: a wide job that found too few devices keeps them waiting, so none starves.
            if not given and no_faster(view, job, free, 1):
                break
        if left != memory.left:
            memory = replace(memory, left=left)
        if not assign and not waiting:
            return NOTHING, memory
        return Decision(assign=tuple(assign), reasons=waiting), memory

    def explain(self, view: View, memory: SrtfMemory, job: int) -> str:
        """Say in one sentence why this job is where it is."""
        if not view.arrived_J[job]:
            return "has not arrived yet"
        if not view.open_J[job] or view.next_round_J[job] > view.round_J[job]:
            return f"all its tasks of round {view.round_J[job]} are running or queued"
        left_s = _left_ns(view, memory, job) / 1e9
        ranked = list(self._ranked(view, replace(memory, left=True), len(view.jobs)))
        ahead = ranked.index(job) if job in ranked else 0
        return f"has {left_s:.1f} s left alone on the cluster; {ahead} ready jobs have less"

    def _ranked(self, view: View, memory: SrtfMemory, most: int) -> Iterator[int]:
        """Yield ready jobs, least remaining time first, then by index.

        The first ``most`` of them are likely enough for the caller.
        """
        if not memory.left:
            yield from _made_ready(view, memory)
            return
        ready = view.open_J.nonzero()[0]
        ready = ready[view.next_round_J[ready] == view.round_J[ready]]
        left = _left_ns(view, memory, ready)
        if len(ready) <= 4 * most:
            yield from ready[left.argsort(kind="stable")].tolist()
            return
        # Of very many jobs only the nearest are sorted at once; the others if these are too few.
        near = left <= np.partition(left, most)[most]
        for part in (near, ~near):
            jobs = ready[part]
            yield from jobs[left[part].argsort(kind="stable")].tolist()


def _made_ready(view: View, memory: SrtfMemory) -> list[int]:
    """List jobs made ready by the last events, least remaining time first, then by index."""
    ready = sorted(set(made_ready(view)))
    if len(ready) > 1:
        ready.sort(key=lambda job: _left_ns(view, memory, job))
    return ready


def _left_ns(view: View, memory: SrtfMemory, jobs: IntArray | int) -> Any:
    """Return the time that jobs have left, alone on the cluster, in ns: rounds times round time."""
    return (view.rounds_J[jobs] - view.round_J[jobs]) * memory.round_ns_J[jobs]


def _tasks_to_start(view: View, job: int) -> int:
    """Count the tasks of the round of a ready job that have no device yet."""
    return view.scale_J.item(job) - view.next_shard_J.item(job)
