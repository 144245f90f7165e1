"""The coordinator of flows as a process: it listens to agents, and carries out ``state``.

One thread, and nothing waits but one poll: an agent that is slow, silent, gone or talks nonsense
holds up no other one.
"""

from __future__ import annotations

import contextlib
import select
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from warren.live.enforcement.coordination.messages import (
    ENCODER,
    MOST_BYTES,
    PROTOCOL,
    AgentHello,
    AgentRefused,
    AgentWelcome,
    AskGains,
    CoordinatorSaid,
    agent_said,
)
from warren.live.enforcement.coordination.peer_address import PeerAddress, shown_address
from warren.live.enforcement.coordination.state import AgentFault, Coordination
from warren.live.transport.frames import Stream, bodies
from warren.live.transport.tls import TlsSocket
from warren.model.errors import EngineError, WarrenError, one_line

_PROVEN_BY_S: Final = 10.0
"""Longest time in seconds in which a connection must show that it knows the secret."""
_MOST_UNPROVEN: Final = 64
_MOST_AGENTS: Final = 1024
_LOOK_S: Final = 1.0
# Frames, faults and text that is no UTF-8 are of the first kind.
_FAULTS: Final = (ValueError, msgspec.MsgspecError, WarrenError, OSError)


@dataclass(slots=True, eq=False)
class _Peer:
    """A connection; ``agent``: its name, once it has said it and counts."""

    end: TlsSocket
    stream: Stream
    address: str
    since_s: float
    agent: str | None = None

    def __str__(self) -> str:
        return f"{self.agent or 'an unknown agent'} at {self.address}"


