"""The controller's side of leases: which hosts it may count on, and which it has lost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from warren.live.process.leases.messages import (
    AskLease,
    LeasedMessage,
    LeaseEnded,
    LeaseGranted,
    Received,
    ToAgent,
    ToController,
)
from warren.live.process.leases.ordered_channel import OrderedChannel
from warren.live.process.leases.timing import LeaseTiming


class SendTo(NamedTuple):
    """To be sent to a host's agent."""

    host: int
    frame: ToAgent


class HostLeased(NamedTuple):
    """A host can be used from now on; nothing runs there."""

    host: int


class HostSaid(NamedTuple):
    """A message of a host under its lease."""

    host: int
    body: bytes


class HostLost(NamedTuple):
    """A host's lease is over, and nothing that was started under it runs any more."""

    host: int


class Superseded(NamedTuple):
    """Another controller has taken over the run: this one must say and write nothing more."""

    epoch: int


GrantEffect: TypeAlias = SendTo | HostLeased | HostSaid | HostLost | Superseded


@dataclass(slots=True)
class _Lease:
    """A lease that stands: its holder, the question that it answered, and its end."""

    machine: str
    agent: int
    number: int
    fence: int
    until_ns: int
    channel: OrderedChannel


class LeaseGrants:
    """The leases of all hosts. Pure: callers pass the time, and methods return effects.

    Parameters
    ----------
    epoch
        Number of controllers that the run has had, this one included.
    hosts
        Number of hosts.
    timing
        The times of the run's leases.
    began_ns
        The time since when no earlier controller grants or renews a lease. Leases granted before
        may stand for a lease's time, and this controller grants none before that has passed.

    Attributes
    ----------
    refused
        How many messages under leases that do not stand it has refused, questions for more time
        among them.
    """

    def __init__(self, epoch: int, hosts: int, timing: LeaseTiming, began_ns: int) -> None:
        self._epoch, self._timing = epoch, timing
        self._free_ns = began_ns + timing.controller_ns if epoch > 1 else began_ns
        self._leases: list[_Lease | None] = [None] * hosts
        # Questions that wait for an answer until leases may be granted.
        self._waiting: dict[int, AskLease] = {}
        self._fence = 0
        self.refused = 0

    def holds(self, host: int) -> bool:
        """Tell whether a host has a lease."""
        return self._leases[host] is not None

    @property
    def free_ns(self) -> int:
        """The time from which leases may be granted."""
        return self._free_ns

    def wake_ns(self) -> int | None:
        """Return when ``tick`` has something to do; None: not before something else happens."""
        times = [self._free_ns] if self._waiting else []
        for lease in self._leases:
            if lease is not None:
                times.append(lease.until_ns)
                if (again_ns := lease.channel.wake_ns) is not None:
                    times.append(again_ns)
        return min(times, default=None)

    def tick(self, now_ns: int) -> Iterator[GrantEffect]:
        """End leases that are over, grant those that had to wait, repeat unreceived messages."""
        for host, lease in enumerate(self._leases):
            if lease is not None and now_ns >= lease.until_ns:
                yield from self._lose(host)
        yield from self._grant_waiting(now_ns)
        for host in range(len(self._leases)):
            yield from self._pieces(host, now_ns)

    def hear(self, frame: ToController, now_ns: int) -> Iterator[GrantEffect]:
        """Take a message of an agent."""
        if not 0 <= frame.host < len(self._leases):
            self.refused += 1
            return
        yield from self.tick(now_ns)
        if frame.epoch > self._epoch:
            yield Superseded(frame.epoch)
        elif isinstance(frame, AskLease):
            if frame.fence:
                yield from self._renew(frame, now_ns)
            else:
                yield from self._asked(frame, now_ns)
        else:
            yield from self._told(frame)

    def say(self, host: int, body: bytes, now_ns: int) -> Iterator[GrantEffect]:
        """Say something to a host that has a lease; without one it is lost, as all there is."""
        if (lease := self._leases[host]) is not None:
            lease.channel.send(body, now_ns)
            yield from self._pieces(host, now_ns)

    def connected(self, host: int, now_ns: int) -> Iterator[GrantEffect]:
        """Repeat at once every message that a host has not received: its connection is new."""
        if (lease := self._leases[host]) is not None:
            lease.channel.repeat(now_ns)
            yield from self._pieces(host, now_ns)

    def _told(self, frame: LeasedMessage | Received) -> Iterator[GrantEffect]:
        lease = self._leases[frame.host]
        if lease is None or (frame.epoch, frame.fence) != (self._epoch, lease.fence):
            self.refused += 1
        elif isinstance(frame, Received):
            lease.channel.received(frame.next)
        else:
            for body in lease.channel.hear(frame.number, frame.body):
                yield HostSaid(frame.host, body)
            received = Received(frame.host, self._epoch, lease.fence, lease.channel.next)
            yield SendTo(frame.host, received)

    def _renew(self, ask: AskLease, now_ns: int) -> Iterator[GrantEffect]:
        lease = self._leases[ask.host]
        named = self._epoch, ask.fence, ask.machine, ask.agent
        if lease and (ask.epoch, lease.fence, lease.machine, lease.agent) == named:
            lease.until_ns = max(lease.until_ns, now_ns + self._timing.controller_ns)
            yield self._answer(ask, lease, now_ns)
        else:
            self.refused += 1
            yield SendTo(ask.host, LeaseEnded(self._epoch, ask.fence))

    def _asked(self, ask: AskLease, now_ns: int) -> Iterator[GrantEffect]:
        """Grant a new lease, unless another machine has one or the question is an old one."""
        if (lease := self._leases[ask.host]) is not None:
            asked, answered = (ask.agent, ask.number), (lease.agent, lease.number)
            if ask.machine != lease.machine or asked < answered:
                self.refused += 1
                return
            if asked == answered:
                # The answer may have been lost.
                yield self._answer(ask, lease, now_ns)
                return
            # It says that nothing runs there any more.
            yield from self._lose(ask.host)
        self._waiting[ask.host] = ask
        yield from self._grant_waiting(now_ns)

    def _grant_waiting(self, now_ns: int) -> Iterator[GrantEffect]:
        if now_ns < self._free_ns:
            return
        for host, ask in list(self._waiting.items()):
            del self._waiting[host]
            self._fence += 1
            until_ns = now_ns + self._timing.controller_ns
            channel = OrderedChannel(self._timing.ask_ns)
            lease = _Lease(ask.machine, ask.agent, ask.number, self._fence, until_ns, channel)
            self._leases[host] = lease
            yield self._answer(ask, lease, now_ns)
            yield HostLeased(host)

    def _answer(self, ask: AskLease, lease: _Lease, now_ns: int) -> SendTo:
        named = self._epoch, lease.fence, ask.number
        granted = LeaseGranted(ask.machine, ask.agent, *named, self._timing.lease_ns, now_ns)
        return SendTo(ask.host, granted)

    def _lose(self, host: int) -> Iterator[GrantEffect]:
        self._leases[host] = None
        yield HostLost(host)

    def _pieces(self, host: int, now_ns: int) -> Iterator[GrantEffect]:
        if (lease := self._leases[host]) is not None:
            for number, body in lease.channel.due(now_ns):
                yield SendTo(host, LeasedMessage(host, self._epoch, lease.fence, number, body))
