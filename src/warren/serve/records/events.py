"""Events of the service: the queue is what they have made of it, and nothing else.

An event is in the journal, on disk, before anybody learns of it. ``by`` is the user who asked for
it, or empty where the service did it by itself. Times are nanoseconds since 1970. Fields have
names in the journal, so new ones may be added with a default; tags stay as they are.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec

from warren.serve.records.forecasts import Correction, Spread
from warren.serve.records.jobs import CommandSpec, EndCause, JobState
from warren.serve.records.machines import DeviceUse, Machine
from warren.serve.records.users import Quota, User


class ServiceEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Base of all events of the service."""

    time_ns: int
    by: str = ""


class JobSubmitted(ServiceEvent, frozen=True, tag="submitted"):
    """A job has come. ``array`` is the id of the array or sweep that it belongs to."""

    job: str
    user: str
    spec: CommandSpec
    array: str | None = None


class JobHeld(ServiceEvent, frozen=True, tag="held"):
    """A waiting job stays where it is until it is released."""

    job: str


class JobReleased(ServiceEvent, frozen=True, tag="released"):
    """A held job waits for devices again."""

    job: str


class PriorityChanged(ServiceEvent, frozen=True, tag="priority"):
    """A job that has not started has another priority."""

    job: str
    priority: int


class CancelAsked(ServiceEvent, frozen=True, tag="cancel"):
    """A job shall end; a running one is stopped first, and keeps its devices until it has."""

    job: str


class PreemptAsked(ServiceEvent, frozen=True, tag="preempt"):
    """A running job shall save, leave its devices, and wait for devices again.

    ``reason`` says why in a few words; ``for_job`` is the job that shall have its devices.
    """

    job: str
    attempt: int
    reason: str = ""
    for_job: str | None = None


class AttemptBegun(ServiceEvent, frozen=True, tag="begun"):
    """The scheduler gave a job devices. Its host hears of it after this is on disk."""

    job: str
    attempt: int
    host: str
    devices: tuple[str, ...]


class AttemptStarted(ServiceEvent, frozen=True, tag="started"):
    """The command of an attempt runs."""

    job: str
    attempt: int


class AttemptEnded(ServiceEvent, frozen=True, tag="ended"):
    """The command of an attempt, and all its processes, have ended; its devices are free.

    ``cause``: ``exit`` by itself, ``time`` at its time limit, ``cancel`` by a user, ``memory`` at
    its memory limit, ``host`` where its machine started again or was lost, ``start`` where it could
    not be started (``reason`` says why), ``preempt`` after the signal of a preemption, ``requeue``
    where the command asked to be started again, ``idle`` by the service, since its devices did
    nothing. ``ran`` is false if the command surely never ran. After a preemption ``saved`` says
    whether a complete checkpoint came after the signal:
    ``save_s`` seconds after it, or else ``lost_s`` seconds of work are lost.
    """

    job: str
    attempt: int
    cause: EndCause
    exit_code: int | None = None
    signal: int | None = None
    reason: str = ""
    ran: bool = True
    saved: bool | None = None
    save_s: float | None = None
    lost_s: float | None = None


class JobEnded(ServiceEvent, frozen=True, tag="done"):
    """A job has come to its end; a retry is an attempt, and no end."""

    job: str
    state: JobState
    reason: str = ""


class Foreseen(ServiceEvent, frozen=True, tag="foreseen"):
    """When a waiting job was expected to start and to end, before past errors corrected that.

    ``start_by`` and ``end_by`` are the corrections of that time. The event changes no job: it is
    for the record of how often forecasts hold.
    """

    job: str
    start: Spread
    end: Spread
    start_by: Correction = Correction()
    end_by: Correction = Correction()


class MachineJoined(ServiceEvent, frozen=True, tag="joined"):
    """The agent of a host is connected; ``machine`` says what the host has."""

    machine: Machine


RESTARTED: Final = "the service started again"
"""Reason for which a host is lost whose agent is to connect to the next service."""


class MachineLost(ServiceEvent, frozen=True, tag="lost"):
    """The agent of a host does not answer. Its jobs are believed to run on."""

    host: str
    reason: str = ""


class MachineRemoved(ServiceEvent, frozen=True, tag="removed"):
    """An admin took a lost host away: its jobs are counted as ended with it."""

    host: str


class Drained(ServiceEvent, frozen=True, tag="drained"):
    """No job starts on a host, or on one device of it; what runs there goes on."""

    host: str
    device: str | None = None
    reason: str = ""


class Undrained(ServiceEvent, frozen=True, tag="undrained"):
    """Jobs may start there again."""

    host: str
    device: str | None = None


class DevicesUsed(ServiceEvent, frozen=True, tag="used"):
    """Processes of no job came to a device of a host or left it; the list holds all devices."""

    host: str
    devices: tuple[DeviceUse, ...]


class DeviceFaulted(ServiceEvent, frozen=True, tag="xid"):
    """The driver of a GPU reported an error; ``records/xid.py`` says what the number means."""

    host: str
    device: str
    xid: int


class JobIdle(ServiceEvent, frozen=True, tag="idle"):
    """The devices of a running job do nothing since ``since_ns``; None: they work again.

    The job is ended at ``ends_ns``, unless it works again or is extended before.
    """

    job: str
    attempt: int
    since_ns: int | None = None
    ends_ns: int | None = None


class JobExtended(ServiceEvent, frozen=True, tag="extended"):
    """A running job may do nothing until ``until_ns``."""

    job: str
    until_ns: int


class IdleEndAsked(ServiceEvent, frozen=True, tag="idle-end"):
    """A job that did nothing shall end; ``reason`` says for how long it did nothing."""

    job: str
    attempt: int
    reason: str


class UserSet(ServiceEvent, frozen=True, tag="user"):
    """A user was added or changed."""

    user: User


class UserRemoved(ServiceEvent, frozen=True, tag="user-removed"):
    """A user's token and limits are gone; jobs stay."""

    name: str


class QuotaSet(ServiceEvent, frozen=True, tag="quota"):
    """A limit was set; ``devices`` below 0 takes it away."""

    quota: Quota


class Refused(ServiceEvent, frozen=True, tag="refused"):
    """A request that is not allowed; kept for the audit log alone."""

    action: str
    reason: str


AnyEvent: TypeAlias = (
    JobSubmitted
    | JobHeld
    | JobReleased
    | PriorityChanged
    | CancelAsked
    | PreemptAsked
    | AttemptBegun
    | AttemptStarted
    | AttemptEnded
    | JobEnded
    | Foreseen
    | MachineJoined
    | MachineLost
    | MachineRemoved
    | Drained
    | Undrained
    | DevicesUsed
    | DeviceFaulted
    | JobIdle
    | JobExtended
    | IdleEndAsked
    | UserSet
    | UserRemoved
    | QuotaSet
    | Refused
)
