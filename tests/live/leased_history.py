"""One random history of jobs on hosts with leases: who is cut off, killed or hangs when.

The first job is judged as in ``history_core``, whoever is lost. The second one only has to be right
as long as it lives: its code may end its process in some task, again and again.
"""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from typing import Final

import history_core
from history_core import IDLE, JOB, LAST, History, Plan, plan_of, spread
from history_jobs import ROUNDS, a_job
from history_world import Parked, ServerProcess, Violation, VirtualPort, World
from leased_world import A_CONTROLLER, LEASE_NS, ControllerGone, LeasedWorld
from live_worlds import again, virtual

from warren.core.ports import Restart
from warren.model.decision import Assignment
from warren.model.events import (
    AnyEvent,
    HostJoined,
    HostLeft,
    JobArrived,
    JobFailed,
    ParamsSaved,
    RolledBack,
    RoundsDone,
    TasksDone,
)

OTHER: Final = 1
HEARD: Final = 400
"""Within so many turns what is said has been heard."""
STEPS: Final = 120_000
STANDS: Final = 5 * IDLE
"""So many turns bring a job no barrier at most, or leave something of a run that is over."""


class OtherJob:
    """The second job of a history: it shares hosts with the first."""

    def __init__(self, history: LeasedHistory, draw: random.Random) -> None:
        self._history, self._draw = history, draw
        self._tasks: list[Assignment] = []
        self.next = 0
        self.begun = self.ended = False

    def hear(self, event: AnyEvent) -> None:
        must, right = self._history._must, self._history._right
        match event:
            case JobArrived():
                self.begun = True
                self._submit()
            case RoundsDone(round=round_no, loss=loss, finished=finished):
                must(round_no == self.next, f"the other job passes {round_no}, not {self.next}")
                must(loss == right.losses[round_no], f"another loss of its round {round_no}")
                self.next, self.ended = round_no + 1, finished
            case RolledBack(round=round_no):
                must(self._history._was_struck(), "the other job goes back for nothing")
                self.next = round_no
                self._history.port.submit(tuple(again(self._tasks, event)))
            case ParamsSaved(sha256=sha256):
                must(sha256 == right.sha256[-1], "other parameters of the other job")
            case JobFailed(reason=reason):
                world = self._history.world
                must(world.crash_round is not None, f"the other job fails: {reason}")
                world.counts["jobs crashed"] += 1
                self.ended = True

    def _submit(self) -> None:
        plan, draw = self._history.plan, self._draw
        for round_no in range(ROUNDS):
            for shard in range(plan.job.scale):
                device = draw.randrange(plan.devices)
                self._tasks.append(Assignment(device, OTHER, round_no, 1, (shard,)))
        self._history.port.submit(tuple(self._tasks))


def leased_plan(seed: int) -> Plan:
    """As without leases, on two or three hosts."""
    draw, plan = random.Random(f"leases {seed}"), plan_of(seed)
    hosts = draw.choice([2, 3])
    return replace(
        plan, hosts=hosts, devices=max(plan.devices, hosts), servers=min(plan.servers, hosts),
        losses=min(plan.losses, 1), stretch=1,
    )  # fmt: skip


