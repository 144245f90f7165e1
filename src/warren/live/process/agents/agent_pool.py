"""The controller's handle on processes of hosts that are machines of their own, through agents.

Like ``ProcessPool``, but that a host can be away: what ran there has ended then, by the lease's
time at the latest, and what is to run there waits until the host is back.
"""

from __future__ import annotations

import select
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from warren.live.process.agents.launcher import Launcher
from warren.live.process.agents.messages import (
    AGENT_DECODER,
    AgentBody,
    Listens,
    PutFile,
    StartZygote,
    ZygoteFailed,
)
from warren.live.process.host_placement import AnyRole, HostPlacement
from warren.live.process.leases.lease_grants import (
    GrantEffect,
    HostLeased,
    HostLost,
    HostSaid,
    LeaseGrants,
    SendTo,
    Superseded,
)
from warren.live.process.leases.messages import TO_CONTROLLER
from warren.live.process.specs import Close, End, Exited, Fork, Forked, Role, ZygoteReady
from warren.live.transport.frames import BadFrame, Stream, bodies
from warren.live.transport.messages import ENCODER
from warren.live.transport.tcp_listener import TcpListener
from warren.model.errors import EngineError

AWAY: Final = "its host was lost"
"""How a process has ended whose host has lost its lease."""
_ZYGOTES: Final = 5
"""So many zygotes of one host may be lost."""


