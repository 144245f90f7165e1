"""The agent of a host: it reports the jobs here to a coordinator, and sets the classes it gets.

It runs beside the jobs and never in them. Gains are predicted in this process, one between two
checks for messages, so that an order never waits for more than one. Without a coordinator it tries
again and again. Classes stand for ``keep_periods``, then nothing is marked any more.
"""

from __future__ import annotations

import errno
import secrets
import select
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator
from itertools import count as numbers
from typing import Any, Final

import msgspec

from warren.live.enforcement.coordination.messages import (
    ENCODER,
    INSTANCE_BYTES,
    MOST_BYTES,
    PROTOCOL,
    AgentHello,
    AgentRefused,
    AgentSaid,
    AgentWelcome,
    AskGains,
    CoordinatorSaid,
    JobGain,
    JobNodes,
    SetClasses,
    agent_said,
    coordinator_said,
)
from warren.live.enforcement.coordination.peer_address import PeerAddress
from warren.live.enforcement.requests import wrong
from warren.live.enforcement.watched_jobs import WatchedJobs, WatchedState
from warren.live.transport.frames import Stream, bodies
from warren.live.transport.tls import TlsSocket
from warren.model.errors import SpecError, one_line

_RETRY_S: Final = 1.0
_WELCOME_S: Final = 10.0
"""Longest wait in seconds for a coordinator's welcome."""
# Frames and text that is no UTF-8 are of the first kind.
_FAULTS: Final = (ValueError, msgspec.MsgspecError, SpecError, OSError)


