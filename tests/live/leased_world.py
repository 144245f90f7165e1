"""A world whose hosts are machines of their own: leases, agents, one controller after another.

Between controller and agents messages are lost, late, repeated and reordered; hosts are cut off
from all others; agents and controllers are killed or hang. What runs is real, as in
``history_world``: servers, executors, the controller's knowledge of processes, both ends of leases.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import Any, Final

from history_jobs import Reference
from history_network import Network, VirtualHub, VirtualLink, Wire
from history_world import (
    KILLED,
    Process,
    ServerProcess,
    Violation,
    World,
    Zygote,
)

from warren.live.process.agents.leased_processes import LeasedProcesses
from warren.live.process.agents.messages import AGENT_DECODER, Listens, PutFile, StartZygote
from warren.live.process.host_placement import HostPlacement
from warren.live.process.leases.host_lease import (
    AgentEffect,
    BeginLease,
    DeliverBody,
    HostLease,
    SendFrame,
    StopAll,
)
from warren.live.process.leases.lease_grants import LeaseGrants
from warren.live.process.leases.messages import TO_AGENT, TO_CONTROLLER, AskLease
from warren.live.process.leases.timing import LeaseTiming
from warren.live.process.specs import (
    Close,
    End,
    ExecutorRole,
    Exited,
    Fork,
    Forked,
    Role,
    TrainerRole,
    ZygoteReady,
)
from warren.live.transport.messages import ENCODER, RunTask
from warren.live.transport.sockets import controller_address
from warren.live.transport.tcp_listener import SUFFIX
from warren.model.errors import EngineError

LEASE_NS: Final = 60_000_000
TIMING: Final = LeaseTiming(LEASE_NS)
LOCK_NS: Final = 3_000_000
"""How often an agent tries to get its machine's lock."""
A_CONTROLLER: Final = 1_000_000
"""So many processes at most one controller starts: what they are called tells whose they are."""


class ControllerGone(Exception):
    """A controller that was waiting is killed."""


class AgentProcess(Process):
    """The agent of a host: a real lease, and what runs under it."""

    def __init__(self, world: LeasedWorld, host: int, epoch: int, number: int) -> None:
        super().__init__(world, f"agent {epoch}.{host}.{number}")
        self.world: LeasedWorld = world
        self.host, self.epoch = host, epoch
        self.lease = HostLease(host, f"machine-{host}", number, TIMING)
        self.frames: deque[bytes] = deque()
        # What runs under the lease: by ticket, what the world calls it.
        self.children: dict[int, int] = {}
        self.warm = self.over = False

    def start(self) -> None:
        self.turn()

    def turn(self) -> None:
        now_ns = self.world.now_ns
        while self.frames and not self.over:
            self.do(self.lease.hear(TO_AGENT.decode(self.frames.popleft()), now_ns))
        if not self.over:
            self.do(self.lease.tick(now_ns))

    def do(self, effects: Iterable[AgentEffect]) -> None:
        for effect in effects:
            if self.over:
                return
            match effect:
                case SendFrame(frame):
                    self.world.to_pool(self.epoch, self.host, ENCODER.encode(frame))
                case BeginLease():
                    self.world.must(not self.world.on(self.host), "a lease begins, and things run")
                    self.world.known.difference_update(
                        {one for one in self.world.known if one[0] == self.host}
                    )
                case DeliverBody(body):
                    self._obey(AGENT_DECODER.decode(body))
                case StopAll():
                    self.warm = False
                    self.world.counts["leases lost"] += 1
                    late_ns = self.world.draw.randrange(TIMING.stop_ns)
                    self.world.at(late_ns, self._stopped)
        self.wake_ns = None if self.over else self.lease.wake_ns()

    def _obey(self, order: Any) -> None:
        world = self.world
        match order:
            case PutFile(name=name):
                world.known.add((self.host, name))
                world.network.look_up(f"{world.homes[self.epoch]}/{name.removesuffix(SUFFIX)}")
            case StartZygote():
                fence = self.lease._fence
                world.at(world.draw.randrange(5_000_000), lambda: self._is_warm(fence))
            case Fork(ticket=ticket, role=role):
                world.must(self.warm, "what has no zygote is to fork")
                key = self.epoch * A_CONTROLLER + ticket
                self.children[ticket] = key
                world.begin(key, role, self)
                self.say(Forked(ticket, key))
            case End(ticket=ticket):
                if (living := self.children.get(ticket)) is not None:
                    world.exits(world.processes[living], KILLED)
            case Close():
                world.ends(self)

    def _is_warm(self, fence: int) -> None:
        if self.lease.holds and self.lease._fence == fence and not self.over:
            self.warm = True
            self.say(ZygoteReady(("main",), "virtual"))

    def _stopped(self) -> None:
        if not self.over:
            self.kill_all()
            self.do(self.lease.stopped(self.world.now_ns))

    def say(self, body: Any) -> None:
        self.do(self.lease.say(ENCODER.encode(body), self.world.now_ns))

    def child_ended(self, key: int, how: str) -> None:
        """The zygote tells of an end that was not the lease's."""
        (ticket,) = (one for one, known in self.children.items() if known == key)
        del self.children[ticket]
        if not self.over:
            self.say(Exited(ticket, key, how))

    def kill_all(self) -> None:
        """End all that runs, whoever is to be told."""
        while self.children:
            _, key = self.children.popitem()
            self.world.exits(self.world.processes[key], KILLED)