class AgentPool:
    """The processes of a run, by ticket, on hosts with agents.

    Parameters
    ----------
    placement
        Which host each process is on, and their folders.
    listener
        Where agents connect; its epoll is this pool's own.
    epoll
        What the listener is watched by.
    zygote
        What each zygote is started with.
    files
        What each host's folder has before its zygote is started, by name.
    grants
        The leases of the hosts.
    names_H
        What the hosts are called.
    folder, folders_H
        The controller's folder, and that of each host.
    launcher
        What starts agents, where the controller does.
    """

    def __init__(
        self,
        placement: HostPlacement,
        listener: TcpListener,
        epoll: select.epoll,
        zygote: StartZygote,
        files: Mapping[str, bytes],
        grants: LeaseGrants,
        names_H: Sequence[str],
        folder: str,
        folders_H: Sequence[str],
        launcher: Launcher | None = None,
    ) -> None:
        self._placement, self._listener, self._epoll = placement, listener, epoll
        self._zygote, self._grants, self._names_H = zygote, grants, names_H
        self._folder, self._folders_H, self._launcher = folder, folders_H, launcher
        # What is in every host's folder: what was given, and where processes of others listen.
        self._files = dict(files)
        self._streams: dict[int, Stream] = {}
        # By host: the connection that its agent spoke over last.
        self._stream_of: dict[int, Stream] = {}
        self._tickets = 0
        self._roles: dict[int, Role] = {}
        self._host_of: dict[int, int] = {}
        self._pids: dict[int, int] = {}
        # What waits for its host, in order.
        self._waiting: list[int] = []
        self._ready: dict[int, ZygoteReady] = {}
        self._failed = [0] * len(names_H)
        # Exits that are to be reported.
        self._exits: deque[Exited] = deque()

    @property
    def fds(self) -> tuple[int, ...]:
        """The file descriptors to poll."""
        return (self._epoll.fileno(),)

    def wake_ns(self) -> int | None:
        """Return when ``hear`` has something to do though nothing comes; None: it has not."""
        times = [self._grants.wake_ns()]
        if self._launcher is not None:
            times.append(self._launcher.look(time.monotonic_ns()))
        return min((time for time in times if time is not None), default=None)

    def pids(self) -> dict[int, Role]:
        """Return the processes and their roles, by the process ids of their hosts."""
        pids = self._pids.items()
        return {pid: self._roles[ticket] for ticket, pid in pids if ticket in self._roles}

    def await_zygote(self, within_s: float = 120.0) -> ZygoteReady:
        """Wait until the zygotes of all hosts are warm.

        Raises
        ------
        EngineError
            If one does not come up in time, or they compute in different classes.
        """
        until_s = time.monotonic() + within_s
        while len(self._ready) < len(self._names_H):
            if time.monotonic() > until_s:
                missing = [
                    name for host, name in enumerate(self._names_H) if host not in self._ready
                ]
                why = "" if self._launcher is None else self._launcher.problem()
                told = f"no agent of {', '.join(missing)} in {within_s:g} s"
                raise EngineError(f"{told}: {why}" if why else told)
            self.wake_ns()  # what starts agents looks after them
            for fd in self.fds:
                select.select([fd], [], [], 0.05)
                for _, role, exited in self.hear(fd):
                    raise EngineError(f"{type(role).__name__} ended at once: {exited.how}")
        classes = {one.numerics for one in self._ready.values()}
        if len(classes) > 1:
            raise EngineError(f"hosts compute in different classes: {'; '.join(sorted(classes))}")
        return self._ready[0]

    def fork(self, role: Role) -> int:
        """Ask for a process on its role's host, now or when the host is back; return its ticket."""
        self._tickets += 1
        ticket = self._tickets
        self._roles[ticket], self._host_of[ticket] = role, self._placement.of(role)
        self._waiting.append(ticket)
        self._fork_waiting()
        return ticket

    def kill(self, ticket: int) -> None:
        """Kill a process; its exit is reported."""
        if ticket in self._waiting:
            self._waiting.remove(ticket)
            self._over(ticket, "left")
        elif ticket in self._host_of:
            self._say(self._host_of[ticket], End(ticket))

    def end(self, ticket: int) -> None:
        """Kill a process; its exit is not reported."""
        if self._roles.pop(ticket, None) is None:
            return
        if ticket in self._waiting:
            self._waiting.remove(ticket)
        elif ticket in self._host_of:
            self._say(self._host_of[ticket], End(ticket))

    def hear(self, fd: int) -> Iterator[tuple[int, Role, Exited]]:
        """Read what has come; yield the processes that ended without being told to."""
        self._do(self._grants.tick(time.monotonic_ns()))
        self._listener.begin()
        for ready, _ in self._epoll.poll(0):
            if (stream := self._streams.get(ready)) is not None:
                self._read(stream)
            elif (end := self._listener.hear(ready)) is not None:
                new = Stream(end)
                new.watch(self._epoll)
                self._streams[new.fileno()] = new
                self._read(new)
        while self._exits:
            exited = self._exits.popleft()
            # Who handles one may tell others to end that have ended with it.
            if (role := self._roles.pop(exited.ticket, None)) is not None:
                yield exited.ticket, role, exited

    def close(self, *, last: bool) -> None:
        """Tell all agents that the run is over, or that what runs has to end."""
        for host in range(len(self._names_H)):
            self._say(host, Close(last))
        for stream in self._streams.values():
            stream.flush()
            stream.close()
        self._streams.clear()
        self._stream_of.clear()
        self._listener.close()
        self._epoll.close()
        if self._launcher is not None:
            self._launcher.close()

    def _read(self, stream: Stream) -> None:
        fd = stream.fileno()
        try:
            for body in bodies(stream):
                self._take(stream, body)
        except (BadFrame, msgspec.MsgspecError, OSError):
            stream.close()
        if stream.closed:
            self._streams.pop(fd, None)

    def _take(self, stream: Stream, body: bytes) -> None:
        frame, now_ns = TO_CONTROLLER.decode(body), time.monotonic_ns()
        if not 0 <= frame.host < len(self._names_H):
            raise BadFrame(f"host {frame.host}")
        new = self._stream_of.get(frame.host) is not stream
        self._stream_of[frame.host] = stream
        if new:
            self._do(self._grants.connected(frame.host, now_ns))
        self._do(self._grants.hear(frame, now_ns))

    def _do(self, effects: Iterable[GrantEffect]) -> None:
        for effect in effects:
            match effect:
                case SendTo(host, frame):
                    if (stream := self._stream_of.get(host)) is not None:
                        stream.send(ENCODER.encode(frame))
                case HostLeased(host):
                    self._furnish(host)
                case HostLost(host):
                    self._lose(host)
                case HostSaid(host, body):
                    self._heard(host, AGENT_DECODER.decode(body))
                case Superseded(epoch):
                    raise EngineError(f"another controller (number {epoch}) has taken over the run")

    def _furnish(self, host: int) -> None:
        """Give a host what every process there needs, and let it warm up a zygote."""
        for name, data in self._files.items():
            self._say(host, PutFile(name, data))
        self._say(host, self._zygote)

    def _lose(self, host: int) -> None:
        """Report all that ran on a host as ended; what waits for it still does."""
        self._ready.pop(host, None)
        for ticket, at in list(self._host_of.items()):
            if at == host and ticket not in self._waiting:
                self._over(ticket, AWAY)

    def _heard(self, host: int, body: AgentBody) -> None:
        match body:
            case ZygoteReady() as ready:
                self._ready[host] = ready
                self._fork_waiting()
            case Forked(ticket=ticket, pid=pid):
                if ticket in self._roles:
                    self._pids[ticket] = pid
            case Exited(ticket=ticket, how=how):
                self._over(ticket, how)
            case Listens(name=name, data=data):
                self._files[name] = data
                for other in range(len(self._names_H)):
                    if other != host:
                        self._say(other, PutFile(name, data))
            case ZygoteFailed(how=how):
                self._failed[host] += 1
                if self._failed[host] > _ZYGOTES:
                    raise EngineError(f"host {self._names_H[host]}: {how}")
            case _:
                raise BadFrame(f"an agent says {type(body).__name__}")

    def _over(self, ticket: int, how: str) -> None:
        self._host_of.pop(ticket, None)
        self._exits.append(Exited(ticket, self._pids.pop(ticket, 0), how))

    def _fork_waiting(self) -> None:
        """Fork what has waited for its host, where that has a warm zygote by now."""
        for ticket in list(self._waiting):
            if self._host_of[ticket] in self._ready:
                self._waiting.remove(ticket)
                host = self._host_of[ticket]
                self._say(host, Fork(ticket, self._at_home(self._roles[ticket], host)))

    def _at_home(self, role: AnyRole, host: int) -> AnyRole:
        """Return a role as its process gets it: with its host's identity and folder."""
        texts = {name: getattr(role, name, "") for name in ("folder", "tmp")}
        moved = {
            name: f"{self._folders_H[host]}{text.removeprefix(self._folder)}"
            for name, text in texts.items()
            if text.startswith(self._folder)
        }
        return msgspec.structs.replace(self._placement.with_identity(role), **moved)

    def _say(self, host: int, body: AgentBody) -> None:
        self._do(self._grants.say(host, ENCODER.encode(body), time.monotonic_ns()))
