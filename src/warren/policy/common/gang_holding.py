"""Jobs that keep their devices from start to end: what policies without preemption share.

At grain 1 a held job's next task is handed out one ahead, so that a device need not wait for the
scheduler. At a coarser grain all its rounds are one stretch: the grain says how often a policy may
change its mind, and these have nothing to change it about. The order of tasks is the same, and so
is their time. A job that is rolled back keeps its devices. Policies made of this state
``holds_devices`` (``policy.protocol``).

``GangQueue`` is the queue in which these policies let jobs wait; they differ in which job goes
first (``rank``) and in the devices that a job takes (``choose``).
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, TypeAlias, TypeVar

import numpy as np

from warren.model.costs import BoolArray, IntArray
from warren.model.decision import ENDLESS, Assignment, Decision, Reason
from warren.model.events import (
    JobArrived,
    JobCancelled,
    JobFailed,
    RolledBack,
    RoundsDone,
)
from warren.model.view import View
from warren.policy.common.round_times import gang_round_ns, gang_size, shares

AHEAD: Final = 2
"""Stretches of a job that are handed out at most: the running one and the next."""
_COMES_OR_LEAVES: Final = (JobArrived, JobFailed, JobCancelled)
"""Events by which a job joins those that wait, or leaves them without having started."""


class HeldDevices(NamedTuple):
    """The devices of a job, the shards of a round on each, and the expected time of a round."""

    devices: tuple[int, ...]
    shards: tuple[tuple[int, ...], ...]
    round_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdings:
    """Which jobs hold which devices, as a value for a policy's memory.

    ``held_D``: whether some job holds the device.
    """

    by_job: Mapping[int, HeldDevices]
    held_D: BoolArray

    @staticmethod
    def none(view: View) -> Holdings:
        """Return the holdings before the first job starts: no device is held."""
        return Holdings(by_job={}, held_D=np.zeros(len(view.type_D), dtype=np.bool_))

    def names(self, view: View, job: int) -> str:
        """Return the names of the devices that a job holds, for a sentence."""
        return ", ".join(view.cluster.devices[device].name for device in self.by_job[job].devices)


@dataclass(slots=True)
class GangHolder:
    """One decision in the making: the holdings of the memory, copied before they are changed.

    ``_own`` is that copy, None as long as nothing has changed: most decisions hand out the next
    rounds and change no holding, and the memory then stays the same object.
    """

    view: View
    before: Holdings
    assign: list[Assignment] = field(default_factory=list)
    held_D: BoolArray = field(init=False)
    _by_job: Mapping[int, HeldDevices] = field(init=False)
    _own: dict[int, HeldDevices] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.held_D, self._by_job = self.before.held_D, self.before.by_job

    def after(self) -> Holdings:
        """Return the holdings that the next decision begins with."""
        if self._own is None:
            return self.before
        return Holdings(by_job=self._by_job, held_D=self.held_D)

    def release_ended(self) -> bool:
        """Take the devices back from jobs that have ended, and tell whether there was one."""
        released = False
        for event in self.view.changes:
            # These two come most often and end no job; whatever else names a job may end it.
            if isinstance(event, JobArrived) or (
                isinstance(event, RoundsDone) and not event.finished
            ):
                continue
            job = getattr(event, "job", -1)
            if job in self._by_job and self.view.done_J[job]:
                devices = self._writable().pop(job).devices
                self.held_D[list(devices)] = False
                released = True
        return released

    def go_on(self) -> list[int]:
        """Hand out what holders of devices that passed a barrier or were rolled back do next.

        Returns these jobs, each once, in the order of their events.
        """
        # A dict keeps the order of events and drops repetitions; a set would not keep the order.
        moved = {
            event.job: None
            for event in self.view.changes
            if isinstance(event, RoundsDone | RolledBack) and event.job in self._by_job
        }
        for job in moved:
            self._hand_out(job, self._by_job[job])
        return list(moved)

    def start(self, job: int, devices: Sequence[int], round_ns: int) -> None:
        """Give free devices that fit it to a job until it ends, and hand out its first stretches.

        The tasks of a round are shared evenly; ``round_ns`` is how long one is expected to take.
        """
        cut = shares(int(self.view.scale_J[job]), len(devices))
        held = self._writable()[job] = HeldDevices(tuple(devices), cut, round_ns)
        self.held_D[list(devices)] = True
        self._hand_out(job, held)

    def _writable(self) -> dict[int, HeldDevices]:
        """Return the holdings by job as a copy that may be changed; ``held_D`` is one then, too."""
        if self._own is None:
            self._by_job = self._own = dict(self.before.by_job)
            self.held_D = self.before.held_D.copy()
        return self._own

    def _hand_out(self, job: int, held: HeldDevices) -> None:
        """Assign a job's next stretches to its devices, as far ahead as they may be handed out."""
        view = self.view
        if not view.open_J[job]:
            return
        following, passed = int(view.next_round_J[job]), int(view.round_J[job])
        # A negative number of rounds: unknown, the job runs until its stop rule ends it.
        total = int(view.rounds_J[job])
        remaining = (total if total >= 0 else ENDLESS) - following
        # At any grain but 1 round all that is left is one stretch, see the head of this file.
        whole = view.grain.rounds != 1
        stretch = remaining if whole else view.grain.rounds_for(held.round_ns, remaining)
        # At most AHEAD stretches lie beyond the last passed barrier: the running one and the next.
        while remaining > 0 and following - passed < AHEAD * stretch:
            rounds = min(stretch, remaining)
            self.assign += [
                Assignment(device, job, following, rounds, shards)
                for device, shards in zip(held.devices, held.shards, strict=True)
            ]
            following += rounds
            remaining -= rounds