class LeasedHistory(History):
    """The core's side of a history in a leased world, and the judge of it."""

    world: LeasedWorld
    plan_from = staticmethod(leased_plan)

    def __init__(self, seed: int, folder: str, *, traced: bool = False) -> None:
        self._seed = seed
        self._faults = random.Random(f"faults {seed}")
        self._ports: list[VirtualPort] = []
        self._other = OtherJob(self, random.Random(f"other {seed}"))
        self._stands: int | None = None
        # Of each device: when the tasks that were told to have been done were on it.
        self._on_comp: defaultdict[int, list[tuple[int, int, TasksDone]]] = defaultdict(list)
        super().__init__(seed, folder, traced=traced)
        self.plan = leased_plan(seed)
        if self._faults.random() < 0.4:
            self.world.crash_round = self._faults.randrange(ROUNDS)

    @property
    def over(self) -> bool:
        """Whether both jobs have ended."""
        return self.ended and self._other.ended

    def _world(self, seed: int, folder: str, *, traced: bool) -> World:
        return LeasedWorld(seed, folder, self._right, leased_plan(seed).hosts, traced=traced)

    def _port(self, seed: int, folder: str) -> VirtualPort:
        plan = leased_plan(seed)
        scale = 1.0 if plan.emulated else None
        assert plan.job.app is not None
        app, job = plan.job.app.rpartition(":")[2], plan.job
        other = replace(a_job(app, job.scale, 2, None), index=OTHER, name="other")
        run, costs = virtual([job, other], plan.devices, scale=scale, comp_s=0.002, sync_s=0.001)
        cluster = spread(run.cluster, plan.hosts)
        hosts = tuple(
            replace(host, opportunistic=at in self.world.optional)
            for at, host in enumerate(cluster.hosts)
        )
        local = replace(cluster.local, lease_ns=LEASE_NS)
        cluster = replace(cluster, hosts=hosts, local=local)
        run = replace(
            run, seed=seed, sources={}, verify=0.0, cluster=cluster,
            scheduler=replace(run.scheduler, servers=plan.servers),
        )  # fmt: skip
        port = VirtualPort(run, costs, folder, warm_limit=0)
        port.world = self.world
        self._ports.append(port)
        return port

    # The run.

    def run(self) -> None:
        """From the first controller until nothing is left of the run."""
        world = self.world
        self._begin_controller()
        world.at(self._faults.randrange(LEASE_NS), self._fault)
        while not self.over:
            world.step()
            if world.died:
                self._begin_controller()
            self._disturb()
            stood = world.steps - self._barrier_step
            if world.steps > STEPS or stood > STANDS:
                raise Violation(f"round {self._next} does not end: {stood} turns")
        self._calm()
        self.port._pool.close()  # type: ignore[call-arg]
        world.at(LEASE_NS, lambda: world.controller_is_gone(world.epoch, world.controller))
        left = world.steps + STANDS
        while world.agents and world.steps < left:
            world.step()
        self._must(not world.agents, f"agents are left: {list(world.agents)}")
        self._must(not world.processes, f"left: {[p.name for p in world.processes.values()]}")
        self._judge_end()
        self._judge_devices()

    def _begin_controller(self) -> None:
        """The first controller, or one that goes on with what another one has left."""
        world = self.world
        while True:
            resumed = world.epoch > 0
            # Whoever starts it again takes a while.
            until_ns = world.now_ns + self._faults.randrange(2 * LEASE_NS) * resumed
            while world.now_ns < until_ns:
                world.step()
            world.another_controller()
            if resumed:
                self.port = self._port(self._seed, world.root)
                self.port.resume(self._restart())
            # Steps without a barrier are counted from when one may pass.
            self._barrier_step = world.steps
            world.acting, world.waits = world.controller, True
            try:
                self.port.start()
                if self._wanted is not None and not self.ended:
                    self.port.reshape({JOB: self._wanted})
            except ControllerGone:
                continue
            finally:
                world.waits = False
            world.controller.woken()
            return

    def _restart(self) -> Restart:
        last = self._ports[-2]
        arrived = self._barrier_seen, self._other.begun
        return Restart(
            now_ns=last._pending.last_ns,
            rounds_J=(self._next, self._other.next),
            arrived_J=arrived,
            ended_J=(self.ended, self._other.ended),
        )

    @property
    def _barrier_seen(self) -> bool:
        """Whether the first job has arrived."""
        return bool(self._tasks)

    def turn(self) -> None:
        """The controller's turn, unless it is dead."""
        if self.world.died:
            return
        stuck = False
        try:
            while events := self.port.next_events():
                self._stands = None
                for event in events:
                    self._hear(event)
                self._answer()
            stuck = not self.over
        except Parked:
            pass
        if stuck and self._other_waits():
            self._settle()
        if self.world.controller.poller.ready():
            self.world.controller.woken()

    def _other_waits(self) -> bool:
        return not self.ended

    def _settle(self) -> None:
        """Submit the next round, once servers are where they are to be."""
        world = self.world
        if self._stands is None:
            self._stands = world.steps
        if self._is_quiet() or world.steps > self._stands + IDLE:
            self._settled()
        else:
            # Nothing comes by itself that would bring another turn.
            world.at(1_000_000, world.controller.woken)

    def _is_quiet(self) -> bool:
        """Whether another round is all that anything waits for, as far as servers go."""
        servers, living = self.port._servers, self.world.servers()
        moving, group = servers._migrations.get(JOB), servers._groups.get(JOB)
        if group is None or not group.complete:
            return False
        if moving is None:
            same = {self._generation(one) for one in living} == {self._named(group.generation)}
            return same and len(living) == len(group.tickets)
        # It begins with another barrier, once those who serve have heard of it.
        gave = self._named(group.generation) in self.world.gave
        told = self._stands is not None and self.world.steps > self._stands + HEARD
        return self._next < ROUNDS - 1 and moving.heirs.complete and not gave and told

    def _named(self, generation: int) -> int:
        return self.world.generation_of(self.world.epoch * A_CONTROLLER, generation)

    def _hear(self, event: AnyEvent) -> None:
        self.world.counts["hosts that left"] += isinstance(event, HostLeft)
        self.world.counts["hosts that joined"] += isinstance(event, HostJoined)
        if isinstance(event, TasksDone):
            self._on_comp[event.device].append((event.start_ns, event.comp_end_ns, event))
        if getattr(event, "job", JOB) == OTHER:
            self._other.hear(event)
            return
        if isinstance(event, RolledBack):
            self._judge_return(event)
        super()._hear(event)

    def _judge_devices(self) -> None:
        """No two tasks that counted, of any job, were on a device at once."""
        for rows in self._on_comp.values():
            rows.sort(key=lambda row: row[:2])
            for (_, end_ns, one), (start_ns, _, other) in pairwise(rows):
                self._must(end_ns <= start_ns, f"at once on a device: {one} and {other}")

    def _judge_return(self, event: RolledBack) -> None:
        """A job loses one checkpoint interval at most."""
        every = self.plan.job.checkpoint
        if every is not None and every.every is not None:
            lost = self._next - event.round
            self.world.counts["rounds lost"] += lost
            self._must(lost <= every.every, f"{lost} rounds are lost of {every.every}")

    def _generation(self, process: ServerProcess) -> int:
        return self.world.generation_of(process.ticket, process.role.generation)

    def _was_struck(self) -> bool:
        counts = self.world.counts
        return bool(
            self._killed or counts["cuts"] or counts["agents killed"] or counts["leases lost"]
            or self.world.epoch > 1
        )  # fmt: skip

    # Who is lost when.

    def _losses(self) -> int:
        """What counts against the job, with what the controller is yet to hear of."""
        losses = self.port._recovery._losses
        progress = self.port._ledger.passed(JOB) > losses._furthest.get(JOB, -1)
        return 0 if progress else losses._by_activity.get(JOB, {}).get((), 0)

    def _fault(self) -> None:
        """Something happens to a host or to the controller."""
        draw, world = self._faults, self.world
        if self.ended or self._next >= ROUNDS - LAST:
            self._calm()
            return
        host = draw.randrange(1, self.plan.hosts)
        match draw.choice(["cut", "cut", "agent", "controller"]):
            case "cut" if host not in world.cut:
                world.cut_off(host, int(LEASE_NS * draw.choice([0.3, 0.8, 1.5, 3.0])))
            case "agent":
                agent = world.agents.get(draw.randrange(self.plan.hosts))
                if agent is not None and not agent.over and agent.begun:
                    world.counts["agents killed"] += 1
                    world.ends(agent)
            case "controller" if not world.died:
                world.controller_dies(hangs=draw.random() < 0.4)
        world.at(int(draw.expovariate(1 / (2 * LEASE_NS))), self._fault)

    def _calm(self) -> None:
        """From now on all messages arrive."""
        self.world.lost = self.world.twice = self.world.late = 0.0

    def close(self) -> None:
        """Free files."""
        self.world.close()
        for port in self._ports:
            port._outputs.close()


def play(seed: int) -> World:
    """One history; see ``history_core.play``."""
    return history_core.play(seed, LeasedHistory)
