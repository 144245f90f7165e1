"""The controller's side of parameter servers: one or several for each job, of one generation.

While a job's blocks migrate there are two generations: the serving one, and the *heirs*, which will
serve. Heirs are started first. When all are up, the others are ordered to give them the blocks at
the next barrier. When that barrier has passed the heirs serve, and the *donors* end when all blocks
have come.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from warren.live.control.run_context import RunContext, gpus_found_by_agents
from warren.live.process.specs import ServerRole, TrainerRole
from warren.live.training.checkpoints.files import latest_round
from warren.live.training.helpers import HELPERS
from warren.live.transport.messages import AnyMessage
from warren.live.transport.server_messages import (
    BlocksCame,
    CheckpointCommitted,
    DelayRound,
    Migrate,
    Open,
    OwnershipMoved,
    ServerReady,
)
from warren.model.cluster import static_server_hosts
from warren.model.decision import Shape
from warren.model.job import Job


@dataclass(slots=True)
class ServerGroup:
    """The servers of one job: their tickets by part and, once they are ready, their peers.

    ``trains``: the process of the only one is also the trainer of its device.
    """

    generation: int
    trains: bool = False
    tickets: dict[int, int] = field(default_factory=dict)
    peers: dict[int, bytes] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Tell whether all of them are up."""
        return len(self.peers) == len(self.tickets)


@dataclass(slots=True)
class Migration:
    """The blocks of one job on their way to ``heirs``, which are placed as ``shape`` says.

    ``begins``: the barrier at which ownership has moved. ``donors``: the servers before, once it
    has moved. ``came``: by part of the heirs that have all their blocks, the time when the last
    came, and the bytes that came from other hosts.
    """

    shape: Shape
    heirs: ServerGroup
    begins: OwnershipMoved | None = None
    donors: ServerGroup | None = None
    came: dict[int, BlocksCame] = field(default_factory=dict)

    @property
    def ended_ns(self) -> int:
        """Return when the last block came, by the hosts' clock."""
        return max(said.at_ns for said in self.came.values())

    @property
    def far_bytes(self) -> int:
        """Return the number of bytes that came from other hosts."""
        return sum(said.far_bytes for said in self.came.values())


