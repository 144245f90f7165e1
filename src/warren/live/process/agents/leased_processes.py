"""What runs on hosts that are machines of their own, by ticket: the controller's knowledge of it.

A host can be away: what ran there has ended then, by the lease's time at the latest, and what is to
run there waits until the host is back. Pure: it is told the time, and what is to be sent and to be
heard is left in ``outbox`` and ``exits``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

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
from warren.live.process.leases.messages import ToController
from warren.live.process.specs import (
    Close,
    End,
    Exited,
    Fork,
    Forked,
    Role,
    ServerRole,
    ZygoteReady,
)
from warren.live.transport.frames import BadFrame
from warren.live.transport.messages import ENCODER
from warren.live.transport.sockets import server_address
from warren.live.transport.tcp_listener import SUFFIX
from warren.model.errors import EngineError

AWAY: Final = "its host was lost"
"""How a process has ended whose host has lost its lease."""
_ZYGOTES: Final = 5
"""So many zygotes of one host may be lost within ``_WITHIN_NS``."""
_WITHIN_NS: Final = 600 * 10**9


class LeasedProcesses:
    """The processes of a run on hosts with leases.

    Parameters
    ----------
    placement
        Which host each process is on, and their folders.
    grants
        The leases of the hosts.
    names_H
        What the hosts are called.
    folder, folders_H
        The controller's folder, and that of each host.
    zygote
        What each zygote is started with.
    files
        What each host's folder has before its zygote is started, by name.

    Attributes
    ----------
    files
        What is in every host's folder: what was given, and where processes of others listen.
    outbox
        What is to be sent to agents, in order.
    exits
        Ends of processes that are to be heard of, by who takes them with ``take``.
    """

    def __init__(
        self,
        placement: HostPlacement,
        grants: LeaseGrants,
        names_H: Sequence[str],
        folder: str,
        folders_H: Sequence[str],
        zygote: StartZygote,
        files: Mapping[str, bytes],
    ) -> None:
        self._placement, self._grants, self._names_H = placement, grants, names_H
        self.folder, self.folders_H = folder, folders_H
        self._zygote = zygote
        self.files = dict(files)
        self.outbox: deque[SendTo] = deque()
        self.exits: deque[Exited] = deque()
        self._tickets = 0
        self._roles: dict[int, Role] = {}
        self._host_of: dict[int, int] = {}
        self._pids: dict[int, int] = {}
        # Names of files by which processes that live are found from other hosts.
        self._listeners: set[str] = set()
        # What waits for its host, in order.
        self._waiting: list[int] = []
        self._ready: dict[int, ZygoteReady] = {}
        self._numerics = ""
        # When zygotes of each host have failed.
        self._failed: list[deque[int]] = [deque(maxlen=_ZYGOTES) for _ in names_H]

    # What is known.

    @property
    def refused(self) -> int:
        """How many messages of agents have come whose lease did not stand any more."""
        return self._grants.refused

    @property
    def free_ns(self) -> int:
        """From when on hosts may have leases."""
        return self._grants.free_ns

    @property
    def missing(self) -> list[str]:
        """The hosts that have no warm zygote."""
        return [name for host, name in enumerate(self._names_H) if host not in self._ready]

    @property
    def ready(self) -> ZygoteReady:
        """What the zygotes said when they were warm."""
        return next(iter(self._ready.values()))

    def pids(self) -> dict[int, Role]:
        """Return the processes and their roles, by the process ids of their hosts."""
        pids = self._pids.items()
        return {pid: self._roles[ticket] for ticket, pid in pids if ticket in self._roles}

    def wake_ns(self) -> int | None:
        """Return when ``tick`` has something to do; None: not before something else happens."""
        return self._grants.wake_ns()

    # What the run wants.

    def fork(self, role: Role, now_ns: int) -> int:
        """Ask for a process on its role's host, now or when the host is back; return its ticket."""
        self._tickets += 1
        ticket = self._tickets
        self._roles[ticket], self._host_of[ticket] = role, self._placement.of(role)
        if (name := _listens_at(role)) is not None:
            self._listeners.add(name)
        self._waiting.append(ticket)
        self._fork_waiting(now_ns)
        return ticket

    def kill(self, ticket: int, now_ns: int) -> None:
        """Kill a process; its exit is reported."""
        if ticket in self._waiting:
            self._waiting.remove(ticket)
            self._over(ticket, "left")
        elif ticket in self._host_of:
            self._say(self._host_of[ticket], End(ticket), now_ns)

    def end(self, ticket: int, now_ns: int) -> None:
        """Kill a process; its exit is not reported."""
        role = self._roles.pop(ticket, None)
        if role is None:
            return
        self._forget(role)
        if ticket in self._waiting:
            self._waiting.remove(ticket)
            del self._host_of[ticket]
        elif ticket in self._host_of:
            self._say(self._host_of[ticket], End(ticket), now_ns)

    def take(self, exited: Exited) -> Role | None:
        """Return the role of a process that has ended; None: it was told to, and nobody asks."""
        return self._roles.pop(exited.ticket, None)

    def close(self, now_ns: int, *, last: bool) -> None:
        """Tell all agents that the run is over, or that what runs has to end."""
        for host in range(len(self._names_H)):
            self._say(host, Close(last), now_ns)

    # What happens.

    def tick(self, now_ns: int) -> None:
        """End leases that are over, and do what else is due.

        Raises
        ------
        EngineError
            As ``hear`` does.
        """
        self._do(self._grants.tick(now_ns), now_ns)

    def connected(self, host: int, now_ns: int) -> None:
        """Say again at once what a host has not received: the way to it is a new one."""
        self._do(self._grants.connected(host, now_ns), now_ns)

    def hear(self, frame: ToController, now_ns: int) -> None:
        """Take what an agent says.

        Raises
        ------
        EngineError
            If another controller has taken over, or a host cannot take part.
        BadFrame
            If no agent says such a thing.
        """
        self._do(self._grants.hear(frame, now_ns), now_ns)

    def _do(self, effects: Iterable[GrantEffect], now_ns: int) -> None:
        for effect in effects:
            match effect:
                case SendTo():
                    self.outbox.append(effect)
                case HostLeased(host):
                    self._furnish(host, now_ns)
                case HostLost(host):
                    self._lose(host)
                case HostSaid(host, body):
                    self._heard(host, AGENT_DECODER.decode(body), now_ns)
                case Superseded(epoch):
                    raise EngineError(f"another controller (number {epoch}) has taken over the run")

    def _furnish(self, host: int, now_ns: int) -> None:
        """Give a host what every process there needs, and let it warm up a zygote."""
        for name, data in self.files.items():
            self._say(host, PutFile(name, data), now_ns)
        self._say(host, self._zygote, now_ns)

    def _lose(self, host: int) -> None:
        """Report all that ran on a host as ended; what waits for it still does."""
        self._ready.pop(host, None)
        for ticket, at in list(self._host_of.items()):
            if at == host and ticket not in self._waiting:
                self._over(ticket, AWAY)

    def _heard(self, host: int, body: AgentBody, now_ns: int) -> None:
        match body:
            case ZygoteReady() as ready:
                self._check_ready(host, ready)
                self._ready[host] = ready
                self._fork_waiting(now_ns)
            case Forked(ticket=ticket, pid=pid):
                if ticket in self._roles:
                    self._pids[ticket] = pid
            case Exited(ticket=ticket, how=how):
                self._over(ticket, how)
            case Listens(name=name, data=data):
                if name in self._listeners:
                    # Hosts that come back later are told then.
                    self.files[name] = data
                for other in range(len(self._names_H)):
                    if other != host:
                        self._say(other, PutFile(name, data), now_ns)
            case ZygoteFailed(how=how):
                times = self._failed[host]
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

    def _forget(self, role: Role) -> None:
        """Forget where a process listened that has ended, or will."""
        if (name := _listens_at(role)) is not None:
            self._listeners.discard(name)
            self.files.pop(name, None)

    def _over(self, ticket: int, how: str) -> None:
        self._host_of.pop(ticket, None)
        if (role := self._roles.get(ticket)) is not None:
            self._forget(role)
        self.exits.append(Exited(ticket, self._pids.pop(ticket, 0), how))

    def _fork_waiting(self, now_ns: int) -> None:
        """Fork what has waited for its host, where that has a warm zygote by now."""
        for ticket in list(self._waiting):
            if self._host_of[ticket] in self._ready:
                self._waiting.remove(ticket)
                host = self._host_of[ticket]
                self._say(host, Fork(ticket, self._at_home(self._roles[ticket], host)), now_ns)

    def _at_home(self, role: AnyRole, host: int) -> AnyRole:
        """Return a role as its process gets it: with its host's identity and folder."""
        texts = {name: getattr(role, name, "") for name in ("folder", "tmp")}
        moved = {
            name: f"{self.folders_H[host]}{text.removeprefix(self.folder)}"
            for name, text in texts.items()
            if text.startswith(self.folder)
        }
        return msgspec.structs.replace(self._placement.with_identity(role), **moved)

    def _say(self, host: int, body: AgentBody, now_ns: int) -> None:
        self._do(self._grants.say(host, ENCODER.encode(body), now_ns), now_ns)


def _listens_at(role: Role) -> str | None:
    """Return the name of the file that says where a server listens; others are not looked for."""
    if not isinstance(role, ServerRole):
        return None
    address = server_address("", role.job.index, role.generation, role.part)
    return f"{address.removeprefix('/')}{SUFFIX}"
