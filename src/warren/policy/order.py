"""A base class for place policies that are an order of jobs: one method says which goes first.

What
    Whenever a device is free or a round may start, ``order`` ranks the ready jobs. Tasks of the
    first job take the free devices that end its round soonest, then tasks of the next.
Source
    Warren's; devices are chosen as ``srtf`` chooses them.
Differs
    A job that finds too few free devices for a whole stretch keeps them waiting, so a wide job
    does not starve behind narrow ones.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np

from warren.model.decision import ENDLESS, NOTHING, Assignment, Decision, Reason
from warren.model.events import Event
from warren.model.units import NEVER_NS
from warren.model.view import View
from warren.policy.common.round_times import (
    TASK_TRIGGERS,
    gang_round_ns,
    gang_size,
    next_tasks,
    no_faster,
)

Memory: TypeAlias = dict[int, tuple[int, int]]
"""Devices of a job's gang and the time of one round alone, in ns, by job; they never change."""


@dataclass(frozen=True)
class JobOrder(ABC):
    """Give free devices to ready jobs in the order that ``order`` returns.

    A subclass needs that method alone. Its dataclass fields, if any, are options of the policy.

    Attributes
    ----------
    needs_rounds
        Set it to True to see how many rounds a job has (``view.rounds_J``). Jobs that do not state
        their rounds are then refused.
    """

    name: ClassVar[str] = "order"
    source: ClassVar[str] = "a file of the user's"
    offline: ClassVar[bool] = False
    needs_rounds: ClassVar[bool] = False
    keeps_to_shapes: ClassVar[bool] = True
    triggers: ClassVar[frozenset[type[Event]]] = TASK_TRIGGERS

    def __init_subclass__(cls) -> None:
        """Name the policy after its class, unless it states a name."""
        if "name" not in vars(cls):
            cls.name = cls.__name__

    @abstractmethod
    def order(self, view: View, ready: Sequence[int]) -> Iterable[int]:
        """Return the ready jobs, by index, in their order: the first job starts first.

        Jobs left out wait. The columns of ``view`` are read-only (``warren.model.view``).
        """

    def initial(self, view: View) -> Memory:
        """Return an empty memory: jobs become known as they arrive."""
        return {}

    def decide(self, view: View, memory: Memory) -> tuple[Decision, Memory]:
        """Give the free devices to the ready jobs, in order."""
        idle_D = view.queued_D == 0
        assign: list[Assignment] = []
        ready = _ready(view)
        waiting = set(ready)
        for job in self._ranked(view, ready) if idle_D.any() else ():
            free = idle_D.nonzero()[0]
            if not len(free):
                break
            if job not in memory:
                memory[job] = _alone(view, job)
            gang, round_ns = memory[job]
            left = self._remaining(view, job)
            given = next_tasks(view, job, free, gang=gang, round_ns=round_ns, remaining=left)
            idle_D[[one.device for one in given]] = False
            assign += given
            if given:
                waiting.discard(job)
            elif no_faster(view, job, free, 1):
                break
        reasons = dict.fromkeys(sorted(waiting), Reason.WAITING_FOR_DEVICES)
        if not assign and not reasons:
            return NOTHING, memory
        return Decision(assign=tuple(assign), reasons=reasons), memory

    def explain(self, view: View, memory: Memory, job: int) -> str:
        """Say in one sentence why this job is where it is."""
        if not view.arrived_J[job]:
            return "has not arrived yet"
        if job not in (ready := _ready(view)):
            return f"all its tasks of round {view.round_J[job]} are running or queued"
        ranked = self._ranked(view, ready)
        if job not in ranked:
            return f"is left out by {self.name}"
        return f"{ranked.index(job)} ready jobs go before it by {self.name}"

    def _ranked(self, view: View, ready: list[int]) -> list[int]:
        """Return what ``order`` gives, checked.

        Raises
        ------
        ValueError
            ``order`` returned a job that is not ready, or one job twice.
        """
        ranked = [int(job) for job in self.order(view, tuple(ready))]
        if len(set(ranked)) != len(ranked) or not set(ranked) <= set(ready):
            raise ValueError("order must return jobs of `ready`, each at most once")
        return ranked

    def _remaining(self, view: View, job: int) -> int:
        """Return the rounds of a job without a device, as far as this policy may know them."""
        if not self.needs_rounds:
            return ENDLESS
        return view.rounds_J.item(job) - view.next_round_J.item(job)


def _alone(view: View, job: int) -> tuple[int, int]:
    """Return the devices of a job's gang, and the time of one round alone on the fastest ones."""
    gang = gang_size(view, job)
    devices = no_faster(view, job, np.arange(len(view.type_D)), gang)
    return gang, gang_round_ns(view, job, devices) if devices else NEVER_NS


def _ready(view: View) -> list[int]:
    """List the jobs whose round may start and lacks a device for some task."""
    ready = view.open_J & (view.next_round_J == view.round_J)
    jobs: list[int] = np.flatnonzero(ready).tolist()
    return jobs
