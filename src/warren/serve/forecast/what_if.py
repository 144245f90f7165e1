"""What would change the starts of waiting jobs: changes are made in a copy, and both are played."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Annotated, Final, Literal

import msgspec

from warren.model.units import NS_PER_S
from warren.serve.forecast.copies import copied
from warren.serve.forecast.counterfactual import asks_for
from warren.serve.forecast.forward import play_forward
from warren.serve.forecast.remaining import JobForecast, Remaining, by_limits
from warren.serve.queue import requests
from warren.serve.queue.refusals import Refusal, named_jobs
from warren.serve.queue.state import Queue
from warren.serve.queue.submissions import placeable
from warren.serve.records.events import AnyEvent, Drained, MachineJoined
from warren.serve.records.jobs import JobState
from warren.serve.records.machines import HostDevice, Machine
from warren.serve.records.users import Caller, Quota
from warren.serve.schedule.decide import Order
from warren.serve.schedule.policy_order import PlacePolicy

DEVICES_MOST: Final = 1_000
"""Most devices of a host that is added."""
FAIR: Final = "fair"
"""Name of the order by fair shares, in the place of a policy's."""
CHANGES_MOST: Final = 100
"""Most changes of one kind."""

_WAITING: Final = (JobState.QUEUED, JobState.HELD)
_Count = Annotated[int, msgspec.Meta(ge=1, le=DEVICES_MOST)]