class FlowCoordinator:
    """A coordinator that listens. ``say`` takes a line for people about agents.

    Parameters
    ----------
    address
        The address at which it listens.
    secret
        The secret of all agents.
    core
        The decisions.
    period_s
        Seconds from one order to the next.
    wait_s
        Seconds of waiting for answers in each period.
    sets
        Whether agents get their classes; otherwise it only asks and orders.

    Raises
    ------
    EngineError
        If this machine cannot listen there.
    """

    def __init__(
        self,
        address: PeerAddress,
        secret: bytes,
        core: Coordination,
        *,
        period_s: float,
        wait_s: float,
        sets: bool,
        say: Callable[[str], None],
    ) -> None:
        self._secret, self._core, self._sets, self._say = secret, core, sets, say
        self._period_s, self._wait_s = period_s, wait_s
        self._listener = _listening(address)
        self._epoll = select.epoll()
        self._epoll.register(self._listener.fileno(), select.EPOLLIN)
        # By file descriptor, the oldest first.
        self._peers: dict[int, _Peer] = {}

    @property
    def address(self) -> str:
        """The address at which it listens."""
        return shown_address(self._listener.getsockname())

    def periods(self, count: int | None) -> Iterator[list[dict[str, Any]]]:
        """Yield the rows of each period, ``count`` times or until interrupted."""
        done = 0
        while count is None or done < count:
            begin_s = time.monotonic()
            self._ask()
            self._serve(begin_s + self._wait_s, self._core.answered)
            rows = self._order()
            done += 1
            yield rows
            if count is None or done < count:
                self._serve(begin_s + self._period_s, lambda: False)

    def close(self) -> None:
        """Close the listening socket and all connections."""
        for peer in self._peers.values():
            peer.stream.close()
        self._peers.clear()
        self._listener.close()
        self._epoll.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _ask(self) -> None:
        for peer in self._named(self._core.silent()):
            self._drop(peer, "has said nothing for too long")
        asked = self._core.begin()
        for peer in self._named(asked):
            assert peer.agent
            self._send(peer, AskGains(period=self._core.period, jobs=asked[peer.agent]))

    def _order(self) -> list[dict[str, Any]]:
        order = self._core.order()
        for peer in self._named(self._core.agents if self._sets else ()):
            assert peer.agent
            self._send(peer, self._core.orders_of(peer.agent, order))
        return self._core.rows(order)

    def _serve(self, until_s: float, enough: Callable[[], bool]) -> None:
        """Hear agents until then, or until it is enough."""
        while not enough():
            left_s = until_s - time.monotonic()
            for fd, _ in self._epoll.poll(max(0.0, min(left_s, _LOOK_S))):
                if fd == self._listener.fileno():
                    self._accept()
                elif fd in self._peers:
                    self._hear(self._peers[fd])
            self._end_unproven()
            if left_s <= 0:
                return

    def _accept(self) -> None:
        with contextlib.suppress(BlockingIOError, ConnectionError):
            while True:
                end, address = self._listener.accept()
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                secure = TlsSocket(end, self._secret, True)
                stream = Stream(secure, MOST_BYTES)
                stream.watch(self._epoll)
                peer = _Peer(secure, stream, shown_address(address), time.monotonic())
                self._peers[stream.fileno()] = peer

    def _end_unproven(self) -> None:
        """End connections that do not show the secret: those too old, the oldest of too many."""
        new = [peer for peer in self._peers.values() if peer.agent is None]
        for peer in new[: max(0, len(new) - _MOST_UNPROVEN)]:
            self._drop(peer, "is one of too many")
        for peer in new:
            if not peer.stream.closed and time.monotonic() - peer.since_s > _PROVEN_BY_S:
                self._drop(peer, f"has not said who it is in {_PROVEN_BY_S:g} s")

    def _hear(self, peer: _Peer) -> None:
        try:
            for body in bodies(peer.stream):
                self._take(peer, body)
                if peer.stream.closed:
                    return
        except _FAULTS as error:
            reason = error if isinstance(error, WarrenError | AgentFault) else one_line(error)
            self._drop(peer, f"is dropped: {ascii(str(reason))[1:-1][:300]}")
        if peer.stream.closed and peer in self._peers.values():
            self._drop(peer, "has gone" if peer.end.proven else "does not show the secret")

    def _take(self, peer: _Peer, body: bytes) -> None:
        said = agent_said(body)
        if isinstance(said, AgentHello):
            self._join(peer, said)
        elif peer.agent is None:
            raise AgentFault("it has not said who it is")
        else:
            self._core.hear(peer.agent, said)

    def _join(self, peer: _Peer, hello: AgentHello) -> None:
        if peer.agent is not None:
            raise AgentFault("it has said who it is already")
        try:
            if hello.protocol != PROTOCOL:
                raise AgentFault(f"it speaks version {hello.protocol}, not {PROTOCOL}")
            if len(self._core.agents) >= _MOST_AGENTS:
                raise AgentFault(f"there are {_MOST_AGENTS} agents already")
            self._core.join(hello)
        except AgentFault as fault:
            self._send(peer, AgentRefused(reason=str(fault)))
            raise
        for former in self._named([hello.agent]):
            former.agent = None
            self._drop(former, "has come again")
        peer.agent = hello.agent
        self._say(f"{peer}: is here, with {len(hello.jobs)} jobs")
        self._send(
            peer,
            AgentWelcome(
                period_s=self._period_s,
                keep_periods=self._core.keep_periods,
                seed=self._core.seed,
            ),
        )

    def _send(self, peer: _Peer, said: CoordinatorSaid) -> None:
        try:
            peer.stream.send(ENCODER.encode(said))
        except OSError as error:
            self._drop(peer, f"is dropped: {one_line(error)}")

    def _drop(self, peer: _Peer, why: str) -> None:
        for fd, one in list(self._peers.items()):
            if one is peer:
                del self._peers[fd]
                self._say(f"{peer}: {why}")
        peer.stream.close()
        if peer.agent is not None:
            self._core.leave(peer.agent)
            peer.agent = None

    def _named(self, names: Iterable[str]) -> list[_Peer]:
        wanted = set(names)
        return [peer for peer in self._peers.values() if peer.agent in wanted]


def _listening(address: PeerAddress) -> socket.socket:
    try:
        family, kind, protocol, _, place = address.found()[0]
        listener = socket.socket(family, kind, protocol)
        try:
            # A coordinator that starts again need not wait for connections of the one before it.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.setblocking(False)
            listener.bind(place)
            listener.listen(_MOST_UNPROVEN)
        except BaseException:
            listener.close()
            raise
    except OSError as error:
        raise EngineError(f"flow: cannot listen at {address}: {one_line(error)}") from None
    return listener