class PoolProcess(Process):
    """The thread of a controller that hears agents and renews their leases."""

    def __init__(self, world: LeasedWorld, epoch: int, processes: LeasedProcesses) -> None:
        super().__init__(world, f"pool {epoch}")
        self.world: LeasedWorld = world
        self.epoch, self.processes = epoch, processes
        self.frames: deque[bytes] = deque()
        self.error: EngineError | None = None

    def turn(self) -> None:
        try:
            self.processes.tick(self.world.now_ns)
            while self.frames:
                frame = TO_CONTROLLER.decode(self.frames.popleft())
                if isinstance(frame, AskLease) and self.world.epoch > self.epoch:
                    raise EngineError("another controller has taken over the run")
                self.processes.hear(frame, self.world.now_ns)
            self.send()
        except EngineError as error:
            self.error = error
            self.world.ends(self)

    def send(self) -> None:
        """Send what is to be sent, and wake up who waits for the end of a process."""
        while self.processes.outbox:
            host, frame = self.processes.outbox.popleft()
            self.world.to_agent(self.epoch, host, ENCODER.encode(frame))
        self.wake_ns = self.processes.wake_ns()
        news = self.processes.exits or self.processes.host_changes
        if news and self.epoch == self.world.epoch:
            self.world.controller.woken()


class LeasedPool:
    """A controller's handle on the processes of hosts with leases; see ``AgentPool``."""

    def __init__(self, world: LeasedWorld, thread: PoolProcess) -> None:
        self._world, self._thread = world, thread
        self.processes = thread.processes
        self.fds = (self,)

    @property
    def _roles(self) -> dict[int, Role]:
        return self.processes._roles

    @property
    def readable(self) -> bool:
        return bool(self.processes.exits or self.processes.host_changes or self._thread.error)

    @property
    def stale_messages(self) -> int:
        return self.processes.refused

    @property
    def strangers(self) -> int:
        return 0

    def pids(self) -> dict[int, Role]:
        return self.processes.pids()

    def fork(self, role: Role) -> int:
        ticket = self.processes.fork(role, self._world.now_ns)
        self._thread.send()
        return ticket

    def kill(self, ticket: int) -> None:
        self.processes.kill(ticket, self._world.now_ns)
        self._thread.send()

    def end(self, ticket: int) -> None:
        self.processes.end(ticket, self._world.now_ns)
        self._thread.send()

    def hear(self, fd: object) -> Iterator[tuple[int, Role, Exited]]:
        if self._thread.error is not None:
            raise self._thread.error
        while self.processes.exits:
            exited = self.processes.exits.popleft()
            if (role := self.processes.take(exited)) is not None:
                yield exited.ticket, role, exited

    def changed_hosts(self) -> list[tuple[int, bool]]:
        changes = list(self.processes.host_changes)
        self.processes.host_changes.clear()
        return changes

    def close(self) -> None:
        self.processes.close(self._world.now_ns, last=True)
        self._thread.send()


