"""Random small worlds and a driver that hands plan rows to ``SimPort`` directly."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np

from warren.model.cluster import Cluster, Device, DeviceType, Host, Network
from warren.model.costs import CostTable
from warren.model.decision import Assignment, Decision, Plan
from warren.model.events import AnyEvent, Event, RoundsDone, TasksDone
from warren.model.job import Job, Workload
from warren.model.run import Run, Truth
from warren.model.timeline import PlanOutcome, Timeline
from warren.model.units import NEVER_NS
from warren.sim.port import SimPort


@dataclass(frozen=True)
class World:
    run: Run
    costs: CostTable


class Planned:
    """A policy that returns one prepared plan."""

    name, source, offline, needs_rounds = "planned", "test", True, True
    triggers: frozenset[type[Event]] = frozenset()

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def initial(self, view: object) -> None:
        return None

    def decide(self, view: object, memory: None) -> tuple[Decision, None]:
        return Decision(plan=self._plan), None

    def explain(self, view: object, memory: None, job: int) -> str:
        return "as planned"


def cluster_of(types: list[str], network: str = "constant") -> Cluster:
    names = sorted(set(types))
    devices = tuple(
        Device(index=i, name=f"h-0/{kind}-{i}", type=kind, host="h-0")
        for i, kind in enumerate(types)
    )
    return Cluster(
        hosts=(Host(name="h-0", devices=tuple(d.name for d in devices)),),
        devices=devices,
        types=tuple(DeviceType(name=name) for name in names),
        network=Network(model=network),  # type: ignore[arg-type]
    )


def world_of(
    jobs: list[tuple[int, int, int]],
    comp_ns_JT: list[list[int]],
    sync_ns_JT: list[list[int]],
    types: list[str],
    network: str = "constant",
    truth: Truth | None = None,
) -> World:
    """``jobs`` are (arrival_ns, scale, rounds); a cost of -1 means that the job does not fit."""
    comp = np.array(comp_ns_JT, dtype=np.int64)
    sync = np.array(sync_ns_JT, dtype=np.int64)
    fits = comp >= 0
    comp[~fits] = sync[~fits] = NEVER_NS
    workload = Workload(
        jobs=tuple(
            Job(index=i, name=f"job-{i}", arrival_ns=arrival, scale=scale, rounds=rounds)
            for i, (arrival, scale, rounds) in enumerate(jobs)
        )
    )
    run = Run(
        name="world",
        cluster=cluster_of(types, network),
        workload=workload,
        truth=truth or Truth(),
    )
    return World(run, CostTable(comp_ns_JT=comp, sync_ns_JT=sync, fits_JT=fits))


def random_world(seed: int, network: str, noisy: bool) -> World:
    rng = random.Random(seed)
    types = [rng.choice(["A", "B", "C"]) for _ in range(rng.randint(1, 4))]
    count = len(set(types))
    arrivals = sorted(rng.choice([0, 0, 5, 40, 200]) for _ in range(rng.randint(1, 5)))
    jobs = [(a, rng.randint(1, 4), rng.randint(1, 6)) for a in arrivals]
    top = rng.choice([4, 100, 10**13])
    comp = [[rng.randint(1, top) for _ in range(count)] for _ in jobs]
    sync = [[rng.randint(0, top) for _ in range(count)] for _ in jobs]
    for row_comp in comp:
        if count > 1 and rng.random() < 0.3:
            row_comp[rng.randrange(count)] = -1
    truth = Truth(task_cv=0.3, job_cv=0.2, seed=seed) if noisy else Truth()
    return world_of(jobs, comp, sync, types, network, truth)


def random_plan(world: World, seed: int, grain: int) -> Plan:
    """A random valid plan: each job cut into stretches of 1 to ``grain`` rounds, interleaved."""
    rng = random.Random(seed)
    jobs = world.run.workload.jobs
    next_round = [0 for _ in jobs]
    rows: list[tuple[int, int, int, int, int]] = []
    while open_jobs := [job for job in jobs if next_round[job.index] < (job.rounds or 0)]:
        job = rng.choice(open_jobs)
        first = next_round[job.index]
        rounds = min(rng.randint(1, grain), (job.rounds or 0) - first)
        shards = list(range(job.scale))
        rng.shuffle(shards)
        rows += [
            (job.index, first, rounds, k, _fitting(world, rng, job.index)) for k in shards
        ]  # fmt: skip
        next_round[job.index] += rounds
    return plan_of(rows)


def _fitting(world: World, rng: random.Random, job: int) -> int:
    kinds = world.run.cluster.type_of_device
    return rng.choice([d for d, kind in enumerate(kinds) if world.costs.fits_JT[job, kind]])


def plan_of(rows: list[tuple[int, int, int, int, int]]) -> Plan:
    """Rows are (job, round, rounds, shard, device)."""
    table = np.array(rows, dtype=np.int64).reshape(len(rows), 5)
    return Plan(
        job_R=table[:, 0],
        round_R=table[:, 1],
        rounds_R=table[:, 2],
        shard_R=table[:, 3],
        device_R=table[:, 4],
    )


def plan_rows(plan: Plan) -> list[tuple[int, int, int, int, int]]:
    columns = (plan.job_R, plan.round_R, plan.rounds_R, plan.shard_R, plan.device_R)
    return [tuple(map(int, row)) for row in zip(*columns, strict=True)]  # type: ignore[misc]


def assignments_of(plan: Plan) -> tuple[Assignment, ...]:
    """One assignment a row of one round; one a device for a stretch of several rounds."""
    gathered: dict[tuple[int, ...], list[int]] = {}
    for job, first, rounds, shard, device in plan_rows(plan):
        key = (device, job, first, rounds, shard if rounds == 1 else -1)
        gathered.setdefault(key, []).append(shard)
    return tuple(Assignment(*key[:4], tuple(shards)) for key, shards in gathered.items())


def drain(port: SimPort) -> list[AnyEvent]:
    events: list[AnyEvent] = []
    while batch := port.next_events():
        events.extend(batch)
    return events


def run_events(world: World, assignments: tuple[Assignment, ...]) -> list[AnyEvent]:
    """Everything is submitted before time starts; queues and barriers do the rest."""
    port = SimPort(world.run, world.costs)
    port.submit(assignments)
    return drain(port)


def outcome_of(world: World, events: list[AnyEvent]) -> PlanOutcome:
    finish = np.full(len(world.run.workload.jobs), -1, dtype=np.int64)
    for event in events:
        if isinstance(event, RoundsDone) and event.finished:
            finish[event.job] = event.time_ns
    done = [event for event in events if isinstance(event, TasksDone)]
    return PlanOutcome(timeline=Timeline.from_events(done), finish_ns_J=finish)