class FlowAgent:
    """An agent called ``name``. ``say`` takes a line for people about the coordinator.

    ``queues``: this host has queues of its own for its outgoing traffic.

    Raises
    ------
    SpecError
        If the name is invalid.
    """

    def __init__(
        self,
        name: str,
        jobs: WatchedJobs,
        address: PeerAddress,
        secret: bytes,
        say: Callable[[str], None],
        *,
        queues: bool = False,
    ) -> None:
        self._jobs, self._address, self._secret, self._say = jobs, address, secret, say
        self._state_of = {one.job.name: one for one in jobs.states}
        self._hello = AgentHello(
            protocol=PROTOCOL,
            agent=name,
            instance=secrets.token_bytes(INSTANCE_BYTES),
            jobs=tuple(self._state_of),
            queues=queues,
        )
        agent_said(ENCODER.encode(self._hello))
        self._epoll = select.epoll()
        self._stream: Stream | None = None
        self._end: TlsSocket | None = None
        self._attempts = numbers()
        self._retry_s = self._since_s = 0.0
        self._terms: AgentWelcome | None = None
        self._welcome = False
        self._heard_s = 0.0
        self._read_s: float | None = None
        self._asked: deque[tuple[int, str]] = deque()
        self._told = ""

    def orders(self, count: int | None) -> Iterator[list[dict[str, Any]]]:
        """Yield the rows after each order, ``count`` times or until interrupted.

        Also once when classes are removed for lack of a coordinator.

        Raises
        ------
        SpecError
            If the coordinator does not take this agent.
        """
        done = 0
        while count is None or done < count:
            ordered = 0
            for said in self._heard():
                if self._take(said):
                    ordered += 1
                    yield self._jobs.rows()
            done += ordered
            if self._let_go():
                yield self._jobs.rows()
            if not ordered and self._asked:
                self._predict(*self._asked.popleft())

    def close(self) -> None:
        """Close the connection."""
        if self._stream is not None:
            self._stream.close()
        self._epoll.close()

    def _heard(self) -> list[CoordinatorSaid]:
        """Return the messages of the coordinator; connect first if need be."""
        if self._stream is None and time.monotonic() >= self._retry_s:
            self._connect()
        self._epoll.poll(0.0 if self._asked else _RETRY_S / 2)
        if self._stream is None:
            return []
        found = []
        try:
            for body in bodies(self._stream):
                found.append(self._checked(coordinator_said(body)))
        except _FAULTS as error:
            text = str(error) if isinstance(error, SpecError) else one_line(error)
            self._lose(f"is left: {ascii(text)[1:-1][:300]}")
            return []
        if self._stream.closed:
            assert self._end is not None
            self._lose(_why_closed(self._end))
        elif not self._welcome and time.monotonic() - self._since_s > _WELCOME_S:
            self._lose(f"does not answer in {_WELCOME_S:g} s")
        if found:
            self._heard_s = time.monotonic()
        return found

    def _connect(self) -> None:
        self._since_s = time.monotonic()
        try:
            found = self._address.found()
            # Of several addresses each in its turn: only one of them may be listened at.
            family, kind, protocol, _, place = found[next(self._attempts) % len(found)]
            end = socket.socket(family, kind, protocol)
        except OSError as error:
            self._lose(f"is not found: {one_line(error)}")
            return
        end.setblocking(False)
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        failed = end.connect_ex(place)
        if failed not in (0, errno.EINPROGRESS):
            end.close()
            self._lose("takes no connection")
            return
        self._end = TlsSocket(end, self._secret, False)
        self._stream = Stream(self._end, MOST_BYTES)
        self._stream.watch(self._epoll)
        self._send(self._hello)

    def _checked(self, said: CoordinatorSaid) -> CoordinatorSaid:
        """Return an allowed message: none before the welcome, and only about jobs that are here."""
        if isinstance(said, AskGains | SetClasses):
            if self._terms is None or not self._welcome:
                raise wrong("coordinator", "it orders before it has said that this agent counts")
            for job in said.jobs if isinstance(said, AskGains) else said.classes:
                if job not in self._state_of:
                    raise wrong("coordinator", f"it speaks of {job}, which is not watched here")
        elif isinstance(said, AgentWelcome):
            self._terms, self._welcome = said, True
        return said

    def _take(self, said: CoordinatorSaid) -> bool:
        """Carry out a message of the coordinator; tell whether it was an order."""
        if isinstance(said, AgentRefused):
            raise wrong("--name", f"the coordinator refuses it: {said.reason!a}")
        if isinstance(said, SetClasses):
            self._jobs.set_classes(said.classes, said.queues, said.peers)
            return True
        if isinstance(said, AskGains):
            self._read()
            # Requests of an earlier period that have not been begun are of no use any more.
            self._asked = deque((said.period, job) for job in said.jobs)
        else:
            self._tell(f"counts this agent; a period has {said.period_s:g} s")
            if self._read_s is None:
                self._jobs.read(0.0)
                self._read_s = time.monotonic()
        for one in self._jobs.states:
            self._send(self._nodes(one))
        return False

    def _read(self) -> None:
        """Read all logs, unless that was just done: a speed over so short a time says nothing."""
        assert self._terms
        now_s = time.monotonic()
        assert self._read_s is not None, "it has been welcomed"
        elapsed_s = now_s - self._read_s
        if elapsed_s >= self._terms.period_s / 2:
            self._jobs.read(elapsed_s)
            self._jobs.warn(self._terms.period_s, self._say)
            self._read_s = now_s

    def _nodes(self, one: WatchedState) -> JobNodes:
        said = JobNodes(
            job=one.job.name,
            endpoints=one.flows.ends(),
            reads=bool(one.job.log.steps),
            ended=one.job.silent,
            addresses_own=one.flows.pid is not None,
        )
        try:
            agent_said(ENCODER.encode(said))
        except SpecError as error:
            # More than can be marked: the job counts as if it had no nodes here.
            one.problem = str(error)
            return msgspec.structs.replace(said, endpoints=())
        return said

    def _predict(self, period: int, job: str) -> None:
        assert self._terms
        one = self._state_of[job]
        self._jobs.predict(one, self._terms.period_s, self._terms.seed)
        self._send(JobGain(period=period, job=job, gain=one.job.gain))

    def _let_go(self) -> bool:
        """Unmark all once the coordinator has been silent for as long as classes stand."""
        if self._terms is None:
            return False
        stand_s = self._terms.keep_periods * self._terms.period_s
        if time.monotonic() - self._heard_s <= stand_s:
            return False
        if self._welcome:
            self._lose("says nothing any more")
        if all(one.flow_class is None for one in self._jobs.states):
            return False
        self._jobs.set_classes({})
        self._say(f"no coordinator for {stand_s:g} s: nothing is marked any more")
        return True

    def _send(self, said: AgentSaid) -> None:
        if self._stream is None:
            return
        try:
            self._stream.send(ENCODER.encode(said))
        except OSError as error:
            self._lose(f"is left: {one_line(error)}")

    def _lose(self, why: str) -> None:
        """Close the connection; another one is tried soon."""
        if self._stream is not None:
            self._stream.close()
        self._stream, self._welcome = None, False
        self._asked.clear()
        self._retry_s = time.monotonic() + _RETRY_S
        self._tell(why)

    def _tell(self, what: str) -> None:
        """Report the state of the coordinator, once while it stays the same."""
        if what != self._told:
            self._told = what
            self._say(f"coordinator at {self._address}: {what}")


def _why_closed(end: TlsSocket) -> str:
    if end.proven:
        return "has gone"
    return "has another secret, or has gone" if end.met else "takes no connection"
