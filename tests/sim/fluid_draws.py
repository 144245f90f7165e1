"""Drawn runs on links, played by the simulator and by the second simulation of ``fluid_steps``.

The policies answer at random: assignments of one task, of a round or of a stretch, far ahead of
their turn; classes of jobs, on all hosts and on single ones; hosts of servers and their bytes.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from fluid_model import Assigned, Classed, Model, ModelJob
from fluid_policies import DrawnPlaces, drawn_flows, drawn_plan, drawn_shapes
from fluid_steps import Simulation
from sim_worlds import Planned

from warren.core.journal import AnswersStep, Step
from warren.core.journal_reader import decode
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
from warren.model.decision import Shape
from warren.model.events import (
    AnyEvent,
    RoundsDone,
    TasksDone,
)
from warren.model.job import Evaluate, Job, Workload
from warren.model.run import Run, Scheduler, Truth
from warren.policy.registry import place_policy, policy_of, ring_policies
from warren.sim.build import sim_port, simulated_costs
from warren.sim.task_durations import TaskDurations

MS = 10**6
S = 10**9
KB = 1000


@dataclass(frozen=True)
class FluidWorld:
    """A run, its costs, the seed of what its policies answer, and its style: see ``drawn_world``.

    ``place``: *drawn* or *plan*, which answer at random, or a policy of the registry. ``answers``:
    who answers shape and flow: *nobody*, *drawn*, or *fixed*, as job files state.
    """

    run: Run
    costs: CostTable
    seed: int
    style: str
    place: str = "drawn"
    answers: str = "drawn"

    @property
    def compiles(self) -> bool:
        """Whether one policy alone answers with a whole plan, which compiled code may run."""
        return self.place in ("plan", "hare") and self.answers == "nobody"

    @property
    def kinds(self) -> list[str]:
        """What is in it."""
        network, jobs = self.run.cluster.network, self.run.workload.jobs
        assert self.costs.model_bytes_J is not None
        sizes = self.costs.model_bytes_J.tolist()
        there = {
            "servers": any(
                size and job.sync == "ps" for size, job in zip(sizes, jobs, strict=True)
            ),
            "rings": any(job.sync == "ring" for job in jobs),
            "unknown sizes": not all(sizes),
            "weights": network.class_weights is not None,
            "latency": network.latency_s > 0,
            "switches": self.costs.switch_ns_JT is not None,
            "noise": self.run.truth.task_cv > 0,
            "plans in compiled code": self.compiles,
        }
        named = [self.style, f"place {self.place}", f"answers {self.answers}"]
        return named + [kind for kind, holds in there.items() if holds]


@dataclass(frozen=True)
class Played:
    """What a journal tells: events, and what was decided when."""

    events: tuple[AnyEvent, ...]
    assigned: tuple[Assigned, ...]
    classed: tuple[Classed, ...]
    shapes: dict[int, Shape]


def drawn_cluster(draw: random.Random, style: str) -> Cluster:
    """Two to five hosts, or ten, with up to four devices of two types; links of 1 to 10 MB/s."""
    nic = [8e6] if style == "even" else [8e6, 8e6, 16e6, 40e6, 80e6]
    inner = draw.choice([(None,), (None, 80e6, 400e6)])
    hosts, devices = list[Host](), list[Device]()
    for h in range(10 if style == "large" else draw.randint(2, 5)):
        here = tuple(
            Device(index=len(devices) + k, name=f"h{h}/{k}", type=draw.choice("AB"), host=f"h{h}")
            for k in range(draw.randint(1, 4))
        )
        devices += here
        hosts.append(
            Host(
                name=f"h{h}",
                devices=tuple(one.name for one in here),
                nic_bps=draw.choice(nic),
                intra_bps=draw.choice(inner),
            )
        )
    weights = tuple(float(draw.randint(1, 9)) for _ in range(7))
    known = {
        "latency_s": draw.choice([0.0, 0.0, 0.002, 0.05]),
        "outer_bps": draw.choice([None, None, None, 16e6]),
        "inner_bps": draw.choice([None, None, None, 160e6]),
        "class_weights": draw.choice([None, None, weights]),
    }
    return Cluster(
        hosts=tuple(hosts),
        devices=tuple(devices),
        types=(DeviceType(name="A"), DeviceType(name="B")),
        network=Network(model="fluid", xi2_s=draw.choice([0.0, 0.01]), **known),  # type: ignore[arg-type]
        local=Local(look_ahead=draw.choice([0, 1, 2, 2, 3])),
    )


def drawn_jobs(draw: random.Random, style: str, cluster: Cluster, place: str) -> tuple[Job, ...]:
    """Two to seven jobs with servers or rings; in *long* worlds two or three of many rounds.

    In *large* ones up to 25.

    They state classes and hosts of servers for the policies ``fixed``.
    """
    devices = len(cluster.devices)
    count = draw.randint(*{"long": (2, 3), "large": (15, 25)}.get(style, (2, 7)))
    arrivals = sorted(draw.choice([0, 0, draw.randrange(10 * S)]) for _ in range(count))
    names = [host.name for host in cluster.hosts]
    jobs = []
    for index, arrival in enumerate(arrivals):
        servers = tuple(draw.choice(names) for _ in range(draw.randint(0, 3)))
        ring = draw.random() < 0.25 and (place in ("drawn", "plan") or place in ring_policies())
        jobs.append(
            Job(
                index=index,
                name=f"j{index}",
                arrival_ns=0 if style == "even" else arrival,
                scale=draw.randint(1, min(4, devices)),
                rounds=draw.randint(20, 60) if style == "long" else draw.randint(1, 6),
                sync="ring" if ring else "ps",
                flow_class=draw.randrange(8),
                server_hosts=() if ring else servers,
                evaluate=draw.choice([None, Evaluate(every=1), Evaluate(every=2)]),
            )
        )
    return tuple(jobs)


def drawn_costs(draw: random.Random, style: str, jobs: tuple[Job, ...]) -> CostTable:
    """Up to 2 s of COMP and 5 MB, some sizes unknown; in *even* worlds all are 1 s and 1 or 2 MB.

    There much falls on one instant.
    """

    def comp_ns() -> int:
        return S if style == "even" else draw.randint(1, 2000) * MS + draw.randrange(MS)

    def size(job: Job) -> int:
        if job.sync == "ps" and draw.random() < 0.15:
            return 0
        if style == "even":
            return draw.choice([1000, 2000]) * KB
        return draw.choice([draw.randint(1, 1000), *(draw.randint(100 * KB, 5000 * KB),) * 7])

    shape = (len(jobs), 2)
    sync = np.array([[draw.randint(0, 900) * MS for _ in "AB"] for _ in jobs])
    switch = np.array([[draw.randint(0, 500) * MS for _ in "AB"] for _ in jobs])
    return CostTable(
        comp_ns_JT=np.array([[comp_ns() for _ in "AB"] for _ in jobs]),
        sync_ns_JT=sync,
        fits_JT=np.ones(shape, dtype=np.bool_),
        model_bytes_J=np.array([size(job) for job in jobs]),
        switch_ns_JT=switch if draw.random() < 0.25 else None,
    )


def drawn_world(seed: int) -> FluidWorld:
    """A world of one of four styles, half of them *usual*."""
    draw = random.Random(seed)
    style = draw.choice(["usual"] * 10 + ["long"] * 5 + ["even"] * 5 + ["large"])
    place = draw.choice(
        ["drawn"] * 10 + ["plan"] * 4 + ["fifo", "gavel-fifo", "srtf", "hlas", "hare"]
    )
    answers = draw.choice(["nobody", "drawn", "drawn", "fixed"])
    cluster = drawn_cluster(draw, style)
    jobs = drawn_jobs(draw, style, cluster, place)
    costs = drawn_costs(draw, style, jobs)
    run = Run(
        name="fluid",
        cluster=cluster,
        workload=Workload(jobs=jobs),
        scheduler=Scheduler(
            place=place,
            flow="fair" if answers == "nobody" else answers,
            shape="static" if answers == "nobody" else answers,
            servers=draw.randint(1, 3),
        ),
        truth=Truth(task_cv=draw.choice([0.0, 0.0, 0.0, 0.3]), seed=seed),
    )
    return FluidWorld(run, costs, seed, style, place, answers)


def journal(world: FluidWorld, compiled: bool = False) -> bytes:
    """The run as ``warren simulate`` plays it; ``compiled``: a plan in compiled code."""
    written = bytearray()
    run, costs, seed = world.run, world.costs, world.seed
    others: tuple[Any, ...] = {
        "nobody": (),
        "drawn": (drawn_shapes(seed), drawn_flows(seed)),
        "fixed": (policy_of("shape", "fixed"), policy_of("flow", "fixed")),
    }[world.answers]
    policy: Any
    if world.place == "drawn":
        policy = DrawnPlaces(seed)
    elif world.place == "plan":
        policy = Planned(drawn_plan(seed, run))
    else:
        policy = place_policy(world.place)
    core = Core(
        run=run, costs=simulated_costs(run, costs), policy=policy, others=others, compiled=compiled,
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
        weights=network.class_weights,
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
    every = None if job.evaluate is None else job.evaluate.every
    return replace(made, server_hosts=hosts, server_bytes=sizes, every=every)


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