Rank: TypeAlias = Callable[[View, int], float]
"""A job's place among those that wait, the least first; equal ones go by index, their arrival."""
Waiting: TypeAlias = tuple[tuple[float, int], ...]
"""Waiting jobs as (rank, job), first in line first."""
Gangs: TypeAlias = Sequence[tuple[int, Sequence[int]]]
"""Jobs, each with the devices that it starts on."""
Choose: TypeAlias = Callable[[View, Waiting, Holdings], Gangs]
"""Which of the waiting jobs start now, and where, by the devices that are held."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GangQueueMemory:
    """The jobs that wait, and the devices that are held."""

    waiting: Waiting
    holdings: Holdings


Q = TypeVar("Q", bound=GangQueueMemory)


@dataclass(frozen=True, slots=True)
class GangQueue:
    """Jobs that wait in the order of a rank, and keep the devices that they start on.

    Parameters
    ----------
    rank
        A job's place among those that wait, found once, when it arrives.
    choose
        Which of the waiting jobs start now, and on which devices; see ``in_turn``.
    passing
        Whether a job that has room starts before a job that has none.
    """

    rank: Rank
    choose: Choose
    passing: bool = False

    def decide(self, view: View, before: Q) -> tuple[Decision, Q]:
        """Continue the gangs that moved on, then start waiting jobs on the devices they choose.

        Returns ``before`` itself as the memory where nothing of it has changed.
        """
        holder = GangHolder(view, before.holdings)
        holder.release_ended()
        holder.go_on()
        # Most decisions neither queue nor start a job: the line, which may be long, is not copied.
        waiting = self._queued(view, before.waiting)
        if waiting and not holder.held_D.all():
            started = set()
            for job, devices in self.choose(view, waiting, holder.after()):
                holder.start(job, devices, gang_round_ns(view, job, list(devices)))
                started.add(job)
            waiting = _without(waiting, started)
        holdings = holder.after()
        reasons = self._reasons(view, before.waiting, waiting, holdings)
        decision = Decision(assign=tuple(holder.assign), reasons=reasons)
        same = waiting is before.waiting or waiting == before.waiting
        if same and holdings is before.holdings:
            return decision, before
        return decision, replace(before, waiting=waiting, holdings=holdings)

    def _queued(self, view: View, before: Waiting) -> Waiting:
        """Let arrivals take their place, and those that have ended leave."""
        if not any(isinstance(event, _COMES_OR_LEAVES) for event in view.changes):
            return before
        waiting = list(before)
        for event in view.changes:
            # A job that no device fits never starts, and so must not stand before others.
            if isinstance(event, JobArrived) and gang_size(view, event.job):
                insort(waiting, (self.rank(view, event.job), event.job))
        if any(isinstance(event, JobFailed | JobCancelled) for event in view.changes):
            waiting = [one for one in waiting if not view.done_J[one[1]]]
        return tuple(waiting)

    def _reasons(
        self, view: View, before: Waiting, waiting: Waiting, holdings: Holdings
    ) -> dict[int, Reason]:
        """Give reasons for arrivals that wait, for the job now first in line and for the last."""
        told = {
            event.job: Reason.WAITING_FOR_TURN
            for event in view.changes
            if isinstance(event, JobArrived)
        }
        if self.passing:
            if not told:
                return {}
            return {job: Reason.WAITING_FOR_DEVICES for _, job in waiting if job in told}
        # The first in line waits for devices, others for their turn; it is said again only when
        # another job becomes the first. -1: no job waits.
        first = waiting[0][1] if waiting else -1
        was = before[0][1] if before else -1
        if first != was:
            told |= {was: Reason.WAITING_FOR_TURN, first: Reason.WAITING_FOR_DEVICES}
        # Of these jobs those wait that were queued, have not ended, and hold no devices.
        return {
            job: reason
            for job, reason in told.items()
            if job >= 0
            and job not in holdings.by_job
            and not view.done_J[job]
            and gang_size(view, job)
        }


def _without(waiting: Waiting, started: set[int]) -> Waiting:
    """Return the line without the jobs that have started, which most often are its first."""
    count = len(started)
    if all(job in started for _, job in waiting[:count]):
        return waiting[count:] if count else waiting
    return tuple(one for one in waiting if one[1] not in started)


def in_turn(take: Callable[[View, int, IntArray], list[int]]) -> Choose:
    """Make a choice that lets no job pass another.

    ``take`` gives a job's devices among those that are free, none if they are too few.
    """

    def choose(view: View, waiting: Waiting, holdings: Holdings) -> Gangs:
        # A copy, since each job takes its devices from those that the jobs before it left.
        held_D = holdings.held_D.copy()
        begun: list[tuple[int, list[int]]] = []
        for _, job in waiting:
            gang = take(view, job, np.flatnonzero(~held_D))
            if not gang:
                break
            held_D[gang] = True
            begun.append((job, gang))
        return begun

    return choose
