"""One random history of a job: what is answered, who is lost when, and what has to hold."""

from __future__ import annotations

import contextlib
import os
import random
from dataclasses import dataclass, replace
from tempfile import TemporaryDirectory
from typing import Any, Final

from history_jobs import ROUNDS, a_job, reference
from history_world import KILLED, Parked, ServerProcess, Violation, VirtualPort, World
from live_worlds import again, virtual

from warren.live.training.block_ownership import owners_of
from warren.live.transport.server_messages import (
    BarrierPassed,
    OwnershipMoved,
    RoundReport,
    ServerReady,
    StateSent,
)
from warren.model.cluster import Cluster, Host, Local
from warren.model.decision import Assignment, Shape
from warren.model.events import (
    AnyEvent,
    JobArrived,
    JobFailed,
    ParamsSaved,
    RolledBack,
    RoundsDone,
    ServersMoved,
    TasksDone,
)
from warren.model.job import Job
from warren.model.units import NS_PER_MS

JOB: Final = 0
LAST: Final = 3
"""Rounds at the end in which nothing is asked for and nobody is lost: so many settle all."""
STEPS: Final = 20_000
IDLE: Final = 4_000
"""So many turns bring a job no barrier at most."""
LOSSES: Final = 2
"""A job that loses more servers at one barrier fails, which is promised."""


@dataclass(frozen=True)
class Plan:
    """What a history is drawn from. Shares are of chances: answers, or turns of processes."""

    job: Job
    hosts: int
    devices: int
    servers: int
    emulated: bool
    stretch: int
    moves: float
    delays: float
    copies: float
    losses: int
    strikes: float


def plan_of(seed: int) -> Plan:
    draw = random.Random(f"plan {seed}")
    app = draw.choices(["Whole", "Large", "Clipped", "Heavy"], [6, 1, 2, 2])[0]
    every, evaluate = draw.choice([1, 2, 3, None]), draw.choice([None, None, 1, 2, 3])
    return Plan(
        job=a_job(app, draw.randint(1, 3), every, evaluate),
        hosts=draw.choice([1, 1, 1, 2, 3]),
        devices=draw.randint(1, 3),
        servers=draw.randint(1, 3),
        emulated=draw.random() < 0.4,
        stretch=draw.choice([1, 1, 1, 2]),
        moves=draw.choice([0.0, 0.2, 0.5, 0.9]),
        delays=draw.choice([0.0, 0.0, 0.4]),
        copies=draw.choice([0.0, 0.4]),
        losses=draw.choice([0, 0, 1, 2, 4]),
        strikes=draw.choice([0.002, 0.006]),
    )


def spread(cluster: Cluster, hosts: int) -> Cluster:
    """The same devices, on hosts that share no memory, as those of a testbed do not."""
    devices = tuple(replace(one, host=f"h{one.index % hosts}") for one in cluster.devices)
    there = tuple(
        Host(name=f"h{at}", devices=tuple(one.name for one in devices if one.host == f"h{at}"))
        for at in range(hosts)
    )
    return replace(cluster, hosts=there, devices=devices, local=Local(testbed="bed"))