class LeasedWorld(World):
    """Hosts, agents, controllers, and what is done to them."""

    def __init__(
        self, seed: int, folder: str, right: Reference, hosts: int, *, traced: bool = False
    ) -> None:
        super().__init__(seed, folder, right, 0, traced=traced)
        draw = self.draw
        self.hosts = hosts
        # Of half of all histories every host but the first may come and go.
        self.optional = range(1, hosts) if seed % 2 else range(0)
        self.network = Network(draw, self.saw, ways_break=True)
        self.network.knows = self._knows
        self.root = folder
        self.epoch = 0
        self.homes: dict[int, str] = {}
        # The last agent of each host that has the lock of its machine, and how many had it.
        self.agents: dict[int, AgentProcess] = {}
        self._numbers = [count() for _ in range(hosts)]
        self._locked: set[int] = set()
        self.pools: dict[int, PoolProcess] = {}
        self.cut: set[int] = set()
        # Names of files in the folders of hosts, by host.
        self.known: set[tuple[int, str]] = set()
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()
        self._agent_of: dict[int, AgentProcess] = {}
        chance = draw.choice
        self.lost, self.twice = chance([0.0, 0.02, 0.1]), chance([0.0, 0.2])
        self.late = chance([0.0, 0.02, 0.1])
        # The round of the other job in which its code ends its process; None: in none.
        self.crash_round: int | None = None
        self.died = False

    # Time.

    def at(self, in_ns: int, call: Callable[[], None]) -> None:
        """Let something happen later."""
        heapq.heappush(self._queue, (self.now_ns + in_ns, next(self._order), call))

    def sleepers(self) -> Iterable[Process]:
        return [*self.processes.values(), *self.agents.values(), *self.pools.values()]

    def _ring(self) -> None:
        while self._queue and self._queue[0][0] <= self.now_ns:
            heapq.heappop(self._queue)[2]()
        super()._ring()

    def _sleep(self) -> bool:
        dues = [one.wake_ns for one in self.sleepers() if one.wake_ns is not None]
        dues += [row[0] for row in self._queue[:1]]
        self.now_ns = max(self.now_ns, min(dues, default=0))
        return bool(dues)

    # Between controllers and agents.

    def to_pool(self, epoch: int, host: int, data: bytes) -> None:
        for late_ns in self._delays_ns(host):
            self.at(late_ns, lambda: self._arrives(self.pools.get(epoch), data))

    def to_agent(self, epoch: int, host: int, data: bytes) -> None:
        for late_ns in self._delays_ns(host):
            self.at(late_ns, lambda: self._arrives(self._agent(epoch, host), data))

    def _agent(self, epoch: int, host: int) -> AgentProcess | None:
        agent = self.agents.get(host)
        return None if agent is None or agent.epoch != epoch else agent

    def _arrives(self, at: AgentProcess | PoolProcess | None, data: bytes) -> None:
        if at is not None:
            at.frames.append(data)
            at.woken()

    def _delays_ns(self, host: int) -> list[int]:
        """How late each copy of a message arrives; none: it is lost."""
        draw = self.draw
        if host in self.cut or draw.random() < self.lost:
            return []
        longest_ns = 2 * LEASE_NS if draw.random() < self.late else 2_000_000
        return [draw.randrange(1, longest_ns) for _ in range(1 + (draw.random() < self.twice))]

    # Controllers.

    def another_controller(self) -> None:
        """A controller begins; it starts agents, which wait for those before them to end."""
        self.epoch += 1
        self.died = False
        self.controller = Process(self, f"controller {self.epoch}")
        self.homes[self.epoch] = self.folder = f"{self.root}/e{self.epoch}"
        Path(self.folder).mkdir()
        for host in range(self.hosts):
            self._agent_begins(host, self.epoch)

    def pool_of(self, placement: HostPlacement, folder: Path) -> Any:
        grants = LeaseGrants(self.epoch, self.hosts, TIMING, self.now_ns)
        names = [f"h{host}" for host in range(self.hosts)]
        folders = [f"{folder}.h{host}" for host in range(self.hosts)]
        zygote, files = StartZygote((), "", 0), {f"c{SUFFIX}": b""}
        known = LeasedProcesses(
            placement, grants, names, str(folder), folders, zygote, files, self.optional
        )
        thread = self.pools[self.epoch] = PoolProcess(self, self.epoch, known)
        return LeasedPool(self, thread)

    def controller_dies(self, *, hangs: bool) -> None:
        """It is killed, and what it started ends; or it hangs, and its thread goes on."""
        epoch, controller = self.epoch, self.controller
        self.died = True
        self.busy.pop(controller, None)
        self.counts["controllers hung" if hangs else "controllers killed"] += 1
        after_ns = self.draw.randrange(3 * LEASE_NS) if hangs else 0
        self.at(after_ns, lambda: self.controller_is_gone(epoch, controller))

    def controller_is_gone(self, epoch: int, controller: Process) -> None:
        """Its process has ended, and what it started is told."""
        self.network.ended(controller)
        if (thread := self.pools.get(epoch)) is not None:
            self.ends(thread)
        for agent in list(self.agents.values()):
            if agent.epoch == epoch:
                self.ends(agent)

    def look(self) -> None:
        if self.died:
            raise ControllerGone

    def link_to_controller(self, folder: str) -> Any:
        address = controller_address(folder.rpartition(".h")[0])
        return VirtualLink(self.network, self.acting, address, far=True)

    # Agents.

    def _agent_begins(self, host: int, epoch: int) -> None:
        """An agent begins as soon as it has the lock; of an earlier controller none does."""
        if epoch < self.epoch or self.died:
            return
        if host in self._locked:
            self.at(LOCK_NS, lambda: self._agent_begins(host, epoch))
            return
        self._locked.add(host)
        agent = self.agents[host] = AgentProcess(self, host, epoch, next(self._numbers[host]))
        agent.begun = False
        agent.woken()

    def ends(self, process: AgentProcess | PoolProcess) -> None:
        """A pool ends; or an agent, by order or by a kill, and what it ran a little later."""
        self.busy.pop(process, None)
        process.wake_ns = None
        if isinstance(process, PoolProcess):
            self.pools.pop(process.epoch, None)
        elif not process.over:
            process.over = True
            self.at(self.draw.randrange(1, TIMING.stop_ns), lambda: self._cleaned_up(process))

    def _cleaned_up(self, agent: AgentProcess) -> None:
        """All that an agent ran has ended: the next one of its host may begin."""
        agent.kill_all()
        del self.agents[agent.host]
        self._locked.discard(agent.host)
        if not self.watch.over:
            host, epoch = agent.host, agent.epoch
            self.at(self.draw.randrange(LEASE_NS), lambda: self._agent_begins(host, epoch))

    # Processes.

    def begin(self, key: int, role: Role, agent: AgentProcess) -> None:
        """Fork a process for an agent; what has been forked for a device before has ended."""
        if isinstance(role, ExecutorRole):
            before = self.executors.get(role.device)
            alive = before is not None and before.ticket in self.processes
            self.must(not alive, f"device {role.device} has two executors")
        self._agent_of[key] = agent
        self.forked(key, role, Zygote(self, agent.host))
        self.processes[key].host = agent.host

    def tell_end(self, process: Any, how: str) -> None:
        self._zygote_of.pop(process.ticket)
        agent = self._agent_of.pop(process.ticket)
        if process.ticket in agent.children.values():
            agent.child_ended(process.ticket, how)

    def on(self, host: int) -> list[str]:
        """What runs on a host."""
        return [one.name for one in self.processes.values() if one.host == host]

    def generation_of(self, ticket: int, generation: int) -> int:
        return ticket // A_CONTROLLER * 1000 + generation

    def crashes(self, role: TrainerRole, task: RunTask) -> bool:
        return bool(role.job.index) and task.round == self.crash_round

    def must(self, holds: bool, otherwise: str) -> None:
        if not holds:
            raise Violation(otherwise)

    # Ways.

    def hub(self, address: str, identity: object = None) -> Any:
        """Let the process that acts listen; the agent of its host tells others of a server."""
        if not isinstance(self.acting, ServerProcess):
            return VirtualHub(self.network, self.acting, address)
        own, name = _apart(address)
        self.known.add((self.acting.host, f"{name}{SUFFIX}"))
        found = VirtualHub(self.network, self.acting, f"{own}/{name}")
        self._agent_of[self.acting.ticket].say(Listens(f"{name}{SUFFIX}", b""))
        return found

    def link_to_server(self, address: str, home: int, identity: Any) -> Any:
        own, name = _apart(address)
        far = home != identity.host
        return VirtualLink(self.network, self.acting, f"{own}/{name}", far=far)

    def _knows(self, link: VirtualLink) -> bool:
        """Whether the folder of a link's host says where the other end listens."""
        _, _, name = link.address.rpartition("/")
        return not name.startswith("s") or (link.owner.host, f"{name}{SUFFIX}") in self.known

    def passes(self, wire: Wire) -> bool:
        return len(wire.hosts) < 2 or not wire.hosts & self.cut

    def cut_off(self, host: int, for_ns: int) -> None:
        """No way leads to a host, for so long."""
        self.cut.add(host)
        self.counts["cuts"] += 1
        self.at(for_ns, lambda: self._back(host))

    def _back(self, host: int) -> None:
        self.cut.discard(host)
        agent = self.agents.get(host)
        if agent is not None and not agent.over and (thread := self.pools.get(agent.epoch)):
            # Both ends find the way a new one.
            agent.do(agent.lease.connected(self.now_ns))
            thread.processes.connected(host, self.now_ns)
            thread.send()


def _apart(address: str) -> tuple[str, str]:
    """The folder of a controller that an address of a host's folder belongs to, and its name."""
    home, _, name = address.rpartition("/")
    return home.rpartition(".h")[0], name
