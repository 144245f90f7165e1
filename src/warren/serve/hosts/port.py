"""The port between the daemon and hosts; agents and the fake host are behind it.

An order may be given twice, a report may come twice: hosts start an attempt at most once, by its
name, and keep the record of its end until the daemon forgets it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

import msgspec

from warren.serve.records.jobs import EndCause, Resume
from warren.serve.records.machines import DeviceUse, Machine


class StartOrder(msgspec.Struct, frozen=True, omit_defaults=True):
    """Start an attempt: the command of a job, with what it may use.

    ``attempt`` is its name (``12.1``), ``account`` the account of the machine that it runs as; None
    where all jobs run as the agent does. ``environment`` is whole: the host adds nothing but what
    names its devices and folders. ``resume`` is that of the job. ``log_limit_bytes`` is the most
    that its log takes on disk; None: no limit.
    """

    attempt: str
    command: tuple[str, ...]
    folder: str
    environment: dict[str, str]
    devices: tuple[str, ...]
    account: str | None = None
    time_limit_s: float | None = None
    memory_bytes: int | None = None
    grace_s: float = 10.0
    resume: Resume | None = None
    log_limit_bytes: int | None = None


class AgentJoined(msgspec.Struct, frozen=True, tag="joined"):
    """The agent of a host is connected; ``attempts`` names all that it has a record of."""

    machine: Machine
    attempts: tuple[str, ...]


class AgentLost(msgspec.Struct, frozen=True, tag="lost"):
    """A host's agent does not answer any more."""

    host: str
    reason: str


class CommandStarted(msgspec.Struct, frozen=True, tag="started"):
    """The command of an attempt runs since ``time_ns``."""

    host: str
    attempt: str
    time_ns: int


class CommandEnded(msgspec.Struct, frozen=True, tag="ended"):
    """An attempt is over, with all its processes; fields as in ``AttemptEnded``."""

    host: str
    attempt: str
    time_ns: int
    cause: EndCause
    exit_code: int | None = None
    signal: int | None = None
    reason: str = ""
    ran: bool = True
    saved: bool | None = None
    save_s: float | None = None
    lost_s: float | None = None


class DevicesSeen(msgspec.Struct, frozen=True, tag="devices"):
    """Use of the devices of a host, when it has changed in what matters."""

    host: str
    devices: tuple[DeviceUse, ...]


class XidSeen(msgspec.Struct, frozen=True, tag="xid"):
    """The driver reported an error of a GPU."""

    host: str
    device: str
    xid: int


class DeviceTested(msgspec.Struct, frozen=True, tag="tested", omit_defaults=True):
    """The test of a GPU has ended; ``passed`` None: it could not be tested. ``text`` says why."""

    host: str
    device: str
    passed: bool | None
    text: str = ""


class AttemptIdle(msgspec.Struct, frozen=True, tag="idle", omit_defaults=True):
    """The devices of an attempt do nothing since ``since_ns``; None: they work again.

    It is repeated while they do nothing. ``stirs``: they worked in the last minute.
    """

    host: str
    attempt: str
    since_ns: int | None = None
    stirs: bool = False


Report: TypeAlias = (
    AgentJoined
    | AgentLost
    | CommandStarted
    | CommandEnded
    | DevicesSeen
    | AttemptIdle
    | XidSeen
    | DeviceTested
)


class Hosts(Protocol):
    """All hosts. No call waits; what happens comes as reports, in the daemon's event loop."""

    async def open(self, report: Callable[[Report], None]) -> None:
        """Begin; ``report`` is called with each report from now on."""

    async def close(self) -> None:
        """End the connections; attempts run on."""

    def start(self, host: str, order: StartOrder) -> None:
        """Have a host start an attempt; a host that has its name already ignores this."""

    def stop(self, host: str, attempt: str, grace_s: float, *, preempt: bool = False) -> None:
        """Have a host end an attempt: SIGTERM to its leader, all is killed ``grace_s`` later.

        With ``preempt`` the leader gets the signal of the job instead, and the end says so.
        """

    def test(self, host: str, device: str) -> None:
        """Have a host test a GPU, which takes some seconds; it answers with ``DeviceTested``."""

    def forget(self, host: str, attempt: str) -> None:
        """Let a host delete the record of an attempt whose end is in the journal; not its log."""

    async def read_log(self, host: str, attempt: str, offset: int, limit: int) -> bytes:
        """Return up to ``limit`` bytes of what an attempt wrote, from ``offset`` on."""