class Servers:
    """Starts, opens, replaces and ends the servers of jobs.

    Parameters
    ----------
    context : RunContext
        Starts the processes and talks to them.
    opens_ns : callable
        Returns when a job may begin, in host time; None before time zero.
    trainer_role : callable
        Returns the role of the trainer of a job on a device.
    flow_class : callable
        Returns the class of a job's traffic from a host, both by index.
    """

    def __init__(
        self,
        context: RunContext,
        opens_ns: Callable[[Job], int | None],
        trainer_role: Callable[[int, Job], TrainerRole],
        flow_class: Callable[[int, int], int] = lambda host, job: 0,
    ) -> None:
        self._context = context
        self._flow_class = flow_class
        self._trainer_role = trainer_role
        self._opens_ns = opens_ns
        self._groups: dict[int, ServerGroup] = {}
        # Of each job that was rolled back: the round of the checkpoint that its servers begin at.
        self._rounds: dict[int, int] = {}
        # Shapes that policies have answered, by job; servers are placed by them.
        self._shapes: dict[int, Shape] = {}
        # Where servers of jobs without a shape are.
        self._static: dict[int, tuple[int, ...]] = {}
        # Delays of rounds of jobs whose servers are not all up.
        self._delays_ns: dict[int, int] = {}
        # Jobs whose blocks migrate, and shapes answered meanwhile.
        self._migrations: dict[int, Migration] = {}
        self._next: dict[int, Shape] = {}

    def homes(self, job: int) -> tuple[int, ...]:
        """Return the host of each server of a job; all on the one host if there is no testbed.

        The job's shape gives the hosts, or ``static`` if it has no shape.
        """
        return self._on_places(self._stated_homes(job))

    def reachable(self, job: int) -> bool:
        """Tell whether the hosts of a job's servers are there."""
        return self._context.absent.isdisjoint(self._stated_homes(job))

    def generations(self, job: int) -> set[int]:
        """Return the generations of a job's servers that must not be lost."""
        moving = self._migrations.get(job)
        groups = [self._groups.get(job)]
        if moving is not None:
            groups += [moving.heirs, moving.donors]
        return {group.generation for group in groups if group is not None}

    def placed(self, job: int, shape: Shape) -> bool:
        """Tell whether a job's servers are where a shape says, with as much of the model each."""
        if not shape.servers:
            return True
        stated = (self._on_places(shape.servers), shape.model_bytes or ())
        return stated == (self.homes(job), self._model_bytes(job))

    def place(self, job: int, shape: Shape) -> None:
        """Place a job's servers from now on as a shape says, which names some."""
        self._shapes[job] = shape

    # Blocks migrate.

    def want(self, job: Job, shape: Shape, reserve: Callable[[int], int]) -> None:
        """Let a job's blocks migrate to servers that are placed as a shape says.

        A migration that is under way ends first; of several shapes meanwhile the last counts.
        ``reserve`` gives a new generation of a job.
        """
        self._next[job.index] = shape
        self.go_on(job, reserve)

    def migrating(self) -> list[int]:
        """Return the jobs whose blocks migrate, or wait for that."""
        return sorted({*self._migrations, *self._next})

    def handing_over(self) -> bool:
        """Tell whether blocks of some job are on their way to heirs that own them."""
        return any(moving.begins is not None for moving in self._migrations.values())

    def _start_heirs(self, job: Job, shape: Shape, generation: int) -> None:
        """Start the servers that are to have a job's blocks."""
        heirs = ServerGroup(generation)
        self._migrations[job.index] = Migration(shape, heirs)
        donors = len(self._groups[job.index].tickets)
        for part in range(len(shape.servers)):
            role = self._role(job, heirs.generation, part, shape, donors)
            heirs.tickets[part] = self._context.pool.fork(role)

    def go_on(self, job: Job, reserve: Callable[[int], int]) -> None:
        """Begin the migration that a job waits for, if it can begin and is still wanted."""
        if job.index in self._migrations or not self.complete(job.index):
            return
        shape = self._next.pop(job.index, None)
        if shape is not None and not self.placed(job.index, shape):
            self._start_heirs(job, shape, reserve(job.index))

    def give_up(self, job: Job, generation: int, reserve: Callable[[int], int]) -> bool:
        """Give up a migration if one of its heirs has ended; tell whether that was possible.

        It is possible until all heirs are up: the serving servers have not heard of them. A shape
        answered meanwhile has its turn.
        """
        moving = self._migrations.get(job.index)
        if moving is None or moving.heirs.generation != generation or moving.heirs.complete:
            return False
        del self._migrations[job.index]
        self._end_group(moving.heirs)
        self.go_on(job, reserve)
        return True

    def standing(self, job: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the host of each server of a job, and the bytes that were stated for each."""
        return self._stated_homes(job), self._model_bytes(job)

    def ownership_moved(self, said: OwnershipMoved) -> None:
        """Note that a job's next round begins at its heirs; see ``take_over``."""
        moving = self._migrations.get(said.job)
        if moving is not None and moving.heirs.generation == said.generation:
            moving.begins = said

    def take_over(self, job: int, passed: int) -> int | None:
        """Let the heirs of a job serve, if they own its blocks and the barrier has been reported.

        Return their generation; None: it is too early, or they serve already.
        """
        moving = self._migrations.get(job)
        if moving is None or moving.donors is not None or moving.begins is None:
            return None
        if moving.begins.round != passed:
            return None
        moving.donors, self._groups[job] = self._groups[job], moving.heirs
        self._shapes[job] = moving.shape
        return moving.heirs.generation

    def blocks_came(self, said: BlocksCame) -> None:
        """Note that an heir has its blocks; see ``migrated``."""
        moving = self._migrations.get(said.job)
        if moving is not None and moving.heirs.generation == said.generation:
            moving.came[said.part] = said

    def migrated(self, job: int) -> Migration | None:
        """End the donors of a job once all its blocks have come to heirs that serve.

        Return the migration that is over by that; None: none is.
        """
        moving = self._migrations.get(job)
        if moving is None or moving.donors is None:
            return None
        if len(moving.came) < len(moving.heirs.tickets):
            return None
        self._end_group(moving.donors)
        return self._migrations.pop(job)

    def tell(self, job: int, part: int, message: AnyMessage) -> None:
        """Send a message to a server that is up; another one gets it later."""
        group = self._groups.get(job)
        if group is not None and part in group.peers:
            self._context.hub.send(group.peers[part], message)

    def delay(self, job: int, delay_ns: int) -> None:
        """Delay the round behind a job's next barrier by ``delay_ns`` real ns after it.

        Servers that are not all up get the delay when they are; those of a later generation do not.
        """
        if not self.complete(job):
            self._delays_ns[job] = delay_ns
            return
        for part in self._groups[job].peers:
            self.tell(job, part, DelayRound(delay_ns))

    def need(self, job: Job, generation: int) -> None:
        """Start a job's servers unless they run already."""
        if job.index in self._groups:
            return
        trains = self._context.home_of(job) is not None
        group = self._groups[job.index] = ServerGroup(generation, trains)
        for part in range(len(self.homes(job.index))):
            role = self._role(job, generation, part, self._shapes.get(job.index))
            group.tickets[part] = self._context.pool.fork(role)

    def ready(self, peer: bytes, said: ServerReady) -> bool:
        """Note that a server listens; tell whether all servers of its job do now."""
        group = self._groups.get(said.job)
        moving = self._migrations.get(said.job)
        if moving is not None and moving.heirs.generation == said.generation:
            self._heir_ready(peer, said, moving)
            return False
        # A server of a past generation may still have sent this: it does not count.
        if group is None or group.generation != said.generation:
            return False

        group.peers[said.part] = peer
        if self.complete(said.job) and said.job in self._delays_ns:
            self.delay(said.job, self._delays_ns.pop(said.job))
        return self.complete(said.job)

    def _heir_ready(self, peer: bytes, said: ServerReady, moving: Migration) -> None:
        """Note that an heir listens; after the last one, order the serving servers to give."""
        moving.heirs.peers[said.part] = peer
        if moving.heirs.complete:
            shape = moving.shape
            homes = self._on_places(shape.servers)
            order = Migrate(said.generation, homes, shape.model_bytes or ())
            for part in self._groups[said.job].peers:
                self.tell(said.job, part, order)

    def complete(self, job: int) -> bool:
        """Tell whether all servers of a job are up."""
        group = self._groups.get(job)
        return group is not None and group.complete

    def open(self, job: Job) -> None:
        """Tell a job's first server when to begin: at its arrival, or now after a roll-back."""
        at_ns = self._opens_ns(job)
        if at_ns is not None and self.complete(job.index):
            if job.index in self._rounds:
                at_ns = max(at_ns, time.monotonic_ns())
            # Part 0 is the first server: it holds the barrier and tells the other parts.
            self._context.hub.send(self._groups[job.index].peers[0], Open(at_ns))

    def open_all(self) -> None:
        """Open all servers that are up, at time zero."""
        for job in self._context.jobs:
            if job.index in self._groups:
                self.open(job)

    def checkpoint_committed(self, job: int, round_no: int) -> None:
        """Tell a job's first server that the journal has reached this round's end."""
        if self.complete(job):
            self._context.hub.send(self._groups[job].peers[0], CheckpointCommitted(round_no))

    def end(self, job: int) -> None:
        """End the servers of a job that has ended or begins a new generation."""
        groups = [self._groups.pop(job, None)]
        if (moving := self._migrations.pop(job, None)) is not None:
            groups += [moving.heirs, moving.donors]
            # Where the job goes back, its servers begin again where they were to be.
            self._shapes[job] = moving.shape
        if (shape := self._next.pop(job, None)) is not None:
            self._shapes[job] = shape
        # Heirs that serve are the group, too.
        for group in {group.generation: group for group in groups if group is not None}.values():
            self._end_group(group)

    def _end_group(self, group: ServerGroup) -> None:
        """End the servers of a group; messages of theirs that are still under way count no more."""
        for ticket in group.tickets.values():
            if group.trains:
                self._context.pool.kill(ticket)  # its device hears of the end of its trainer
            else:
                self._context.pool.end(ticket)
        for peer in group.peers.values():
            self._context.hub.refuse(peer)

    def go_back(self, job: int, passed: int) -> int:
        """End the job's servers, and find the round at which new ones will begin.

        Parameters
        ----------
        job : int
            The job's index.
        passed : int
            Barriers that the core knows of; a checkpoint beyond them does not count.

        Returns
        -------
        int
            The round of the newest checkpoint that counts; 0 if there is none.
        """
        self.end(job)
        self._delays_ns.pop(job, None)
        self._rounds[job] = latest_round(self._context.outputs.checkpoints(job), at_most=passed)
        return self._rounds[job]

    def known(self, job: int) -> bool:
        """Tell whether the job has servers, or had some and begins a new generation."""
        return job in self._groups or job in self._rounds

    def generation(self, job: int) -> int | None:
        """Return the generation of the job's running servers; None if none run."""
        group = self._groups.get(job)
        return None if group is None else group.generation

    def _role(
        self, job: Job, generation: int, part: int, shape: Shape | None, donors: int = 0
    ) -> ServerRole:
        """Return the role of a server of a job, placed by a shape."""
        context = self._context
        homes = self.homes(job.index) if shape is None else self._on_places(shape.servers)
        return ServerRole(
            folder=str(context.folder),
            base=context.run.base,
            job=job,
            log=context.outputs.log(job.index),
            params=context.outputs.params(job.index),
            store=str(context.outputs.checkpoints(job.index)),
            tmp=context.tmp(job.index),
            part=part,
            homes=homes,
            generation=generation,
            round=0 if donors else self._rounds.get(job.index, 0),
            # A server that replaces a lost one starts while the job waits: it loses no time.
            rehearse=context.rehearse and (self._opens_ns(job) is None or generation == 0),
            memory=context.memory,
            model_bytes=() if shape is None else shape.model_bytes or (),
            # It may answer an executor before the controller has heard that it is up.
            flow_class=self._flow_class(homes[part], job.index),
            donors=donors,
            inputs=context.inputs.of_host(homes[part]),
            # Processors of a run on GPUs wait for them.
            helpers=HELPERS if any(gpu is not None for gpu in context.gpus) else 0,
            gpu=self._gpu_of(job, part, homes[part]),
            trainer=self._trainer_of(job),
        )

    def _gpu_of(self, job: Job, part: int, host: int) -> int | None:
        """Return the GPU on which a server keeps its part of a job; None: in main memory."""
        mine, home = self._context.gpus_of(job), self._context.home_of(job)
        if not mine:
            return None
        if home is not None:
            return self._context.gpus[home]
        if gpus_found_by_agents(self._context.run.cluster):
            name = self._context.run.cluster.hosts[host].name
            mine = tuple(one for one in mine if self._context.devices[one].host == name)
        return self._context.gpus[mine[(job.index + part) % len(mine)]]

    def _trainer_of(self, job: Job) -> TrainerRole | None:
        """Return the role of the trainer in a server's process; None: there is none."""
        home = self._context.home_of(job)
        return None if home is None else self._trainer_role(home, job)

    def _stated_homes(self, job: int) -> tuple[int, ...]:
        """Return the hosts that a job's servers were placed on, testbed or not."""
        run, shape = self._context.run, self._shapes.get(job)
        if shape is not None:
            return shape.servers
        if job not in self._static:  # asked for each assignment
            may = self._context.server_hosts(self._context.jobs[job])
            hosts = [run.cluster.hosts[host] for host in may]
            found = static_server_hosts(hosts, job, run.scheduler.servers)
            self._static[job] = tuple(may[at] for at in found)
        return self._static[job]

    def _on_places(self, hosts: tuple[int, ...]) -> tuple[int, ...]:
        """Return the places of processes of these hosts: all on this machine for a single host."""
        return hosts if self._context.has_hosts else (0,) * len(hosts)

    def _model_bytes(self, job: int) -> tuple[int, ...]:
        """Return the bytes of the model that each server holds; empty: about the same."""
        shape = self._shapes.get(job)
        return () if shape is None else shape.model_bytes or ()
