"""The agent's side of a lease: whether anything may run on its host, and until when."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from warren.live.process.leases.clock_comparison import ClockComparison
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


class SendFrame(NamedTuple):
    """To be sent to the controller."""

    frame: ToController


class BeginLease(NamedTuple):
    """A lease begins, under which nothing runs yet."""

    epoch: int
    fence: int


class DeliverBody(NamedTuple):
    """Deliver a message of the controller to the processes under the lease."""

    body: bytes


class StopAll(NamedTuple):
    """The lease is over: end all that runs, within ``stop_ns``, and say ``stopped`` then."""


AgentEffect: TypeAlias = SendFrame | BeginLease | DeliverBody | StopAll


class _State(Enum):
    ASKS = "it has no lease, and nothing runs"
    HOLDS = "it has a lease"
    STOPS = "it has no lease, and something may still run"


_ASKED_MAX: Final = 64
_SOON: Final = 5
_SOON_NS: Final = 20_000_000


class HostLease:
    """An agent's record of its lease. Pure: callers pass the time, and methods return effects.

    Parameters
    ----------
    host
        The host's number among the cluster's.
    machine
        The name of its machine; a grant for another machine that claims this host is ignored.
    agent
        Number of earlier agents on this machine for this host. All processes that they started have
        ended.
    timing
        The times of the run's leases.

    Attributes
    ----------
    epoch
        The latest controller that it has heard of; messages of an earlier one are refused.
    refused
        Number of messages of earlier controllers and leases that it has refused.
    clock
        The comparison of its clock with the controller's.
    """

    def __init__(self, host: int, machine: str, agent: int, timing: LeaseTiming) -> None:
        self._host, self._machine, self._agent = host, machine, agent
        self._timing = timing
        self._state = _State.ASKS
        self.epoch = 0
        self.refused = 0
        self.clock = ClockComparison()
        self._fence = 0
        self._until_ns = 0
        self._number = 0
        # When each question was sent that may still be answered.
        self._asked_ns: dict[int, int] = {}
        self._ask_at_ns = 0
        self._soon = 0
        self._channel = OrderedChannel(timing.ask_ns)

    @property
    def holds(self) -> bool:
        """Whether it has a lease."""
        return self._state is _State.HOLDS

    def wake_ns(self) -> int | None:
        """Return when ``tick`` has something to do; None: not before something else happens."""
        if self._state is _State.STOPS:
            return None
        times = [self._ask_at_ns]
        if self.holds:
            times.append(self._until_ns)
            if (again_ns := self._channel.wake_ns) is not None:
                times.append(again_ns)
        return min(times)

    def tick(self, now_ns: int) -> Iterator[AgentEffect]:
        """Do all that is due: ask, end a lease that is over, repeat messages not yet received."""
        if self.holds and now_ns >= self._until_ns:
            yield from self._stop()
        if self._state is _State.STOPS:
            return
        if now_ns >= self._ask_at_ns:
            yield self._ask(now_ns)
        if self.holds:
            yield from self._pieces(now_ns)

    def hear(self, frame: ToAgent, now_ns: int) -> Iterator[AgentEffect]:
        """Take a message of the controller."""
        if self.holds and now_ns >= self._until_ns:
            yield from self._stop()
        if frame.epoch < self.epoch:
            self.refused += 1
            return
        if frame.epoch > self.epoch:
            # Another controller has taken over. The one before it started the running processes.
            self.epoch, self.clock = frame.epoch, ClockComparison()
            if self.holds:
                yield from self._stop()
        match frame:
            case LeaseGranted():
                yield from self._granted(frame, now_ns)
            case LeaseEnded(fence=fence):
                if self.holds and fence == self._fence:
                    yield from self._stop()
            case LeasedMessage() | Received():
                if not self.holds or frame.fence != self._fence:
                    self.refused += 1
                elif isinstance(frame, Received):
                    self._channel.received(frame.next)
                else:
                    for body in self._channel.hear(frame.number, frame.body):
                        yield DeliverBody(body)
                    yield SendFrame(
                        Received(self._host, self.epoch, self._fence, self._channel.next)
                    )

    def say(self, body: bytes, now_ns: int) -> Iterator[AgentEffect]:
        """Say something to the controller, under the lease; without one it is lost."""
        if self.holds:
            self._channel.send(body, now_ns)
            yield from self._pieces(now_ns)

    def give_back(self) -> Iterator[AgentEffect]:
        """End the lease before its time, since the processes under it cannot go on."""
        if self.holds:
            yield from self._stop()

    def connected(self, now_ns: int) -> Iterator[AgentEffect]:
        """Repeat at once every message not yet received: the connection is new."""
        self._channel.repeat(now_ns)
        if self._state is not _State.STOPS:
            self._ask_at_ns = now_ns
        if self._state is _State.ASKS:
            # From when it can arrive, so that clocks are compared by how long the way takes.
            self._new_question()
        yield from self.tick(now_ns)

    def stopped(self, now_ns: int) -> Iterator[AgentEffect]:
        """Take note that nothing runs any more; ask for a lease again."""
        if self._state is _State.STOPS:
            self._state = _State.ASKS
            self._new_question()
            self._ask_at_ns = now_ns
            yield from self.tick(now_ns)

    def _ask(self, now_ns: int) -> SendFrame:
        soon = self.holds and self._soon > 0
        self._soon -= soon
        self._ask_at_ns = now_ns + (_SOON_NS if soon else self._timing.ask_ns)
        if self.holds:
            self._new_question()
        elif now_ns - self._asked_ns.get(self._number, now_ns) >= self._timing.agent_ns:
            # No answer to it could give a lease that still stands.
            self._new_question()
        # The time of the first: an answer may be one to it.
        self._asked_ns.setdefault(self._number, now_ns)
        fence = self._fence if self.holds else 0
        who = self._host, self._machine, self._agent
        return SendFrame(AskLease(*who, self._number, self.epoch, fence))

    def _new_question(self) -> None:
        self._number += 1
        while len(self._asked_ns) >= _ASKED_MAX:
            del self._asked_ns[next(iter(self._asked_ns))]

    def _granted(self, frame: LeaseGranted, now_ns: int) -> Iterator[AgentEffect]:
        asked_ns = self._asked_ns.get(frame.number)
        mine = (frame.machine, frame.agent) == (self._machine, self._agent)
        if not mine or asked_ns is None or self._state is _State.STOPS:
            return
        self.clock.learn(asked_ns, frame.now_ns, now_ns)
        until_ns = asked_ns + min(frame.lease_ns, self._timing.lease_ns) - self._timing.stop_ns
        if self.holds:
            if frame.fence == self._fence:
                self._until_ns = max(self._until_ns, until_ns)
        # A lease is taken only for the last question: each later question said again that nothing
        # runs here, and the controller may have relied on that.
        elif frame.number == self._number and until_ns > now_ns:
            self._state, self._fence, self._until_ns = _State.HOLDS, frame.fence, until_ns
            self._channel = OrderedChannel(self._timing.ask_ns)
            # Soon, some times: the more answers there are, the better clocks are compared.
            self._soon = _SOON
            self._ask_at_ns = now_ns + _SOON_NS
            yield BeginLease(self.epoch, self._fence)

    def _stop(self) -> Iterator[AgentEffect]:
        self._state = _State.STOPS
        self._fence = 0
        self._asked_ns.clear()
        yield StopAll()

    def _pieces(self, now_ns: int) -> Iterator[AgentEffect]:
        for number, body in self._channel.due(now_ns):
            yield SendFrame(LeasedMessage(self._host, self.epoch, self._fence, number, body))
