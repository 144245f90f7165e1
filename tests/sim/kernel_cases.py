"""Every kernel on small random instances, and one number that tells all it answered."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import numpy as np
from sim_worlds import random_plan, random_world
from test_solve_dispatch import random_problem
from test_solve_group_rounds import by_kernel, random_case
from test_solve_rules import random_instance

from warren.model.timeline import PlanOutcome, Timeline
from warren.sim.plan_runner import run_plan
from warren.solve.lists.earliest_completion import dispatch
from warren.solve.lists.hare_algorithm1 import algorithm1
from warren.solve.lists.serial_insertion import insertion
from warren.solve.lists.task_search import walked
from warren.solve.lists.type_queues import guided


def answers(seed: int) -> Iterator[Any]:
    """What the kernels answer on the instances of a seed."""
    world = random_world(seed, "lane", seed % 2 == 0)
    yield run_plan(random_plan(world, seed, 1 + seed % 3), world.run, world.costs)
    p, *priorities = random_problem(seed, 1 + seed % 2)
    yield dispatch(p, *priorities)
    yield by_kernel(random_case(seed))
    job_I = np.repeat(np.arange(len(p.scale_J)), p.scale_J)
    yield algorithm1(
        job_I, np.zeros_like(job_I), p.arrival_ns_J, p.scale_J, p.rounds_J, p.comp_ns_JT,
        p.sync_ns_JT, p.fits_JT, p.type_D, seed % 3,
    )  # fmt: skip
    for stretch in (1, 3):
        instance, rule = random_instance(seed, stretch)
        yield insertion(instance, np.argsort(rule.priority_J), 1e-8 * instance.comp_ns_JT)
        yield guided(instance, rule)
        if stretch == 1:
            rows = insertion(instance, np.argsort(rule.priority_J), 1e-8 * instance.comp_ns_JT)[0]
            yield walked(
                instance,
                rows[:, np.argsort(rows[1], kind="stable")],
                False,
                seed,
                np.random.default_rng(seed),
            )


def digest(seeds: int) -> str:
    """SHA-256 of all answers."""
    told = hashlib.sha256()
    for seed in range(seeds):
        for answer in answers(seed):
            _add(told, answer)
    return told.hexdigest()


def _add(told: Any, answer: Any) -> None:
    if isinstance(answer, PlanOutcome | Timeline):
        answer = tuple(getattr(answer, one.name) for one in fields(answer))
    if isinstance(answer, tuple):
        for part in answer:
            _add(told, part)
    else:
        array = np.asarray(answer)
        assert not array.dtype.hasobject
        told.update(f"{array.dtype.kind}{array.shape}".encode() + array.tobytes())


if __name__ == "__main__":
    print(digest(6))
