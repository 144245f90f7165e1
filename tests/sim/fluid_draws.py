"""Drawn runs on links, played by the simulator and by the second simulation of ``fluid_steps``.

The policies answer at random: assignments of one task, of a round or of a stretch, far ahead of
their turn; classes of jobs, on all hosts and on single ones; hosts of servers and their bytes.
"""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from fluid_model import Assigned, Classed, Model, ModelJob
from fluid_steps import Simulation

from warren.core.journal import AnswersStep, Step, decode
from warren.core.loop import Core
from warren.model.cluster import (
    REFERENCE_NIC_BPS,
    Cluster,
    Device,
    DeviceType,
    Host,
    Local,
    Network,
    static_server_hosts,
)
from warren.model.costs import CostTable
from warren.model.decision import NOTHING, Assignment, Decision, Question, Reason, Shape
from warren.model.events import (
    AnyEvent,
    CompDone,
    JobArrived,
    RoundsDone,
    TasksDone,
    Woken,
)
from warren.model.job import Job, Workload
from warren.model.run import Run, Scheduler, Truth
from warren.model.view import View
from warren.sim.build import sim_port, simulated_costs
from warren.sim.task_durations import TaskDurations

sys.path.insert(0, str(Path(__file__).parents[1]))
from question_worlds import Answering

MS = 10**6
S = 10**9
KB = 1000


@dataclass(frozen=True)
class FluidWorld:
    """A run, its costs, and the seed of what its policies answer."""

    run: Run
    costs: CostTable
    seed: int


@dataclass(frozen=True)
class Played:
    """What a journal tells: events, and what was decided when."""

    events: tuple[AnyEvent, ...]
    assigned: tuple[Assigned, ...]
    classed: tuple[Classed, ...]
    shapes: dict[int, Shape]


def drawn_cluster(draw: random.Random) -> Cluster:
    """Two to five hosts with up to four devices of two types; links of 1 to 10 MB/s."""
    inner = draw.choice([(None,), (None, 80e6, 400e6)])
    hosts, devices = list[Host](), list[Device]()
    for h in range(draw.randint(2, 5)):
        here = tuple(
            Device(index=len(devices) + k, name=f"h{h}/{k}", type=draw.choice("AB"), host=f"h{h}")
            for k in range(draw.randint(1, 4))
        )
        devices += here
        hosts.append(
            Host(
                name=f"h{h}",
                devices=tuple(one.name for one in here),
                nic_bps=draw.choice([8e6, 8e6, 16e6, 40e6, 80e6]),
                intra_bps=draw.choice(inner),
            )
        )
    known = {
        "latency_s": draw.choice([0.0, 0.0, 0.002, 0.05]),
        "weights": draw.choice([None, None, tuple(float(draw.randint(1, 9)) for _ in range(7))]),
    }
    return Cluster(
        hosts=tuple(hosts),
        devices=tuple(devices),
        types=(DeviceType(name="A"), DeviceType(name="B")),
        network=Network(model="fluid", xi2_s=draw.choice([0.0, 0.01]), **known),  # type: ignore[arg-type]
        local=Local(look_ahead=draw.choice([0, 1, 2, 2, 3])),
    )


