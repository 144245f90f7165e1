"""Train a job in this process while its servers are lost, restored and moved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from warren.apps.protocol import TorchApp
from warren.live.oracle.plain import train
from warren.live.training import numerics
from warren.live.training.parameter_store import ParameterStore
from warren.live.training.task_runner import TaskRunner
from warren.model.job import Job

MakeApp = Callable[[], TorchApp]


@dataclass(frozen=True)
class Ended:
    """What a job came to: hash and metrics, or the line that refused it."""

    digest: str
    metrics: str
    line: str = ""


@dataclass(frozen=True)
class Loss:
    """After ``rounds`` rounds other servers go on, ``parts`` of them: restored, or heirs."""

    rounds: int
    parts: int
    moved: bool


def alone(make: MakeApp, job: Job) -> Ended:
    """Train with the plain loop."""
    try:
        found = train(make(), job)
    except Exception as error:  # libraries raise their own, and the job fails with that line
        return Ended("", "", f"{type(error).__name__}: {error}")
    finally:
        numerics.pin()
    metrics = {done: dict(one) for done, one in found.metrics.items()}
    return Ended(found.digest, repr(metrics))


def struck(make: MakeApp, job: Job, losses: Sequence[Loss]) -> Ended:
    """Train on servers that are taken away."""
    metrics: dict[int, Any] = {}
    try:
        stores = _servers(make, job, losses[0].parts if losses and not losses[0].rounds else 1)
        for loss in losses:
            _train(stores, make, job, loss.rounds, metrics)
            if stores[0].finished:
                break
            stores = _others(stores, make, job, loss)
        _train(stores, make, job, None, metrics)
        return Ended(stores[0].digest(), repr(metrics))
    except Exception as error:  # libraries raise their own, and the job fails with that line
        return Ended("", "", f"{type(error).__name__}: {error}")
    finally:
        numerics.pin()


def _servers(make: MakeApp, job: Job, parts: int) -> list[ParameterStore]:
    return [ParameterStore(make(), job, part=part, parts=parts) for part in range(parts)]


def _others(stores: list[ParameterStore], make: MakeApp, job: Job, loss: Loss) -> Any:
    """Servers that go on where these are."""
    if loss.moved:
        pieces = [
            [bytes(one.piece_for(part, loss.parts, ())) for one in stores]
            for part in range(loss.parts)
        ]
        others = _servers(make, job, loss.parts)
        for other, piece in zip(others, pieces, strict=True):
            other.inherit(piece)
    else:
        saved = [bytes(one.checkpoint_part()) for one in stores]
        others = _servers(make, job, loss.parts)
        for other in others:
            other.restore(saved)
    return others


def _train(
    stores: list[ParameterStore], make: MakeApp, job: Job, until: int | None, metrics: Any
) -> None:
    first, runner = stores[0], TaskRunner(make(), job)
    while not first.finished and first.version != until:
        state = bytearray(first.total_bytes)
        for store in stores:
            for (begin, end), piece in zip(store.ranges, store.state(), strict=True):
                state[begin:end] = piece
        for shard in range(job.scale):
            result = runner.run(state, first.version, shard)
            whole = memoryview(result.update[0])
            for store in stores:
                pieces = tuple(whole[begin:end] for begin, end in store.ranges)
                store.add(shard, replace(result, update=pieces))
        squares = [one for store in stores for one in store.combine()]
        for store in stores:
            store.step(squares)
        if first.wants_whole:
            for store in stores[1:]:
                first.take(store.ranges, store.state())
        outcome = first.conclude()
        if outcome.metrics is not None:
            metrics[outcome.round + 1] = dict(outcome.metrics)