class Drain(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """No job starts on a host from a time on, in seconds since 1970; None: from now on."""

    host: str
    from_s: Annotated[float, msgspec.Meta(ge=0, le=1e10)] | None = None


class AddedDevices(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One host more, with devices of one type."""

    devices: _Count
    type: str


class NewPriority(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Waiting jobs have another priority; ``job`` is an id of a job or array, or a name."""

    job: str
    priority: int


class NewDevices(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Waiting jobs ask for another number of devices; ``job`` as in ``NewPriority``."""

    job: str
    devices: _Count


class TriedChanges(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Changes that are tried, in this order.

    ``order``: how jobs overtake each other then. ``place``: the place policy in whose order they
    wait then; ``fair``: by fair shares.
    """

    place: Annotated[str, msgspec.Meta(max_length=100)] | None = None
    order: Literal["strict", "backfill"] | None = None
    cancel: Annotated[tuple[str, ...], msgspec.Meta(max_length=CHANGES_MOST)] = ()
    priority: Annotated[tuple[NewPriority, ...], msgspec.Meta(max_length=CHANGES_MOST)] = ()
    devices: Annotated[tuple[NewDevices, ...], msgspec.Meta(max_length=CHANGES_MOST)] = ()
    quota: Annotated[tuple[Quota, ...], msgspec.Meta(max_length=CHANGES_MOST)] = ()
    undrain: Annotated[tuple[str, ...], msgspec.Meta(max_length=CHANGES_MOST)] = ()
    drain: Annotated[tuple[Drain, ...], msgspec.Meta(max_length=CHANGES_MOST)] = ()
    add: Annotated[tuple[AddedDevices, ...], msgspec.Meta(max_length=CHANGES_MOST)] = ()


class StartChange(msgspec.Struct, frozen=True):
    """When a waiting job is expected to start, in seconds from now; None: never, or not known."""

    id: str
    start_before_s: float | None
    start_after_s: float | None


class WhatIf:
    """Changes of a queue, made in a copy.

    Parameters
    ----------
    queue
        The queue, which stays as it is.
    changes
        What changes.
    caller
        The user that asks; names of jobs are those of this user. Any job may be meant.
    now_ns
        The present.
    order
        How jobs overtake each other before the changes.

    Raises
    ------
    Refusal
        If a change names a job, host or type that is not there, or cannot be made.
    """

    def __init__(
        self, queue: Queue, changes: TriedChanges, caller: Caller, now_ns: int, order: Order
    ) -> None:
        self._before = copied(queue)
        self._after = copied(self._before)
        self._now_ns = now_ns
        self._order: Order = order
        self._later: list[Drained] = []
        self._changed_order: Order = changes.order or order
        self._place = changes.place
        caller = Caller(caller.user, "admin")
        for target in changes.cancel:
            ids = _live(queue, target, caller)
            self._apply(requests.cancel(self._after, ids, caller, now_ns))
        for one in changes.priority:
            ids = _live(queue, one.job, caller)
            self._apply(requests.set_priority(self._after, ids, one.priority, caller, now_ns))
        for wanted in changes.devices:
            self._ask_for(_live(queue, wanted.job, caller), wanted.devices)
        for quota in changes.quota:
            self._apply(requests.set_quota(self._after, quota, caller, now_ns))
        for host in changes.undrain:
            self._apply(requests.undrain(self._after, host, None, caller, now_ns))
        for drain in changes.drain:
            self._drain(drain, caller)
        for number, added in enumerate(changes.add, 1):
            self._add(added, number)

    def answer(self, remaining_s: Remaining = by_limits) -> list[StartChange]:
        """Return when each waiting job starts before and after the changes.

        Jobs are in the order of their submission.

        Parameters
        ----------
        remaining_s
            How long jobs run on, in seconds: by default up to their limits.

        Raises
        ------
        SpecError
            If the place policy is unknown, or cannot order commands.
        """
        if self._place is not None:
            self._after.policy = None if self._place == FAIR else _policy(self._place)
        before = play_forward(self._before, self._now_ns, self._order, remaining_s)
        after = play_forward(
            self._after, self._now_ns, self._changed_order, remaining_s, later=self._later
        )
        return [
            StartChange(job.id, self._start_s(before.get(job.id)), self._start_s(after.get(job.id)))
            for job in self._before.jobs.values()
            if job.state in _WAITING
        ]

    def _start_s(self, forecast: JobForecast | None) -> float | None:
        if forecast is None or forecast.begin_ns is None:
            return None
        return (forecast.begin_ns - self._now_ns) / NS_PER_S

    def _apply(self, events: Sequence[AnyEvent]) -> None:
        for event in events:
            self._after.apply(event)

    def _ask_for(self, ids: Sequence[str], devices: int) -> None:
        jobs = [self._after.jobs[one] for one in ids]
        waiting = [job for job in jobs if job.state in _WAITING]
        if not waiting:
            raise Refusal("conflict", f"job {ids[0]} is {jobs[0].state} and keeps its devices")
        for job in waiting:
            placeable(self._after, msgspec.structs.replace(job.spec, devices=devices))
            asks_for(self._after, job, devices=devices)

    def _drain(self, drain: Drain, caller: Caller) -> None:
        events = requests.drain(self._after, drain.host, None, "", caller, self._now_ns)
        time_ns = self._now_ns if drain.from_s is None else round(drain.from_s * NS_PER_S)
        if time_ns <= self._now_ns:
            self._apply(events)
            return
        self._later.append(Drained(time_ns=time_ns, host=drain.host))

    def _add(self, added: AddedDevices, number: int) -> None:
        """Add a host with devices like those that there are of its type."""
        known = (
            one
            for state in self._after.machines.values()
            for one in state.machine.devices
            if one.type.casefold() == added.type.casefold()
        )
        kind: Literal["gpu", "cpu"] = "cpu" if added.type.casefold() == "cpu" else "gpu"
        like = next(known, HostDevice("", kind, added.type))
        name = f"added {number}"  # no host has a blank in its name
        devices = tuple(
            msgspec.structs.replace(like, id=f"{name}/{index}") for index in range(added.devices)
        )
        memory = max((one.machine.memory_bytes for one in self._after.machines.values()), default=0)
        machine = Machine(name, devices, "", added.devices, memory, "", "")
        self._after.apply(MachineJoined(time_ns=self._now_ns, machine=machine))


@cache
def _policy(name: str) -> PlacePolicy:
    """Return a place policy: its first use loads libraries, and may compile for seconds."""
    return PlacePolicy(name)


def _live(queue: Queue, target: str, caller: Caller) -> list[str]:
    """Return the jobs of a target that have not ended.

    Raises
    ------
    Refusal
        If it is unknown, or all of its jobs have ended.
    """
    jobs = named_jobs(queue, [target], caller)
    ids = [job.id for job in jobs if job.ended_ns is None]
    if not ids:
        raise Refusal("conflict", f"job {target} has ended")
    return ids
