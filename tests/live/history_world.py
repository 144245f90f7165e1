"""A run in one thread: real servers, executors and controller, virtual network, clock, processes.

A seed decides all: which process is next, what has reached it by then, how much time passes, who is
lost. Trainers alone are played: they compare the state that they are given with what is right.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from history_jobs import Reference
from history_network import Network, VirtualHub, VirtualLink, VirtualPoller, Wire

from warren.live.control.engine import LiveEngine
from warren.live.control.local_engine import LivePort
from warren.live.device.executor import Executor
from warren.live.process.host_placement import ALONE, HostPlacement
from warren.live.process.process_pool import ProcessPool
from warren.live.process.specs import (
    End,
    ExecutorRole,
    Exited,
    Fork,
    Forked,
    Role,
    ServerRole,
    TrainerRole,
)
from warren.live.server.server import Server
from warren.live.testbed.namespaces import HostNamespace
from warren.live.training.memory.shared_arena import Arena
from warren.live.training.memory.shared_memory import MappedMemories
from warren.live.transport.messages import Leave, Prepared, RunTask, TaskComputed, TrainerReady
from warren.live.transport.sockets import controller_address, executor_address

KILLED: Final = "killed by SIGKILL"
CRASHED: Final = "exit status 1"
BROKEN_NS: Final = 30_000_000
"""How long an executor bears a way that is broken; see ``virtual_modules``."""
STEP_NS: Final = 300_000
"""At most so much time passes from one turn of a process to the next."""
FAR_NS: Final = 10**9
"""Time limits of tasks are further away than that: nobody waits for them."""
LIFELINE: Final = 3


class Violation(AssertionError):
    """A promise is broken."""


class Process:
    """One process: what comes to it, and when it wakes up by itself."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.incoming: dict[Wire, None] = {}
        self.poller = VirtualPoller(world.wait)
        self.wake_ns: int | None = None
        self.held_until = 0
        self.host = 0
        self.arenas: list[Arena] = []

        self.awake = False
        self.begun = True

    def woken(self) -> None:
        """There is something to read, or to do."""
        self.awake = True
        self.world.busy[self] = None

    def expects(self) -> None:
        """Something is on its way to it."""
        self.world.busy[self] = None

    def start(self) -> None:
        """Begin; it may have been asked for long ago."""

    def turn(self) -> None:
        """Do what there is to do."""

    def closed(self) -> None:
        """Free what the kernel would."""
        for arena in self.arenas:
            arena.close()


class ServerProcess(Process):
    """A real server."""

    def __init__(self, world: World, ticket: int, role: ServerRole) -> None:
        named = f"{role.job.index}.{role.generation}.{role.part}"
        super().__init__(world, f"server {named} ({ticket})")
        self.ticket, self.role = ticket, role
        self.server: Server | None = None

    def start(self) -> None:
        control = self.world.link_to_controller(self.role.folder)
        self.server = Server(self.role, LIFELINE, control)  # type: ignore[arg-type]
        self.server.listen()
        self._sleep()

    def turn(self) -> None:
        assert self.server is not None
        self.server.turn(self.poller.ready())
        if self.server._control.lost:
            self.world.exits(self, KILLED)
        else:
            self._sleep()

    def _sleep(self) -> None:
        assert self.server is not None
        self.world.slept_ns = None
        self.world.wakes(self, self.server.timeout_ms())

    def closed(self) -> None:
        super().closed()
        if self.server is not None:
            self.server._marks.close()