class History:
    """The core's side of one history, and the judge of all."""

    plan_from = staticmethod(plan_of)

    def __init__(self, seed: int, folder: str, *, traced: bool = False) -> None:
        self.plan = plan = plan_of(seed)
        self._draw = random.Random(f"core {seed}")
        assert plan.job.app is not None
        self._right = reference(plan.job.app.rpartition(":")[2], plan.job.scale)
        self.world = World.now = self._world(seed, folder, traced=traced)
        self.world.watch = self
        self._tasks: list[Assignment] = []
        self._rows: set[tuple[int, int]] = set()
        # Of stretches that the checkpoint of a round cuts in two, what ran before it.
        self._cuts: dict[int, tuple[TasksDone, ...]] = {}
        self._next = 0
        self._wanted: Shape | None = None
        self._begun: set[tuple[int, int, int]] = set()
        self._copied: set[tuple[int, int, int]] = set()
        self._left_losses = plan.losses
        self._killed: set[int] = set()
        self._aimed: list[int] = []
        self._barrier_step = 0
        # Rounds at which generations begin that begin with a checkpoint, and the last round
        # that each of them, with all that it has migrated to, has reported.
        self._lives: dict[int, int] = {}
        self._reported: dict[int, int] = {}
        self.ended = False
        self.port = self._port(seed, folder)

    def _world(self, seed: int, folder: str, *, traced: bool) -> World:
        return World(seed, folder, self._right, self.plan.hosts, traced=traced)

    def _port(self, seed: int, folder: str) -> VirtualPort:
        plan = self.plan
        scale = 1.0 if plan.emulated else None
        run, costs = virtual([plan.job], plan.devices, scale=scale, comp_s=0.002, sync_s=0.001)
        run = replace(
            run,
            seed=seed,
            sources={},
            verify=0.0,
            scheduler=replace(run.scheduler, servers=plan.servers),
            cluster=run.cluster if plan.hosts == 1 else spread(run.cluster, plan.hosts),
        )
        port = VirtualPort(run, costs, folder, warm_limit=0)
        port.world = self.world
        return port

    # The run.

    def run(self) -> None:
        """From the start of the processes until nothing is left to happen."""
        world = self.world
        world.waits = True
        self.port.start()
        world.waits = False
        world.controller.woken()
        while True:
            if not world.step():
                if self.ended:
                    break
                self._settled()
            self._disturb()
            stood = world.steps - self._barrier_step
            if world.steps > STEPS or stood > IDLE:
                raise Violation(f"round {self._next} does not end: {stood} turns")
        self._judge_end()

    def turn(self) -> None:
        """The controller's turn: it hands out events until it has to wait."""
        try:
            while events := self.port.next_events():
                for event in events:
                    self._hear(event)
                self._answer()
        except Parked:
            pass
        if self.world.controller.poller.ready():
            self.world.controller.woken()

    def _hear(self, event: AnyEvent) -> None:
        match event:
            case JobArrived():
                self._submit(0, ROUNDS - LAST, self.plan.stretch)
            case RoundsDone():
                self._passed(event)
            case TasksDone():
                tasks = _tasks_of(event)
                self._must(not tasks & self._rows, f"tasks {tasks & self._rows} count twice")
                self._rows |= tasks
            case RolledBack(round=round_no):
                self._must(self._was_struck(), "a job goes back that has lost no server")
                self._next = round_no
                self._rows = {key for key in self._rows if key[0] < round_no}
                # In place of whole stretches, some of which may have been told already.
                for row in event.kept or self._cuts.get(round_no, ()):
                    self._rows |= _tasks_of(row)
                self._copied.clear()
                self.port.submit(tuple(again(self._tasks, event)))
                self._barrier_step = self.world.steps
                self.world.counts["rolled back"] += 1
            case ParamsSaved(sha256=sha256):
                self._must(sha256 == self._right.sha256[-1], "other parameters are saved")
            case JobFailed(reason=reason):
                raise Violation(f"the job fails: {reason}")
            case ServersMoved(reason=""):
                self.world.counts["migrations"] += 1
            case ServersMoved(servers=servers, model_bytes=model_bytes):
                self._must(self._was_struck(), "a shape is void, and no server was lost")
                self._wanted = Shape(None, servers, model_bytes or None)
                self.world.counts["void shapes"] += 1

    def _generation(self, process: ServerProcess) -> int:
        return process.role.generation

    def _was_struck(self) -> bool:
        return bool(self._killed)

    def _passed(self, event: RoundsDone) -> None:
        right, round_no = self._right, event.round
        self._must(round_no == self._next, f"barrier {round_no} passes, not {self._next}")
        self._must(event.loss == right.losses[round_no], f"another loss of round {round_no}")
        if self.plan.job.evaluates_after(round_no + 1):
            same = dict(event.metrics) == right.metrics[round_no]
            self._must(same, f"other metrics of round {round_no}")
        if event.cut:
            self._cuts[round_no] = event.cut
        self._next = round_no + 1
        self._barrier_step = self.world.steps
        self.ended = event.finished
        self._must(event.finished == (self._next == ROUNDS), "the job ends too early or late")

    def _must(self, holds: bool, otherwise: str) -> None:
        if not holds:
            raise Violation(otherwise)

    # What the core answers.

    def _submit(self, first: int, end: int, stretch: int) -> None:
        draw, scale, fresh = self._draw, self.plan.job.scale, []
        for begin in range(first, end, stretch):
            rounds = min(stretch, end - begin)
            on = [draw.randrange(self.plan.devices) for _ in range(scale)]
            shards = draw.sample(range(scale), scale)
            # Of a stretch a device has all its shards of a round before those of the next.
            groups = [[shard] for shard in shards] if stretch == 1 else []
            for device in range(self.plan.devices) if stretch > 1 else ():
                groups.append([shard for shard in shards if on[shard] == device])
            for group in filter(None, groups):
                fresh.append(Assignment(on[group[0]], JOB, begin, rounds, tuple(group)))
        self._tasks += fresh
        self.port.submit(tuple(fresh))

    def _answer(self) -> None:
        """Perhaps another shape, a delay, a copy."""
        draw, plan, counts = self._draw, self.plan, self.world.counts
        if self.ended or self._next >= ROUNDS - LAST:
            return
        if draw.random() < plan.moves:
            self._wanted = self._shape()
            counts["shapes"] += 1
            self.port.reshape({JOB: self._wanted})
        if draw.random() < plan.delays:
            counts["delays"] += 1
            self.port.delay({JOB: draw.choice([1, 5, 20]) * NS_PER_MS})
        if plan.stretch == 1 and draw.random() < plan.copies:
            self._copy()

    def _shape(self) -> Shape:
        draw = self._draw
        servers = draw.randint(1, 4)
        sizes = tuple(draw.randint(0, 5) for _ in range(servers))
        stated = sizes if sum(sizes) and draw.random() < 0.6 else None
        homes = tuple(draw.randrange(self.plan.hosts) for _ in range(servers))
        return Shape(None, homes, stated)

    def _copy(self) -> None:
        """A task of the round at hand also runs on a device that does nothing, or soon will."""
        ledger, draw = self.port._ledger, self._draw
        round_no, shard = ledger.passed(JOB), draw.randrange(self.plan.job.scale)
        device = draw.randrange(self.plan.devices)
        homes = {one.device for one in self._tasks if (one.round, *one.shards) == (round_no, shard)}
        head = ledger.head(device)
        busy = head is not None and head.round <= round_no
        if device in homes or busy or not homes or (round_no, shard, device) in self._copied:
            return
        self._copied.add((round_no, shard, device))
        self.world.counts["copies"] += 1
        self.port.copy((Assignment(device, JOB, round_no, 1, (shard,)),))

    def _settled(self) -> None:
        """Nothing happens any more without another round."""
        world = self.world
        submitted = max((one.round + one.rounds for one in self._tasks), default=0)
        self._must(self._next == submitted, f"nothing happens, and round {self._next} is not over")
        world.acting = world.controller
        if submitted == ROUNDS - 1:
            self._judge_shape()
        self._submit(submitted, submitted + 1, 1)

    # Who is lost when.

    def _disturb(self) -> None:
        """Kill somebody, perhaps."""
        world, draw = self.world, self._draw
        if self.ended or self._next >= ROUNDS - LAST:
            return
        self._aimed.sort()
        aimed = bool(self._aimed) and self._aimed[0] <= world.steps
        if aimed:
            del self._aimed[0]
        if not aimed and draw.random() >= self.plan.strikes:
            return
        if draw.random() < (0.4 if aimed else 0.2):
            self._strike_device()
        elif self._left_losses and self._losses() < LOSSES and world.servers():
            self._left_losses -= 1
            self._strike(draw.choice(world.servers()))

    def _losses(self) -> int:
        """What counts against the job, with what the controller is yet to hear of."""
        losses = self.port._recovery._losses
        progress = self.port._ledger.passed(JOB) > losses._furthest.get(JOB, -1)
        known = 0 if progress else losses._by_activity.get(JOB, {}).get((), 0)
        return known + sum(ticket in self.port._pool._roles for ticket in self._killed)

    def _strike(self, server: ServerProcess) -> None:
        counts = self.world.counts
        counts["servers lost"] += 1
        counts[f"servers lost: {self._moment(server)}"] += 1
        self._killed.add(server.ticket)
        self.world.exits(server, KILLED)

    def _strike_device(self) -> None:
        """An executor, whose tasks in progress run again."""
        executor = self._draw.choice(list(self.world.executors.values()))
        if executor.ticket in self.world.processes and executor.begun:
            self.world.counts["executors lost"] += 1
            self.world.exits(executor, KILLED)

    def _moment(self, server: ServerProcess) -> str:
        moving = self.port._servers._migrations.get(JOB)
        generation = server.role.generation
        if moving is None:
            return "no migration" if generation in self._serving() else "of an old generation"
        who = "heir" if generation == moving.heirs.generation else "donor"
        if moving.donors is not None:
            return f"{who}, executors told"
        if moving.begins is not None or generation in self.world.gave:
            return f"{who}, ownership has moved"
        return f"{who}, {'told to give' if moving.heirs.complete else 'heirs start'}"

    def _serving(self) -> set[int]:
        return self.port._servers.generations(JOB)

    # What has to hold at any time.

    def server_says(self, server: ServerProcess, message: Any) -> None:
        """No barrier twice, no state from who serves no more."""
        generation, inside = self._generation(server), server.server
        if isinstance(message, RoundReport):
            self._report(server, message)
        elif isinstance(message, OwnershipMoved):
            self.world.gave[generation] = message.round
            self._aim(40)
        elif isinstance(message, ServerReady) and server.role.donors:
            self._aim(100)
        elif isinstance(message, StateSent | BarrierPassed) and inside is not None:
            gave = inside._donor.gave and message.round >= inside._passed
            self._must(not gave, f"{server.name} hands out round {message.round} after it gave")
            begins_ns = message.passed_ns if isinstance(message, StateSent) else message.at_ns
            early = begins_ns is not None and begins_ns > self.world.now_ns
            self._must(not early, f"{server.name} opens round {message.round} too early")

    def _aim(self, steps: int) -> None:
        """Somebody may be lost within so many turns."""
        if self._draw.random() < 0.2 and self.plan.losses:
            self._aimed.append(self.world.steps + self._draw.randrange(steps))

    def _report(self, server: ServerProcess, report: RoundReport) -> None:
        generation, round_no = self._generation(server), report.round
        life = max(one for one in self._lives if one <= generation)
        expected = self._reported.get(life, self._lives[life] - 1) + 1
        self._must(round_no == expected, f"{server.name} passes {round_no}, not {expected}")
        self._reported[life] = round_no

    def server_forked(self, server: ServerProcess) -> None:
        """One that has no donors begins a life of its job."""
        if not server.role.donors:
            self._lives[self._generation(server)] = server.role.round

    def task_begins(self, round_no: int, shard: int, generation: int) -> None:
        """A trainer begins a task with a state of the servers of a generation."""
        until = self.world.gave.get(generation, ROUNDS)
        self._must(round_no < until, f"round {round_no} begins at generation {generation}")
        counts = self.world.counts
        counts["tasks"] += 1
        if (generation, round_no, shard) in self._begun:
            counts["doubled tasks"] += 1
        self._begun.add((generation, round_no, shard))

    # What has to hold at the end.

    def _judge_shape(self) -> None:
        """Servers are where the last shape says, and own what it says."""
        servers, shape = self.port._servers, self._wanted
        self._must(not servers.migrating(), "a migration does not end")
        (generation,) = servers.generations(JOB)
        living = {one.role.part: one for one in self.world.servers()}
        same = {one.role.generation for one in living.values()} == {generation}
        self._must(same and len(living) == len(self.world.servers()), "old servers live on")
        expected = self.plan.servers if shape is None else len(shape.servers)
        self._must(len(living) == expected, f"{len(living)} servers, not {expected}")
        for one in living.values():
            assert one.server is not None
            store = one.server._store
            sizes = () if shape is None else shape.model_bytes or ()
            right = owners_of(store.layout, expected, sizes)
            self._must(store.owners == right, "servers own what no shape says")
            right_homes = shape is None or one.role.homes == shape.servers
            self._must(right_homes, "servers are where no shape says")

    def _judge_end(self) -> None:
        tasks = ROUNDS * self.plan.job.scale
        self._must(len(self._rows) == tasks, f"{len(self._rows)} tasks count, not {tasks}")
        self._must(not self.world.servers(), "servers outlive their job")

    def close(self) -> None:
        """Free files."""
        self.world.close()
        self.port._outputs.close()


def _tasks_of(row: TasksDone) -> set[tuple[int, int]]:
    rounds = range(row.round, row.round + row.rounds)
    return {(round_no, shard) for round_no in rounds for shard in row.shards}


def play(seed: int, kind: type[History] = History) -> World:
    """One history, in ``virtual_modules``; one that fails tells what came last.

    Raises
    ------
    Violation
        A promise is broken, or a process has raised.
    """
    try:
        return _play(seed, kind, traced=False)
    except Exception as error:
        with contextlib.suppress(Exception):
            _play(seed, kind, traced=True)
        last = "\n".join(World.now.trace or ())
        what = f"{type(error).__name__}: {error}"
        raise Violation(f"history {seed}: {what}\n{kind.plan_from(seed)}\n{last}") from error


def _play(seed: int, kind: type[History], *, traced: bool) -> World:
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with TemporaryDirectory(prefix="warren-history-", dir=memory) as folder:
        history = kind(seed, folder, traced=traced)
        try:
            history.run()
        finally:
            history.close()
    return history.world