def drawn_world(seed: int) -> FluidWorld:
    """Two to seven jobs with servers or rings, of 0.1 to 5 MB and up to 2 s of COMP."""
    draw = random.Random(seed)
    cluster = drawn_cluster(draw)
    count, most = draw.randint(2, 7), len(cluster.devices)
    arrivals = sorted(draw.choice([0, 0, draw.randrange(10 * S)]) for _ in range(count))
    kinds = [draw.choice(["ps", "ps", "ps", "ps", "ring", "unknown"]) for _ in arrivals]
    jobs = tuple(
        Job(
            index=index,
            name=f"j{index}",
            arrival_ns=arrival,
            scale=draw.randint(1, min(4, most)),
            rounds=draw.randint(1, 6),
            sync="ring" if kind == "ring" else "ps",
        )
        for index, (arrival, kind) in enumerate(zip(arrivals, kinds, strict=True))
    )
    shape = (count, 2)
    comp = np.array([[draw.randint(1, 2000) * MS + draw.randrange(MS) for _ in "AB"] for _ in jobs])
    sync = np.array([[draw.randint(0, 900) * MS for _ in "AB"] for _ in jobs])
    switch = np.array([[draw.randint(0, 500) * MS for _ in "AB"] for _ in jobs])
    costs = CostTable(
        comp_ns_JT=comp,
        sync_ns_JT=sync,
        fits_JT=np.ones(shape, dtype=np.bool_),
        model_bytes_J=np.array(
            [
                0 if kind == "unknown" else draw.randint(100, 5000) * KB + draw.randrange(KB)
                for kind in kinds
            ]
        ),
        switch_ns_JT=switch if draw.random() < 0.25 else None,
    )
    run = Run(
        name="fluid",
        cluster=cluster,
        workload=Workload(jobs=jobs),
        scheduler=Scheduler(place="drawn", servers=draw.randint(1, 3)),
        truth=Truth(task_cv=draw.choice([0.0, 0.0, 0.0, 0.3]), seed=seed),
    )
    return FluidWorld(run, costs, seed)


class DrawnPlaces:
    """A policy that assigns what comes next of a drawn job to drawn devices, often far ahead."""

    name, source, offline, needs_rounds, plans_rings = "drawn", "test", False, True, True
    triggers = frozenset({JobArrived, CompDone, RoundsDone})

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def initial(self, view: View) -> int:
        return 0

    def decide(self, view: View, memory: int) -> tuple[Decision, int]:
        draw = random.Random(f"{self._seed} {memory}")
        following = {
            job: (int(view.next_round_J[job]), int(view.next_shard_J[job]))
            for job in np.flatnonzero(view.open_J & view.arrived_J).tolist()
        }
        assign = list[Assignment]()
        # Somebody has to be at work; beyond that, as much as chance wants.
        idle = not view.queued_D.any()
        for _ in range(draw.randint(1 if idle else 0, 4)):
            if following:
                assign += self._next(draw, view, following)
        reasons = dict.fromkeys(range(len(view.jobs)), Reason.WAITING_FOR_TURN)
        return Decision(assign=tuple(assign), reasons=reasons), memory + 1

    def _next(
        self, draw: random.Random, view: View, following: dict[int, tuple[int, int]]
    ) -> list[Assignment]:
        job = draw.choice(list(following))
        (round_, shard), scale = following[job], int(view.scale_J[job])
        devices, ring = list(range(len(view.type_D))), view.jobs[job].sync == "ring"
        if shard == 0 and (ring or draw.random() < 0.4):
            rounds = min(draw.choice([1, 2, 3]), int(view.rounds_J[job]) - round_)
            # A ring has a device a rank; tasks of a stretch may follow each other on one.
            of = list(range(scale))
            if not ring:
                used = draw.sample(devices, draw.randint(1, min(scale, len(devices))))
                of = [draw.randrange(len(used)) for _ in range(scale)]
            else:
                used = draw.sample(devices, scale)
            found = [
                Assignment(
                    used[at], job, round_, rounds, tuple(k for k in range(scale) if of[k] == at)
                )
                for at in sorted(set(of))
            ]
            if rounds == 1 and not ring:
                found = self._in_order(draw, job, round_, 0, scale, devices)
            following[job] = (round_ + rounds, 0)
        else:
            count = draw.randint(1, scale - shard)
            found = self._in_order(draw, job, round_, shard, count, devices)
            shard += count
            following[job] = (round_, shard) if shard < scale else (round_ + 1, 0)
        if following[job][0] == int(view.rounds_J[job]):
            del following[job]
        return found

    def _in_order(
        self, draw: random.Random, job: int, round_: int, shard: int, count: int, devices: list[int]
    ) -> list[Assignment]:
        """So many tasks from a shard on, in one assignment or one each."""
        if draw.random() < 0.5:
            shards = tuple(range(shard, shard + count))
            return [Assignment(draw.choice(devices), job, round_, 1, shards)]
        return [
            Assignment(draw.choice(devices), job, round_, 1, (one,))
            for one in range(shard, shard + count)
        ]

    def explain(self, view: View, memory: int, job: int) -> str:
        return "waits for chance"


