"""The controller's handle on processes of hosts that are machines of their own, through agents.

Like ``ProcessPool``, but that a host can be away: what ran there has ended then, by the lease's
time at the latest, and what is to run there waits until the host is back.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from warren.live.transport.tcp_listener import SUFFIX, TcpListener
from warren.model.errors import EngineError

AWAY: Final = "its host was lost"
"""How a process has ended whose host has lost its lease."""
_ZYGOTES: Final = 5
"""So many zygotes of one host may be lost within ``_WITHIN_NS``."""
_WITHIN_NS: Final = 600 * 10**9
_LOOK_NS: Final = 500_000_000
"""How often is looked whether the run has another controller, and whether agents have ended."""
_FLAGS: Final = os.EFD_NONBLOCK | os.EFD_CLOEXEC


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
    current
        Whether the run has no later controller.

    Notes
    -----
    Leases are renewed by a thread of its own, so that a decision may take as long as it likes. What
    agents say waits there until ``hear``.
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
        current: Callable[[], bool] = lambda: True,
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
        self._numerics = ""
        # When zygotes of each host have failed.
        self._failed: list[deque[int]] = [deque(maxlen=_ZYGOTES) for _ in names_H]
        self._current, self._looked_ns = current, 0
        # Exits that are to be reported, and what has made the thread give up.
        self._exits: deque[Exited] = deque()
        self._error: Exception | None = None
        # Written to when there is something to be heard, or to be done by the thread.
        self._told, self._woken = os.eventfd(0, _FLAGS), os.eventfd(0, _FLAGS)
        self._epoll.register(self._woken, select.EPOLLIN)
        self._lock, self._closed = threading.RLock(), False
        self._thread = threading.Thread(target=self._serve, name="warren-agents", daemon=True)
        self._thread.start()

    @property
    def fds(self) -> tuple[int, ...]:
        """The file descriptors to poll."""
        return (self._told,)

    def pids(self) -> dict[int, Role]:
        """Return the processes and their roles, by the process ids of their hosts."""
        with self._lock:
            pids = self._pids.items()
            return {pid: self._roles[ticket] for ticket, pid in pids if ticket in self._roles}

    @property
    def stale_messages(self) -> int:
        """How many messages of agents have come whose lease did not stand any more."""
        return self._grants.refused

    def await_zygote(self, within_s: float = 120.0) -> ZygoteReady:
        """Wait until the zygotes of all hosts are warm.

        Raises
        ------
        EngineError
            If one does not come up in time, or they compute in different classes.
        """
        waits_s = max(0, self._grants.free_ns - time.monotonic_ns()) / 1e9
        until_s = time.monotonic() + waits_s + within_s
        while len(self._ready) < len(self._names_H):
            if time.monotonic() > until_s:
                missing = [
                    name for host, name in enumerate(self._names_H) if host not in self._ready
                ]
                why = "" if self._launcher is None else self._launcher.problem()
                told = f"no agent of {', '.join(missing)} in {within_s:g} s"
                raise EngineError(f"{told}: {why}" if why else told)
            select.select(self.fds, [], [], 0.05)
            for _, role, exited in self.hear(self._told):
                raise EngineError(f"{type(role).__name__} ended at once: {exited.how}")
        return self._ready[0]

    def fork(self, role: Role) -> int:
        """Ask for a process on its role's host, now or when the host is back; return its ticket."""
        with self._lock:
            self._tickets += 1
            ticket = self._tickets
            self._roles[ticket], self._host_of[ticket] = role, self._placement.of(role)
            self._waiting.append(ticket)
            self._fork_waiting()
            return ticket

    def kill(self, ticket: int) -> None:
        """Kill a process; its exit is reported."""
        with self._lock:
            if ticket in self._waiting:
                self._waiting.remove(ticket)
                self._over(ticket, "left")
            elif ticket in self._host_of:
                self._say(self._host_of[ticket], End(ticket))

    def end(self, ticket: int) -> None:
        """Kill a process; its exit is not reported."""
        with self._lock:
            if self._roles.pop(ticket, None) is None:
                return
            if ticket in self._waiting:
                self._waiting.remove(ticket)
            elif ticket in self._host_of:
                self._say(self._host_of[ticket], End(ticket))

    def hear(self, fd: int) -> Iterator[tuple[int, Role, Exited]]:
        """Yield the processes that ended without being told to.

        Raises
        ------
        EngineError
            If another controller has taken over, or a host cannot take part.
        """
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(fd)
        with self._lock:
            if self._error is not None:
                raise self._error
        while self._exits:
            exited = self._exits.popleft()
            # Who handles one may tell others to end that have ended with it.
            with self._lock:
                role = self._roles.pop(exited.ticket, None)
            if role is not None:
                yield exited.ticket, role, exited

    def close(self, *, last: bool) -> None:
        """Tell all agents that the run is over, or that what runs has to end."""
        with self._lock:
            for host in range(len(self._names_H)):
                self._say(host, Close(last))
            for stream in self._streams.values():
                stream.flush()
            self._closed = True
        self._wake()
        self._thread.join()
        for stream in self._streams.values():
            stream.close()
        self._streams.clear()
        self._stream_of.clear()
        self._listener.close()
        self._epoll.close()
        for fd in (self._told, self._woken):
            os.close(fd)
        if self._launcher is not None:
            self._launcher.close()

    # What the thread does.

    def _serve(self) -> None:
        """Renew leases and hear agents until the pool is closed."""
        try:
            while not self._closed:
                ready = self._epoll.poll(self._timeout_s())
                with self._lock:
                    self._turn([fd for fd, _ in ready])
        except Exception as error:
            self._error = error
            os.eventfd_write(self._told, 1)

    def _timeout_s(self) -> float:
        """How long nothing has to be done unless something comes."""
        now_ns = time.monotonic_ns()
        with self._lock:
            due_ns = self._grants.wake_ns()
            looks_ns = now_ns + _LOOK_NS
            if self._launcher is not None:
                looks_ns = min(looks_ns, self._launcher.look(now_ns))
        return max(0, min(looks_ns, looks_ns if due_ns is None else due_ns) - now_ns) / 1e9

    def _turn(self, ready: Sequence[int]) -> None:
        if self._closed:
            return
        self._check_current()
        self._do(self._grants.tick(time.monotonic_ns()))
        self._listener.begin()
        for fd in ready:
            if fd == self._woken:
                with contextlib.suppress(BlockingIOError):
                    os.eventfd_read(fd)
            elif (stream := self._streams.get(fd)) is not None:
                self._read(stream)
            elif (end := self._listener.hear(fd)) is not None:
                new = Stream(end)
                new.watch(self._epoll)
                self._streams[new.fileno()] = new
                self._read(new)

    def _check_current(self) -> None:
        """See now and then that no later controller has begun; before a lease is renewed."""
        if (now_ns := time.monotonic_ns()) >= self._looked_ns:
            self._looked_ns = now_ns + _LOOK_NS
            if not self._current():
                raise EngineError("another controller has taken over the run")

    def _wake(self) -> None:
        """Let the thread see that there is something to send, or that it is over."""
        os.eventfd_write(self._woken, 1)

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
                self._check_ready(host, ready)
                self._ready[host] = ready
                self._fork_waiting()
            case Forked(ticket=ticket, pid=pid):
                if ticket in self._roles:
                    self._pids[ticket] = pid
            case Exited(ticket=ticket, how=how):
                self._over(ticket, how)
            case Listens(name=name, data=data):
                self._remember(name, data)
                for other in range(len(self._names_H)):
                    if other != host:
                        self._say(other, PutFile(name, data))
            case ZygoteFailed(how=how):
                times, now_ns = self._failed[host], time.monotonic_ns()
                if len(times) == _ZYGOTES and now_ns - times[0] < _WITHIN_NS:
                    raise EngineError(f"host {self._names_H[host]}: {how}")
                times.append(now_ns)
            case _:
                raise BadFrame(f"an agent says {type(body).__name__}")

    def _check_ready(self, host: int, ready: ZygoteReady) -> None:
        """Refuse a zygote that must not fork, or that computes otherwise than the others."""
        name = self._names_H[host]
        if len(ready.threads) != 1:
            raise EngineError(f"host {name}: its zygote has threads: {', '.join(ready.threads)}")
        other = next((one.numerics for one in self._ready.values()), self._numerics)
        if other and ready.numerics != other:
            raise EngineError(f"host {name} computes in '{ready.numerics}', not in '{other}'")
        self._numerics = ready.numerics

    def _remember(self, name: str, data: bytes) -> None:
        """Keep where a process listens for hosts that come back; of old servers no more."""
        kind, *numbers = name.removesuffix(SUFFIX).split(".")
        if kind.startswith("s") and numbers and numbers[0].isdigit():
            for other in list(self._files):
                same, *generation = other.removesuffix(SUFFIX).split(".")
                if same == kind and generation and int(generation[0]) < int(numbers[0]) - 1:
                    del self._files[other]
        self._files[name] = data

    def _over(self, ticket: int, how: str) -> None:
        self._host_of.pop(ticket, None)
        self._exits.append(Exited(ticket, self._pids.pop(ticket, 0), how))
        os.eventfd_write(self._told, 1)

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
        # What could not be sent at once, or has to be sent again, is the thread's.
        self._wake()
