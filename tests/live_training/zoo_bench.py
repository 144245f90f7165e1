"""Trains an app of the zoo in every engine, in one process.

Each process that a live run would have is played by the app's file loaded anew, so that globals
are a process's own.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor
from training_bench import gather, loaded_anew, step_all, whole

from warren.apps.protocol import TorchApp
from warren.live.oracle.plain import train
from warren.live.rings.gradient_mean import RingMeans
from warren.live.training.numerics import pin
from warren.live.training.parameter_store import ParameterStore
from warren.live.training.task_hashes import RoundOutcome, TaskResult
from warren.live.training.task_runner import TaskRunner
from warren.live.training.tensor_layout import digest, flat_of, raw
from warren.model.job import Evaluate, Job

ZOO = Path(__file__).with_name("zoo")
ENGINES = ("plain", "one server", "two servers", "plain ring", "ring")


@dataclass(frozen=True)
class Ended:
    """What a job came to; ``average``: the digest of its averaged weights, or nothing."""

    digest: str
    average: str
    losses: tuple[float, ...]
    metrics: Mapping[int, Mapping[str, float]]


def zoo_job(app: str, **fields: Any) -> Job:
    """Four rounds of three tasks; ``app`` is ``file.py:Class``."""
    standard = {"index": 0, "name": app.partition(":")[2], "scale": 3, "rounds": 4, "batch": 4}
    standard |= {"nan_loss": "train"}
    return Job(**{**standard, "seed": 7, "evaluate": Evaluate(every=2), "app": app, **fields})


def fresh(job: Job) -> TorchApp:
    """The app as a new process has it."""
    return loaded_anew(job, ZOO)


def run(engine: str, job: Job) -> Ended:
    """Train the job to its end."""
    try:
        if engine in ("plain", "plain ring"):
            found = train(fresh(job), replace(job, sync="ps" if engine == "plain" else "ring"))
            average = _digest(found.averaged_state_dict)
            return Ended(found.digest, average, found.losses, found.metrics)
        if engine == "ring":
            return _ring(replace(job, sync="ring"))
        return _servers(job, 1 if engine == "one server" else 2)
    finally:
        pin()


def _servers(job: Job, parts: int) -> Ended:
    """Two trainers take tasks in an order of their own; both sides are rehearsed."""
    stores = [ParameterStore(fresh(job), job, part=part, parts=parts) for part in range(parts)]
    runners = [TaskRunner(fresh(job), job) for _ in range(2)]
    chance, first, outcomes = random.Random(2), stores[0], []
    runners[0].warm()
    first.warm()
    while not first.finished:
        state = whole(first) if parts == 1 else gather(stores)
        for shard in chance.sample(range(job.scale), job.scale):
            result = chance.choice(runners).run(state, first.version, shard)
            for store in stores:
                pieces = [memoryview(result.update[0])[a:b] for a, b in store.ranges]
                store.add(shard, replace(result, update=tuple(pieces)))
        step_all(stores)
        if first.wants_whole:
            for store in stores[1:]:
                first.take(store.ranges, store.blocks())
        outcomes.append(first.conclude())
    return _ended(first, outcomes)


def _ring(job: Job) -> Ended:
    """Every rank is a process, and makes the same step from the same mean."""
    runners = [TaskRunner(fresh(job), job) for _ in range(job.scale)]
    stores = [ParameterStore(one.built.app, job, runner=one) for one in runners]
    means, outcomes = RingMeans(stores[0].layout, job), []
    runners[0].warm()
    stores[0].warm()
    while not stores[0].finished:
        results = [
            runner.run(whole(store), store.version, rank)
            for rank, (runner, store) in enumerate(zip(runners, stores, strict=True))
        ]
        mean = means.of([flat_of(result.update[0]) for result in results])
        loss = sum(result.loss for result in results) / job.scale
        present = bytes(map(max, zip(*(result.present for result in results), strict=True)))
        marks = results[0].marks
        for store in stores:
            update = (raw(mean.clone()),)
            store.add(0, TaskResult(loss=loss, present=present, marks=marks, update=update))
            store.step()
            store.forget_previous()
        outcomes.append(stores[0].conclude())
        for store in stores[1:]:
            store.follow(finished=outcomes[-1].finished)
    assert len({store.digest() for store in stores}) == 1
    return _ended(stores[0], outcomes)


def _ended(store: ParameterStore, outcomes: list[RoundOutcome]) -> Ended:
    metrics = {one.round + 1: one.metrics for one in outcomes if one.metrics is not None}
    average = _digest(store.averaged_state_dict())
    return Ended(store.digest(), average, tuple(one.loss for one in outcomes), metrics)


def _digest(state: Mapping[str, Tensor] | None) -> str:
    return "" if state is None else digest(state)


def same_numbers(one: Ended, other: Ended) -> bool:
    """Whether two ends are the same; NaN is like NaN."""
    return repr(one) == repr(other)
