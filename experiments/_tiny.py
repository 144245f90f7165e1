"""Tiny instances with a known optimum: drawn by seed, solved exactly, run under policies.

Up to 3 GPUs of up to 3 types, 3 jobs and 8 tasks; unequal T^c and T^s, arrivals and weights. An
instance is *hard* when the best order of jobs, dispatched greedily (each task to the device that
completes it first), is at least 5 % above the optimum: there the order of jobs alone is not
enough.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import permutations
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from warren.core.journal_reader import read_history
from warren.core.loop import Core
from warren.core.state import State
from warren.model.cluster import Cluster, Device, DeviceType, Host
from warren.model.costs import CostTable
from warren.model.job import Job, Workload
from warren.model.run import Run, Scheduler
from warren.model.units import NS_PER_S
from warren.policy.place.hare.planner import Planner
from warren.policy.place.hare.policy import OBJECTIVES
from warren.policy.registry import place_policy
from warren.sim.port import SimPort
from warren.solve.bounds.exhaustive import TinyInstance, least_weighted_jct
from warren.solve.common.instance import Instance
from warren.solve.lists.earliest_completion import dispatch

HARD: Final = 1.05
MAX_TASKS: Final = 8
FEW, MANY = 25, 60
"""Tasks of a medium instance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One instance: as a run for policies, and as the columns that ``warren.solve`` takes."""

    run: Run
    costs: CostTable
    columns: dict[str, Any]

    @property
    def alpha(self) -> float:
        """Theorem 4's alpha: the largest ratio of a task's times on two GPUs; T^s > 0."""
        comp, sync = self.costs.comp_ns_JT, self.costs.sync_ns_JT
        both = np.concatenate([comp, sync])
        return float((both.max(axis=1) / both.min(axis=1)).max())


def planned_s(case: Case, *, budget: int = 1_000_000) -> float:
    """What ``hare`` plans, in seconds."""
    view = State(case.run, case.costs).view()
    planner = Planner(view, OBJECTIVES[0])
    planner.start()
    planner.improve(budget)
    return weighted_s(case, planner.finish_ns_J)


def draw_medium(seed: int) -> Case:
    """As ``draw``, but 2 to 6 GPUs, 3 to 8 jobs and 25 to 60 tasks."""
    rng = random.Random(f"medium {seed}")
    types = [rng.choice("ABC") for _ in range(rng.randint(2, 6))]
    shapes = [(MAX_TASKS, 1)]
    while not FEW <= sum(scale * rounds for scale, rounds in shapes) <= MANY:
        shapes = [(rng.randint(1, 4), rng.randint(1, 6)) for _ in range(rng.randint(3, 8))]
    return _drawn(rng, types, shapes)


def draw(seed: int) -> Case:
    """The instance of this seed. Times are whole seconds; T^c >= T^s > 0, as section 5.1 has it."""
    rng = random.Random(seed)
    types = [rng.choice("ABC") for _ in range(rng.randint(1, 3))]
    shapes = [(MAX_TASKS, 2)]
    while sum(scale * rounds for scale, rounds in shapes) > MAX_TASKS:
        shapes = [(rng.randint(1, 3), rng.randint(1, 3)) for _ in range(rng.randint(1, 3))]
    return _drawn(rng, types, shapes)


def _drawn(rng: random.Random, types: list[str], shapes: list[tuple[int, int]]) -> Case:
    """Jobs of these scales and rounds: weights, arrivals, and times on the types there are."""
    names = sorted(set(types))
    jobs = tuple(
        Job(
            index=index, name=f"j{index}", scale=scale, rounds=rounds,
            weight=rng.choice([0.5, 1.0, 2.0, 4.0]), arrival_ns=arrival * NS_PER_S,
        )
        for index, ((scale, rounds), arrival) in enumerate(
            zip(shapes, sorted(rng.choice([0, 0, 0, 1, 3, 6]) for _ in shapes), strict=True)
        )
    )  # fmt: skip
    comp = np.array([[rng.randint(1, 9) for _ in names] for _ in jobs])
    sync = np.array([[rng.randint(1, int(one)) for one in row] for row in comp])
    costs = CostTable(
        comp_ns_JT=comp * NS_PER_S, sync_ns_JT=sync * NS_PER_S, fits_JT=np.ones(comp.shape, bool)
    )
    return _case(types, jobs, costs)


def _case(types: list[str], jobs: tuple[Job, ...], costs: CostTable) -> Case:
    devices = tuple(
        Device(index=i, name=f"h/{name}-{i}", type=name, host="h") for i, name in enumerate(types)
    )
    names = sorted(set(types))
    cluster = Cluster(
        hosts=(Host(name="h", devices=tuple(device.name for device in devices)),),
        devices=devices,
        types=tuple(DeviceType(name=name) for name in names),
    )
    columns = {
        "arrival_ns_J": np.array([job.arrival_ns for job in jobs]),
        "weight_J": np.array([job.weight for job in jobs]),
        "scale_J": np.array([job.scale for job in jobs]),
        "rounds_J": np.array([job.rounds for job in jobs]),
        "comp_ns_JT": costs.comp_ns_JT,
        "sync_ns_JT": costs.sync_ns_JT,
        "fits_JT": costs.fits_JT,
        "type_D": np.array([names.index(name) for name in types]),
    }
    workload = Workload(jobs=jobs)
    run = Run(name="tiny", cluster=cluster, workload=workload, scheduler=Scheduler(place="hare"))
    return Case(run=run, costs=costs, columns=columns)


def optimum_s(case: Case) -> float:
    """The least sum of w (C - a), by exhaustive search."""
    return least_weighted_jct(TinyInstance(**case.columns)) / NS_PER_S


def best_order_s(case: Case) -> float:
    """The least sum of w (C - a) over all orders of jobs, dispatched greedily."""
    jobs = len(case.run.workload.jobs)
    instance = Instance(**case.columns, stretch_rounds_J=np.ones(jobs, dtype=np.int64))
    values = []
    for order in permutations(range(jobs)):
        priority_J = np.argsort(order).astype(np.float64)
        finish_ns_J = dispatch(instance, priority_J, np.zeros(jobs))[1]
        values.append(weighted_s(case, finish_ns_J))
    return min(values)


def finish_ns(case: Case, place: str, **options: object) -> npt.NDArray[np.int64]:
    """When each job ends under a policy, simulated."""
    journal = bytearray()
    policy = place_policy(place, options)
    core = Core(
        run=case.run, costs=case.costs, policy=policy, port=SimPort(case.run, case.costs),
        sink=journal.extend, world="sim",
    )  # fmt: skip
    core.execute()
    return read_history(bytes(journal)).finish_ns_J


def weighted_s(case: Case, finish_ns_J: npt.NDArray[np.int64], *, from_zero: bool = False) -> float:
    """The sum of w (C - a), or of w C, in seconds."""
    since_ns = 0 if from_zero else case.columns["arrival_ns_J"]
    return float(case.columns["weight_J"] @ (finish_ns_J - since_ns)) / NS_PER_S


def one_gpu(comp_s: list[int], weights: list[float]) -> Case:
    """Jobs of one task each, all there from the start, on one GPU; nothing to synchronize."""
    jobs = tuple(
        Job(index=index, name=f"j{index}", scale=1, rounds=1, weight=weight)
        for index, weight in enumerate(weights)
    )
    comp = np.array(comp_s, dtype=np.int64)[:, None] * NS_PER_S
    costs = CostTable(
        comp_ns_JT=comp, sync_ns_JT=np.zeros_like(comp), fits_JT=np.ones(comp.shape, bool)
    )
    return _case(["A"], jobs, costs)
