"""The daemon's side of agents: its own machine's by a Unix socket, others by TLS.

An order to a host that is not connected is dropped: the daemon gives it again when the host has
joined. What an agent says about its host's name in a report does not count; its connection does.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import os
import socket
import struct
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Final

import msgspec

from warren.model.errors import WarrenError
from warren.serve.agent.folders import attempt_folder
from warren.serve.hosts.local_agent import LocalAgent
from warren.serve.hosts.messages import (
    BEAT_S,
    HELLO_BYTES,
    LINE_BYTES,
    PIECE_BYTES,
    PROTOCOL,
    Beat,
    ForgetRecord,
    FromAgent,
    Hello,
    HelloRefused,
    Lines,
    LogPiece,
    MalformedMessage,
    ReadLog,
    StartAttempt,
    StopAttempt,
    TestDevice,
    ToAgent,
    Welcome,
    decode_report,
    encode,
)
from warren.serve.hosts.port import AgentJoined, AgentLost, Report, StartOrder
from warren.serve.hosts.tls import Credentials, credentials, server_context

LOST_S: Final = 20.0
"""Silence of an agent after which its host counts as lost, in seconds."""
_HELLO_S: Final = 10.0
"""Longest wait for the first message of an agent, in seconds."""
_STRANGERS: Final = 64
"""Most connections at once whose agents have not been accepted."""
_READ_S: Final = 20.0
"""Longest wait for a piece of a log, in seconds."""


class HostNotConnected(WarrenError):
    """A host whose agent does not answer was asked for something."""


class AgentHosts:
    """All hosts that have agents.

    Parameters
    ----------
    home
        Home of the service. Its socket for agents is ``agent.sock`` in it.
    name
        Name of this machine; None: its host name.
    listen
        Address and port for agents of other machines; None where there are none.
    local
        Whether this machine has an agent, too.
    lost_s
        Silence of an agent after which its host counts as lost, in seconds.
    welcome
        What agents are welcomed with: what they are to report.
    self_test
        Command that tests a GPU of this machine; None: the test of its agent.
    say
        Called with each line that an operator should read.
    """

    def __init__(
        self,
        home: Path,
        *,
        name: str | None = None,
        listen: tuple[str, int] | None = None,
        local: bool = True,
        lost_s: float = LOST_S,
        welcome: Welcome = Welcome(),  # noqa: B008 - a frozen value
        self_test: str | None = None,
        say: Callable[[str], None] = lambda line: print(line, file=sys.stderr, flush=True),
    ) -> None:
        self._home = home
        self._name = name or socket.gethostname() or "localhost"
        self._listen, self._lost_s, self.say = listen, lost_s, say
        self._welcome = welcome
        self._servers: list[asyncio.Server] = []
        self._connected: dict[str, _Connection] = {}
        self._strangers: set[_Connection] = set()
        self._report: Callable[[Report], None] = lambda _: None
        self._watch: asyncio.TimerHandle | None = None
        self._closed = False
        self.credentials: Credentials | None = None
        """Certificate and token; None where no agents of other machines may join."""
        self.port: int | None = None
        """Port on which agents of other machines are awaited."""
        self.agent = (
            LocalAgent(home / "agent", home / "agent.sock", self._name, say, self_test)
            if local
            else None
        )
        """The agent of this machine; None where it has none."""

    async def open(self, report: Callable[[Report], None]) -> None:
        """Listen for agents, and start the one of this machine.

        Raises OSError if an address cannot be listened to, or the home cannot be written.
        """
        self._report = report
        loop = asyncio.get_running_loop()
        path = self._home / "agent.sock"
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
        end = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        end.bind(str(path))
        path.chmod(0o600)
        self._servers.append(
            await loop.create_unix_server(lambda: _Connection(self, local=True), sock=end)
        )
        if self._listen is not None:
            self.credentials = credentials(self._home / "tls")
            server = await loop.create_server(
                lambda: _Connection(self, local=False),
                *self._listen,
                ssl=server_context(self.credentials),
                ssl_handshake_timeout=_HELLO_S,
            )
            self.port = server.sockets[0].getsockname()[1]
            self._servers.append(server)
        self._beat()
        if self.agent is not None:
            self.agent.start()

    async def close(self) -> None:
        """End the connections and the agent of this machine; attempts run on."""
        self._closed = True
        if self._watch is not None:
            self._watch.cancel()
        for server in self._servers:
            server.close()
        if self.agent is not None:
            self.agent.stop()
        for connection in (*self._connected.values(), *self._strangers):
            connection.close()
        self._connected.clear()
        (self._home / "agent.sock").unlink(missing_ok=True)
        await asyncio.sleep(0)

    def start(self, host: str, order: StartOrder) -> None:
        """Have a host start an attempt; a host that has its name already ignores this."""
        self._send(host, StartAttempt(order))

    def stop(self, host: str, attempt: str, grace_s: float, *, preempt: bool = False) -> None:
        """Have a host end an attempt, by a cancel or by the signal of a job that is preempted."""
        self._send(host, StopAttempt(attempt, grace_s, preempt))

    def test(self, host: str, device: str) -> None:
        """Have a host test a GPU, which takes some seconds; it answers with ``DeviceTested``."""
        self._send(host, TestDevice(device))

    def forget(self, host: str, attempt: str) -> None:
        """Let a host delete the record of an attempt whose end is in the journal; not its log."""
        self._send(host, ForgetRecord(attempt))

    async def read_log(self, host: str, attempt: str, offset: int, limit: int) -> bytes:
        """Return up to ``limit`` bytes of what an attempt wrote, from ``offset`` on.

        Raises HostNotConnected if the host is not connected, does not answer, or cannot read it.
        """
        if self.agent is not None and host == self._name:
            return self._read_own(attempt, offset, limit)
        connection = self._connected.get(host)
        if connection is None:
            raise HostNotConnected(f"host {host!r} is not connected")
        return await connection.read(attempt, offset, limit)

    def _read_own(self, attempt: str, offset: int, limit: int) -> bytes:
        """Read a log of this machine, which its agent is not needed for."""
        try:
            folder = attempt_folder(str(self._home / "agent"), attempt)
            return folder.read_output(max(0, offset), min(max(0, limit), PIECE_BYTES))
        except (OSError, ValueError) as error:
            raise HostNotConnected(f"the log of {attempt} cannot be read: {error}") from None

    def _send(self, host: str, message: ToAgent) -> None:
        connection = self._connected.get(host)
        if connection is not None:
            connection.send(message)

    def _beat(self) -> None:
        """Show agents that the daemon lives, and find those that do not."""
        loop = asyncio.get_running_loop()
        for connection in list(self._connected.values()):
            silent_s = loop.time() - connection.heard_s
            if silent_s > self._lost_s:
                connection.drop(f"its agent has been silent for {silent_s:.0f} s")
            else:
                connection.send(Beat())
        self._watch = loop.call_later(min(BEAT_S, self._lost_s / 4), self._beat)

    # What connections ask for.

    def came(self, connection: _Connection, local: bool) -> bool:
        """Take a connection whose agent is not known yet; tell whether there is room."""
        if self._closed or (len(self._strangers) >= _STRANGERS and not local):
            return False
        self._strangers.add(connection)
        return True

    def why_not(self, hello: Hello, local: bool) -> str | None:
        """Return why an agent is refused, in one line; None if it is accepted."""
        if hello.protocol != PROTOCOL:
            return f"it speaks protocol {hello.protocol}, the daemon {PROTOCOL}; use one version"
        if not local:
            assert self.credentials is not None
            digests = (
                hashlib.sha256(one.encode()).digest()
                for one in (hello.token, self.credentials.token)
            )
            if not hmac.compare_digest(*digests):
                return "the token is wrong"
        host = hello.machine.name
        if not host or len(host) > 253 or not host.isprintable():
            return "its host name is empty, too long or not printable"
        if not local and self.agent is not None and host == self._name:
            return f"{host!r} is the daemon's own machine; give this one a --name"
        other = self._connected.get(host)
        if other is not None and other.agent != hello.agent:
            return f"another agent is connected as {host!r}; give this one a --name"
        return None

    def joined(self, connection: _Connection, hello: Hello) -> None:
        """Use a connection for its host from now on, instead of an earlier one of its agent."""
        self._strangers.discard(connection)
        host = hello.machine.name
        other = self._connected.get(host)
        if other is not None:
            other.drop("its agent has connected again")
        self._connected[host] = connection
        connection.send(self._welcome)
        self._report(AgentJoined(hello.machine, hello.attempts))

    def reported(self, report: Report) -> None:
        """Hand a report to the daemon."""
        if not self._closed:
            self._report(report)

    def gone(self, connection: _Connection, why: str) -> None:
        """Let a connection go; its host is lost if it was in use."""
        self._strangers.discard(connection)
        host = connection.host
        if host is not None and self._connected.get(host) is connection:
            del self._connected[host]
            self.reported(AgentLost(host, why))


class _Connection(asyncio.Protocol):
    """One connection of an agent."""

    def __init__(self, hosts: AgentHosts, local: bool) -> None:
        self._hosts, self._local = hosts, local
        self._lines = Lines(HELLO_BYTES)
        self._transport: asyncio.Transport | None = None
        self._numbers = count(1)
        self._reads: dict[int, asyncio.Future[bytes]] = {}
        self._patience: asyncio.TimerHandle | None = None
        self._peer = "this machine"
        self.host: str | None = None
        self.agent = ""
        self.heard_s = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the first message."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        loop = asyncio.get_running_loop()
        if self._local:
            if not _is_own_account(transport.get_extra_info("socket")):
                self.drop("a process of another account connected")
                return
        else:
            self._peer = str(transport.get_extra_info("peername", ("?",))[0])
        if not self._hosts.came(self, self._local):
            self.drop("too many agents try to connect at once")
            return
        self._patience = loop.call_later(_HELLO_S, lambda: self.drop("it said nothing"))

    def data_received(self, data: bytes) -> None:
        """Take what the agent says."""
        self.heard_s = asyncio.get_running_loop().time()
        try:
            for line in self._lines.feed(data):
                self._take(decode_report(line))
                if self._transport is None:
                    return
        except MalformedMessage as error:
            self.drop(str(error))

    def connection_lost(self, error: Exception | None) -> None:
        """Note that the agent has gone."""
        self._left(f"its connection broke: {error}" if error else "its agent has gone")

    def send(self, message: ToAgent) -> None:
        """Send a message."""
        if self._transport is not None:
            self._transport.write(encode(message))

    async def read(self, attempt: str, offset: int, limit: int) -> bytes:
        """Return a piece of a log; raises HostNotConnected if it does not come."""
        number = next(self._numbers)
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._reads[number] = future
        self.send(ReadLog(number, attempt, offset, min(limit, PIECE_BYTES)))
        try:
            return await asyncio.wait_for(future, _READ_S)
        except TimeoutError:
            raise HostNotConnected(f"host {self.host!r} does not answer") from None
        finally:
            self._reads.pop(number, None)

    def drop(self, why: str) -> None:
        """End the connection, and say why."""
        self._hosts.say(f"agent of {self.host or self._peer}: {why}")
        if self._transport is not None:
            self._transport.abort()
        self._left(why)

    def close(self) -> None:
        """End the connection when all is sent."""
        if self._transport is not None:
            self._transport.close()
        self._left("the service ends")

    def _left(self, why: str) -> None:
        self._transport = None
        if self._patience is not None:
            self._patience.cancel()
        for future in self._reads.values():
            if not future.done():
                future.set_exception(HostNotConnected(f"host {self.host!r} is not connected"))
        self._hosts.gone(self, why)

    def _take(self, message: FromAgent) -> None:
        if self.host is None:
            self._meet(message)
        elif isinstance(message, LogPiece):
            future = self._reads.get(message.number)
            if future is not None and not future.done():
                if message.error:
                    future.set_exception(HostNotConnected(message.error))
                else:
                    future.set_result(message.data)
        elif isinstance(message, Hello):
            raise MalformedMessage("it said hello twice")
        elif not isinstance(message, Beat):
            self._hosts.reported(msgspec.structs.replace(message, host=self.host))

    def _meet(self, message: FromAgent) -> None:
        if not isinstance(message, Hello):
            raise MalformedMessage("it did not say hello first")
        why_not = self._hosts.why_not(message, self._local)
        if why_not is not None:
            self._hosts.say(f"agent of {self._peer} is refused: {why_not}")
            self.send(HelloRefused(why_not))
            self.close()
            return
        assert self._patience is not None
        self._patience.cancel()
        self._lines.limit = LINE_BYTES
        self.host, self.agent = message.machine.name, message.agent
        self._hosts.joined(self, message)


def _is_own_account(end: socket.socket) -> bool:
    """Tell whether the process at the other end of a Unix socket is of this account, or root."""
    uid = struct.unpack("3i", end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1]
    return uid in (0, os.geteuid())