class ExecutorProcess(Process):
    """A real executor."""

    def __init__(self, world: World, ticket: int, role: ExecutorRole) -> None:
        super().__init__(world, f"executor {role.device}.{role.incarnation} ({ticket})")
        self.ticket, self.role = ticket, role
        self.executor: Executor | None = None

    def start(self) -> None:
        self.executor = Executor(self.role, LIFELINE)
        self.executor.listen()
        self._sleep()

    def turn(self) -> None:
        assert self.executor is not None
        try:
            self.executor.turn(self.poller.ready())
        except EndedAsKilled:
            self.world.exits(self, KILLED)
        else:
            self._sleep()

    def _sleep(self) -> None:
        assert self.executor is not None
        pipeline = self.executor._pipeline
        dues = [due for due in (pipeline.due_ns(), pipeline.reports.due_ns) if due is not None]
        if self.executor._broken_ns:
            dues.append(self.executor._broken_ns + BROKEN_NS + 1)
        self.wake_ns = min(dues, default=None)

    def generation(self) -> int | None:
        """Of the servers that its task is for; None: nobody wants that any more."""
        assert self.executor is not None
        work = self.executor._pipeline._comp
        if work is None or work.dropped or work.beaten:
            return None
        return self.executor._client._sources[work.job].generation

    def closed(self) -> None:
        super().closed()
        for source in self.executor._client._sources.values() if self.executor else ():
            source.windows.close()


class TrainerProcess(Process):
    """Gives what is right for each task, if the state is what is right."""

    def __init__(self, world: World, ticket: int, role: TrainerRole) -> None:
        super().__init__(world, f"trainer {ticket}")
        self.ticket, self.role = ticket, role
        self._states, self._updates = MappedMemories(read_only=True), MappedMemories()

    def start(self) -> None:
        role = self.role
        address = executor_address(role.folder, role.device, role.incarnation)
        self._link = VirtualLink(self.world.network, self, address)
        self.poller.register(self._link)
        self._link.send(TrainerReady(role.job.index, self.ticket))
        self._link.send(Prepared(role.job.index))

    def turn(self) -> None:
        for message, _ in self._link.drain():
            if isinstance(message, Leave):
                self.world.exits(self, "")
                return
            assert isinstance(message, RunTask)
            executor = self.world.executors[self.role.device]
            lives = executor.ticket in self.world.processes
            if lives and executor.role.incarnation == self.role.incarnation:
                if self.world.crashes(self.role, message):
                    self.world.exits(self, CRASHED)
                    return
                self._link.send(self._computed(message, executor))

    def _computed(self, task: RunTask, executor: ExecutorProcess) -> TaskComputed:
        right = self.world.right
        generation = executor.generation()
        if generation is not None:
            if not self.role.job.index:
                named = self.world.generation_of(self.ticket, generation)
                self.world.watch.task_begins(task.round, task.shard, named)
            if self._states.view(task.state) != right.states[task.round]:
                raise Violation(f"{executor.name} has another state of round {task.round}")
        result = right.results[task.round][task.shard]
        assert task.update is not None
        self._updates.view(task.update)[:] = result.update[0]
        named = task.job, task.round, task.shard
        return TaskComputed(*named, result.loss, result.present, result.marks)

    def closed(self) -> None:
        self._states.close()
        self._updates.close()


class EndedAsKilled(Exception):
    """An executor has found that the way to its controller or a server is broken."""


class Pipe:
    """The controller's end of the pipe to the zygote."""

    def __init__(self, up: Wire, down: Wire) -> None:
        self._up, self._down = up, down

    @property
    def readable(self) -> bool:
        return bool(self._down.inbox)

    def fileno(self) -> Pipe:
        return self

    def send(self, message: Any) -> None:
        self._up.send(message)

    def receive(self) -> Any:
        return self._down.inbox.popleft()[0]


class Zygote(Process):
    """Forks and kills as it is told, in order, and tells who has ended."""

    def __init__(self, world: World, host: int) -> None:
        super().__init__(world, f"zygote {host}")
        self.up, self.down = Wire(self), Wire(world.controller)

    def turn(self) -> None:
        while self.up.inbox:
            message, _ = self.up.inbox.popleft()
            match message:
                case Fork(ticket=ticket, role=role):
                    self.world.forked(ticket, role, self)
                    self.down.send(Forked(ticket, ticket))
                case End(ticket=ticket) if ticket in self.world.processes:
                    self.world.exits(self.world.processes[ticket], KILLED)


