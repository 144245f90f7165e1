"""The controller's record of processes on hosts that are separate machines, by ticket.

A host can be away: its processes have then ended, by the lease's time at the latest, and new ones
wait until the host is back. Pure: callers pass the time; messages to send are left in ``outbox``,
and ends of processes in ``exits``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from warren.live.gpu.discovery import Gpu
from warren.live.process.agents.leased_gpus import LeasedGpus
from warren.live.process.agents.messages import (
    AGENT_DECODER,
    AgentBody,
    GpusFound,
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
    RankRole,
    Role,
    ServerRole,
    ZygoteReady,
)
from warren.live.transport.frames import BadFrame
from warren.live.transport.messages import ENCODER
from warren.live.transport.sockets import gang_address, server_address
from warren.live.transport.tcp_listener import SUFFIX
from warren.model.cluster import Device
from warren.model.errors import EngineError

AWAY: Final = "its host was lost"
"""The end of a process whose host has lost its lease, in words."""
_ZYGOTES: Final = 5
"""Zygotes that one host may lose within ``_WITHIN_NS``."""
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
        The names of the hosts.
    folder, folders_H
        The controller's folder, and that of each host.
    zygote
        The order that starts each zygote.
    files
        The files, by name, that each host's folder gets before its zygote is started.
    optional
        The hosts that need not be there. What is wrong with one of them keeps it out, and no more.
    devices
        The devices that are to be GPUs.

    Attributes
    ----------
    files
        The files in every host's folder: the given ones, and the addresses of listening processes.
    outbox
        Messages to agents, in order.
    exits
        Ends of processes that have not been reported yet; ``take`` takes them.
    host_changes
        Optional hosts that have got a warm zygote (True) or lost it, in order; readers take them.
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
        optional: Collection[int] = (),
        devices: Sequence[Device] = (),
    ) -> None:
        self._placement, self._grants, self._names_H = placement, grants, names_H
        self.folder, self.folders_H = folder, folders_H
        self._zygote = zygote
        self.files = dict(files)
        self.outbox: deque[SendTo] = deque()
        self.exits: deque[Exited] = deque()
        self.host_changes: deque[tuple[int, bool]] = deque()
        self._optional = frozenset(optional)
        self._tickets = 0
        self._roles: dict[int, Role] = {}
        self._host_of: dict[int, int] = {}
        self._pids: dict[int, int] = {}
        # Names of the files by which other hosts find the living processes.
        self._listeners: set[str] = set()
        # Tickets that wait for their host, in order.
        self._waiting: list[int] = []
        self._ready: dict[int, ZygoteReady] = {}
        self._numerics = ""
        self._gpus = LeasedGpus(names_H, devices, self._optional)
        # Times at which zygotes of each host have failed.
        self._failed: list[deque[int]] = [deque(maxlen=_ZYGOTES) for _ in names_H]

    # The present state.

    @property
    def refused(self) -> int:
        """Number of messages received from agents whose lease had already ended."""
        return self._grants.refused

    @property
    def free_ns(self) -> int:
        """The time from which hosts may have leases."""
        return self._grants.free_ns

    @property
    def missing(self) -> list[str]:
        """The names of the hosts without a warm zygote that have to have one."""
        needed = enumerate(self._names_H)
        return [name for host, name in needed if host not in {*self._ready, *self._optional}]

    @property
    def ready(self) -> ZygoteReady:
        """The message of a warm zygote; all zygotes agree."""
        return next(iter(self._ready.values()))

    def pids(self) -> dict[int, Role]:
        """Return the processes and their roles, by the process ids of their hosts."""
        pids = self._pids.items()
        return {pid: self._roles[ticket] for ticket, pid in pids if ticket in self._roles}

    @property
    def gpus(self) -> dict[int, Gpu]:
        """The GPU of each device that is one; see ``LeasedGpus.of_devices``."""
        return self._gpus.of_devices()

    def wake_ns(self) -> int | None:
        """Return the time at which ``tick`` has something to do; None: only after another event."""
        return self._grants.wake_ns()

    # Requests of the run.

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
        """Return the role of a process that has ended; None: it was ended on request."""
        return self._roles.pop(exited.ticket, None)

    def close(self, now_ns: int, *, last: bool) -> None:
        """Tell all agents that the run is over, or that their processes must end."""
        for host in range(len(self._names_H)):
            self._say(host, Close(last), now_ns)

    # Events.

    def tick(self, now_ns: int) -> None:
        """End leases that are over, and do whatever else is due.

        Raises
        ------
        EngineError
            As ``hear`` does.
        """
        self._do(self._grants.tick(now_ns), now_ns)

    def connected(self, host: int, now_ns: int) -> None:
        """Send everything again that a host has not received: it has a new connection."""
        self._do(self._grants.connected(host, now_ns), now_ns)

    def hear(self, frame: ToController, now_ns: int) -> None:
        """Take a message of an agent.

        Raises
        ------
        EngineError
            If another controller has taken over, or a host cannot take part.
        BadFrame
            If an agent never sends this message.
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
        """Give a host the files that its processes need, and start its zygote."""
        for name, data in self.files.items():
            self._say(host, PutFile(name, data), now_ns)
        self._say(host, self._zygote, now_ns)

    def _lose(self, host: int) -> None:
        """Report all processes of a host as ended; those that wait for the host keep waiting."""
        if self._ready.pop(host, None) is not None and host in self._optional:
            self.host_changes.append((host, False))
        for ticket, at in list(self._host_of.items()):
            if at == host and ticket not in self._waiting:
                self._over(ticket, AWAY)

    def _heard(self, host: int, body: AgentBody, now_ns: int) -> None:
        match body:
            case GpusFound(gpus=gpus, problem=problem):
                if self._gpus.found(host, dict(gpus), problem):
                    self._note_failure(host, problem, now_ns)
            case ZygoteReady() as ready:
                if self._is_fit(host, ready):
                    self._ready[host] = ready
                    if host in self._optional:
                        self.host_changes.append((host, True))
                    self._fork_waiting(now_ns)
            case Forked(ticket=ticket, pid=pid):
                if ticket in self._roles:
                    self._pids[ticket] = pid
            case Exited(ticket=ticket, how=how):
                self._over(ticket, how)
            case Listens(name=name, data=data):
                if name in self._listeners:
                    # Hosts that come back later get the file then.
                    self.files[name] = data
                for other in range(len(self._names_H)):
                    if other != host:
                        self._say(other, PutFile(name, data), now_ns)
            case ZygoteFailed(how=how):
                self._note_failure(host, how, now_ns)
            case _:
                raise BadFrame(f"an agent says {type(body).__name__}")

    def _note_failure(self, host: int, how: str, now_ns: int) -> None:
        """Count a host that gave its lease back; a host that has to be there may not go on so."""
        times = self._failed[host]
        if host in self._optional:
            return
        if len(times) == _ZYGOTES and now_ns - times[0] < _WITHIN_NS:
            raise EngineError(f"host {self._names_H[host]}: {how}")
        times.append(now_ns)

    def _is_fit(self, host: int, ready: ZygoteReady) -> bool:
        """Refuse a zygote that must not fork, or whose numerics class differs from the others'.

        One on a host that need not be there is left alone: False.
        """
        if not self._gpus.fits(host):
            return False
        name = self._names_H[host]
        if len(ready.threads) != 1:
            raise EngineError(f"host {name}: its zygote has threads: {', '.join(ready.threads)}")
        other = next((one.numerics for one in self._ready.values()), self._numerics)
        if other and ready.numerics != other:
            if host in self._optional:
                return False
            raise EngineError(f"host {name} computes in '{ready.numerics}', not in '{other}'")
        self._numerics = ready.numerics
        return True

    def _forget(self, role: Role) -> None:
        """Forget the address of a process that has ended, or will."""
        if (name := _listens_at(role)) is not None:
            self._listeners.discard(name)
            self.files.pop(name, None)

    def _over(self, ticket: int, how: str) -> None:
        self._host_of.pop(ticket, None)
        if (role := self._roles.get(ticket)) is not None:
            self._forget(role)
        self.exits.append(Exited(ticket, self._pids.pop(ticket, 0), how))

    def _fork_waiting(self, now_ns: int) -> None:
        """Fork the waiting processes whose host has a warm zygote by now."""
        for ticket in list(self._waiting):
            if self._host_of[ticket] in self._ready:
                self._waiting.remove(ticket)
                host = self._host_of[ticket]
                self._say(host, Fork(ticket, self._at_home(self._roles[ticket], host)), now_ns)

    def _at_home(self, role: AnyRole, host: int) -> AnyRole:
        """Return a role as its process gets it: with its host's identity, folder and GPU."""
        texts = {name: getattr(role, name, "") for name in ("folder", "tmp")}
        moved: dict[str, str | int] = {
            name: f"{self.folders_H[host]}{text.removeprefix(self.folder)}"
            for name, text in texts.items()
            if text.startswith(self.folder)
        }
        # The controller names the GPU of a device by the device.
        if (device := getattr(role, "gpu", None)) is not None:
            moved["gpu"] = self._gpus.of(device).index
        return msgspec.structs.replace(self._placement.with_identity(role), **moved)

    def _say(self, host: int, body: AgentBody, now_ns: int) -> None:
        self._do(self._grants.say(host, ENCODER.encode(body), now_ns), now_ns)


def _listens_at(role: Role) -> str | None:
    """Return the name of the file with the address at which other hosts look for a role's process.

    None: it is a process that only those of its own host look for.
    """
    if isinstance(role, ServerRole):
        address = server_address("", role.job.index, role.generation, role.part)
    elif isinstance(role, RankRole) and not role.rank:
        address = gang_address("", role.job.index, role.incarnation)
    else:
        return None
    return f"{address.removeprefix('/')}{SUFFIX}"