def drawn_flows(seed: int) -> Answering:
    """Other classes for a job or two, now and then; none for some worlds."""
    draws = random.Random(seed).random() < 0.8

    def flow(view: View, memory: int) -> Decision:
        draw = random.Random(f"{seed} flow {memory}")
        active = np.flatnonzero(view.arrived_J & ~view.done_J).tolist()
        if not (draws and active):
            return NOTHING
        classes = {draw.choice(active): draw.randrange(8)} if draw.random() < 0.6 else {}
        single = {}
        if draw.random() < 0.4:
            single[draw.randrange(len(view.hosts.nic_bps_H)), draw.choice(active)] = draw.randrange(
                8
            )
        wake_ns = view.now_ns + draw.randrange(1, 2 * S) if memory < 60 else None
        return Decision(classes=classes, host_classes=single, wake_ns=wake_ns)

    triggers = frozenset({JobArrived, RoundsDone, Woken})
    return Answering("flows", flow, Question.FLOW, triggers=triggers)


def drawn_shapes(seed: int) -> Answering:
    """Hosts of servers for some jobs, before time starts; the others have those of ``static``."""

    def shape(view: View, memory: int) -> Decision:
        draw = random.Random(f"{seed} shape")
        shapes = {}
        for job in range(len(view.jobs)):
            if memory == 0 and view.jobs[job].sync == "ps" and draw.random() < 0.5:
                count = draw.randint(1, 4)
                on = tuple(draw.randrange(len(view.hosts.nic_bps_H)) for _ in range(count))
                sizes = tuple(draw.randint(1, 2000) * KB for _ in on)
                shapes[job] = Shape(None, on, sizes if draw.random() < 0.5 else None)
        return Decision(shapes=shapes)

    return Answering("shapes", shape, Question.SHAPE, triggers=frozenset(), offline=True)


def journal(world: FluidWorld) -> bytes:
    """The run as ``warren simulate`` plays it."""
    written = bytearray()
    run, costs = world.run, world.costs
    others: tuple[Any, ...] = (drawn_shapes(world.seed), drawn_flows(world.seed))
    core = Core(
        run=run, costs=simulated_costs(run, costs), policy=DrawnPlaces(world.seed), others=others,
        port=sim_port(run, costs), sink=written.extend, world="sim", check=True,
    )  # fmt: skip
    core.execute()
    return bytes(written)


def played(data: bytes) -> Played:
    """What happened and what was decided, by a journal."""
    events, assigned, classed = list[AnyEvent](), list[Assigned](), list[Classed]()
    shapes: dict[int, Shape] = {}
    for record in decode(data):
        if not isinstance(record, Step):
            continue
        now = record.events[0].time_ns if record.events else 0
        events += record.events
        assigned += [
            Assigned(now, one.device, one.job, one.round, one.rounds, one.shards)
            for one in record.assign
        ]
        if isinstance(record, AnswersStep):
            classed += [Classed(now, job, kind) for job, kind in record.classes]
            classed += [Classed(now, job, kind, host) for host, job, kind in record.host_classes]
            shapes.update(record.shapes)
    return Played(tuple(events), tuple(assigned), tuple(classed), shapes)