class VirtualEngine(LiveEngine):
    """Starts nothing: the processes of a run are those of a world."""

    world: World

    def _placement_now(self) -> HostPlacement:
        hosts = self._run.cluster.hosts
        if len(hosts) == 1:
            return ALONE
        places = [HostNamespace(address=f"10.0.0.{at}") for at in range(len(hosts))]
        names = [host.name for host in hosts]
        return HostPlacement(places, [names.index(one.host) for one in self._devices])

    def start(self) -> None:
        world = self.world
        self._folder = Path(world.folder)
        self._hub_or_none = world.hub(controller_address(world.folder))  # type: ignore[assignment]
        self._poller_or_none = world.controller.poller  # type: ignore[assignment]
        pool = self._pool_or_none = world.pool_of(self._placement, self._folder)
        for source in (self._hub, *pool.fds):
            self._poller.register(source)


class VirtualPort(LivePort, VirtualEngine):
    """The real controller, of virtual processes."""


class World:
    """Processes, network and clock of one history. ``busy``: who may have something to do."""

    now: World
    """The one that runs: what is made belongs to it."""

    def __init__(
        self, seed: int, folder: str, right: Reference, hosts: int, *, traced: bool = False
    ) -> None:
        self.draw = random.Random(seed)
        self.folder, self.right = folder, right
        self.now_ns = 1
        self.steps = 0
        self.slept_ns: int | None = None
        self.busy: dict[Process, None] = {}
        self.processes: dict[int, ServerProcess | ExecutorProcess | TrainerProcess] = {}
        self.executors: dict[int, ExecutorProcess] = {}
        self._zygote_of: dict[int, Zygote] = {}
        self.counts: Counter[str] = Counter()
        self.trace: deque[str] | None = deque(maxlen=400) if traced else None
        self.network = Network(self.draw, self.saw)
        self.controller = Process(self, "controller")
        self.zygotes = [Zygote(self, host) for host in range(hosts)]
        self.acting: Process = self.controller
        self.waits = False
        self.slowness = self.draw.choice([0.0, 0.02, 0.1])
        # Of a generation: the round from which on the next one serves.
        self.gave: dict[int, int] = {}
        self.watch: Any = None

    # What processes do to the world.

    def hub(self, address: str, identity: object = None) -> Any:
        """Let the process that acts listen."""
        return VirtualHub(self.network, self.acting, address)

    def link_to_controller(self, folder: str) -> Any:
        """Let the process that acts connect to the controller."""
        return VirtualLink(self.network, self.acting, controller_address(folder))

    def pool_of(self, placement: HostPlacement, folder: Path) -> Any:
        """The processes of a controller: those of a zygote a host, which is always there."""
        pool = ProcessPool.__new__(ProcessPool)
        pool._placement, pool._tickets = placement, 0
        pool._roles, pool._at, pool._pids = {}, {}, {}
        pipes = tuple(Pipe(zygote.up, zygote.down) for zygote in self.zygotes)
        pool.pipes = pipes  # type: ignore[assignment]
        return pool

    def generation_of(self, ticket: int, generation: int) -> int:
        """What tells a generation that a process knows from those of other controllers."""
        return generation

    def crashes(self, role: TrainerRole, task: RunTask) -> bool:
        """Whether a job's code ends its process in a task."""
        return False

    def link_to_server(self, address: str, home: int, identity: Any) -> Any:
        """Let the process that acts connect to a server, which may be on another host."""
        return VirtualLink(self.network, self.acting, address, far=home != identity.host)

    def arena(self, made: Arena) -> Arena:
        """Memory of the process that acts, which is gone when that is."""
        self.acting.arenas.append(made)
        return made

    def saw(self, owner: Any, message: Any) -> None:
        """A process sends something."""
        if self.trace is not None:
            self.trace.append(f"{self.steps:5} {owner.name} says {message!r:.160}")
        ours = isinstance(owner, ServerProcess) and not owner.role.job.index
        if ours and self.watch is not None:
            self.watch.server_says(owner, message)

    def wait(self, timeout_ms: float | None) -> None:
        """The controller would wait: it goes on when there is something to read."""
        if not self.waits:
            raise Parked
        acting = self.acting
        while not acting.poller.ready():
            self.step()
            self.look()
        self.acting = acting

    def look(self) -> None:
        """See whether the controller that waits is still there."""

    def wakes(self, process: Process, timeout_ms: int | None) -> None:
        """A process sleeps for so long at most, or until what it would have slept for itself."""
        process.wake_ns = None
        if timeout_ms is not None:
            process.wake_ns = max(self.now_ns + timeout_ms * 10**6, self.slept_ns or 0)

    # What the world does to processes.

    def forked(self, ticket: int, role: Role, zygote: Zygote) -> None:
        """A process is there, and has not begun."""
        match role:
            case ServerRole():
                made: Any = ServerProcess(self, ticket, role)
            case ExecutorRole(device=device):
                made = self.executors[device] = ExecutorProcess(self, ticket, role)
            case TrainerRole():
                made = TrainerProcess(self, ticket, role)
            case _:
                raise ValueError(f"nobody forks {role}")
        self.processes[ticket], self._zygote_of[ticket] = made, zygote
        if isinstance(made, ServerProcess) and not made.role.job.index:
            self.watch.server_forked(made)
        # Some take their time to load.
        made.held_until = self.steps + self.draw.choice([0, 0, 10, 60])
        made.begun = False
        made.woken()

    def exits(self, process: Any, how: str) -> None:
        """A process ends; the zygote tells."""
        del self.processes[process.ticket]
        self.network.ended(process)
        self.busy.pop(process, None)
        process.closed()
        self.tell_end(process, how)
        if self.trace is not None:
            self.trace.append(f"{self.steps:5} {process.name} ends")

    def tell_end(self, process: Any, how: str) -> None:
        """Whoever forked a process says that it has ended."""
        zygote = self._zygote_of.pop(process.ticket)
        zygote.down.send(Exited(process.ticket, process.ticket, how))

    def servers(self) -> list[ServerProcess]:
        """All of the first job that live, of all generations."""
        found = [one for one in self.processes.values() if isinstance(one, ServerProcess)]
        return [one for one in found if not one.role.job.index]

    def step(self) -> bool:
        """Let one process have a turn; False: nothing will ever happen by itself."""
        self.steps += 1
        self.now_ns += self.draw.randrange(1, STEP_NS)
        self._ring()
        if not self.busy:
            return self._sleep()
        able = [one for one in self.busy if one.held_until <= self.steps] or list(self.busy)
        process = self.draw.choice(able)
        if self.draw.random() < self.slowness:
            process.held_until = self.steps + self.draw.randrange(200)
        for wire in list(process.incoming):
            self._deliver(wire, alone=len(able) == 1)
        if process.awake:
            process.awake = False
            self._act(process)
        if not (process.awake or process.incoming):
            self.busy.pop(process, None)
        return True

    def _deliver(self, wire: Wire, *, alone: bool) -> None:
        """Let some of what is on its way arrive; a slow wire may have none."""
        draw = self.draw
        if (wire.held_until > self.steps and not alone) or not self.passes(wire):
            return
        if draw.random() < self.slowness:
            wire.held_until = self.steps + draw.randrange(300)
            return
        wire.deliver(len(wire.flying) if draw.random() < 0.6 else draw.randint(0, 2))

    def passes(self, wire: Wire) -> bool:
        """Whether there is a way between the hosts of a wire."""
        return True

    def _act(self, process: Process) -> None:
        self.acting = process
        if not process.begun:
            process.begun = True
            process.start()
            if process.poller.ready():
                process.woken()
        elif process is self.controller:
            if not self.waits:  # else it goes on by itself
                self.watch.turn()
        else:
            process.turn()

    def _ring(self) -> None:
        """Wake up those whose time has come."""
        for one in self.sleepers():
            if one.wake_ns is not None and one.wake_ns <= self.now_ns:
                one.wake_ns = None
                one.woken()

    def sleepers(self) -> Iterable[Process]:
        """All who may wake up by themselves."""
        return self.processes.values()

    def _sleep(self) -> bool:
        """Nothing is on its way: let time pass until somebody wakes up."""
        dues = [one.wake_ns for one in self.sleepers() if one.wake_ns is not None]
        if not dues or min(dues) > self.now_ns + FAR_NS:
            return False
        self.now_ns = min(dues)
        return True

    def close(self) -> None:
        """End all processes."""
        for process in list(self.processes.values()):
            process.closed()


class Parked(Exception):
    """The controller has nothing more to do."""