def model_of(world: FluidWorld, shapes: dict[int, Shape]) -> Model:
    """The same world for the second simulation."""
    run, costs = world.run, world.costs
    cluster, network = run.cluster, run.cluster.network
    names = [host.name for host in cluster.hosts]
    durations = TaskDurations(run, costs)
    type_D = cluster.type_of_device

    def comp_ns(job: int, round_: int, shard: int, device: int) -> float:
        return durations.run_round(job, round_, (shard,), type_D[device], 0, 0)[0]

    def sync_ns(job: int, round_: int, shard: int, device: int) -> float:
        comp_end, end = durations.run_round(job, round_, (shard,), type_D[device], 0, 0)
        return end - comp_end

    def switch_ns(job: int, device: int) -> float:
        return 0 if costs.switch_ns_JT is None else int(costs.switch_ns_JT[job, type_D[device]])

    def rate(bps: float | None, default: float) -> float:
        return default if bps is None else bps / 8 / S

    return Model(
        jobs=tuple(_model_job(world, job, shapes.get(job.index)) for job in run.workload.jobs),
        host_D=tuple(names.index(device.host) for device in cluster.devices),
        up=tuple(
            rate(network.outer_bps or host.nic_bps, REFERENCE_NIC_BPS / 8 / S)
            for host in cluster.hosts
        ),
        inner=tuple(rate(network.inner_bps or host.intra_bps, np.inf) for host in cluster.hosts),
        comp_ns=comp_ns,
        sync_ns=sync_ns,
        switch_ns=switch_ns,
        latency_ns=network.latency_s * S,
        xi2_ns=network.xi2_s * S,
        look_ahead=cluster.local.look_ahead,
        weights=network.weights,
    )


def _model_job(world: FluidWorld, job: Job, shape: Shape | None) -> ModelJob:
    run = world.run
    assert world.costs.model_bytes_J is not None
    assert job.rounds is not None
    size = int(world.costs.model_bytes_J[job.index])
    made = ModelJob(job.arrival_ns, job.scale, job.rounds)
    if job.sync == "ring":
        return replace(made, ring_bytes=2 * size * (job.scale - 1) / job.scale)
    if not size:
        return made
    hosts = static_server_hosts(run.cluster.hosts, job.index, run.scheduler.servers)
    if shape is not None and shape.servers:
        hosts = shape.servers
    sizes: tuple[float, ...] = (size / len(hosts),) * len(hosts)
    if shape is not None and shape.model_bytes is not None:
        sizes = tuple(map(float, shape.model_bytes))
    return replace(made, server_hosts=hosts, server_bytes=sizes)


def differences(told: Played, found: Simulation) -> list[tuple[float, float, str]]:
    """Of each time that both tell: how far they are apart, the time, and what it is of; ns."""
    ring = [job.ring_bytes is not None for job in found.model.jobs]
    tasks = {(task.job, task.round, task.shard): task for task in found.tasks}
    rows = list[tuple[float, float, str]]()

    def add(theirs: float, ours: float, what: str) -> None:
        rows.append((abs(theirs - ours), theirs, f"{what}: {theirs} and {ours:.3f}"))

    for event in told.events:
        if isinstance(event, TasksDone):
            what = f"job {event.job} rounds {event.round}+{event.rounds} shards {event.shards}"
            first = tasks[event.job, event.round, event.shards[0]]
            last = [tasks[event.job, event.round + event.rounds - 1, one] for one in event.shards]
            add(event.start_ns, first.start_ns, f"{what} start")
            if not ring[event.job]:
                add(event.comp_end_ns, max(one.comp_end_ns for one in last), f"{what} COMP end")
            add(event.end_ns, max(one.end_ns for one in last), f"{what} end")
        elif isinstance(event, RoundsDone):
            last_round = event.round + event.rounds - 1
            passed = found.barriers[event.job, last_round]
            add(event.barrier_ns, passed, f"job {event.job} barrier {last_round}")
    return rows


def both(world: FluidWorld) -> tuple[Played, Simulation]:
    """The world played by the simulator, and what it decided played by the second simulation."""
    told = played(journal(world))
    return told, Simulation(model_of(world, told.shapes), told.assigned, told.classed).run()
