"""What the tests of training share: small jobs and a server loop without processes."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from warren.apps.protocol import TorchApp
from warren.live.training.result import RoundOutcome
from warren.live.training.runner import TaskRunner
from warren.live.training.store import ParameterStore
from warren.model.job import Job

APPS = Path(__file__).resolve().parents[2] / "examples" / "apps"
MakeApp = Callable[[], TorchApp]


def a_job(**fields: Any) -> Job:
    return Job(
        **{"index": 0, "name": "j", "scale": 3, "rounds": 6, "batch": 8, "seed": 5, **fields}
    )


class Points(TorchApp):
    """A line through 50 noisy points."""

    def model(self) -> nn.Module:
        return nn.Linear(3, 1)

    def dataset(self) -> tuple[Tensor, Tensor]:
        x = torch.randn(50, 3)
        return x, x.sum(dim=1) + 0.1 * torch.randn(50)

    def loss(self, model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        x, y = batch
        return functional.mse_loss(model(x).squeeze(1), y)

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        return {"weight": float(sum(p.abs().sum() for p in model.parameters()))}


def serve(
    make: MakeApp, job: Job, *, trainers: int = 3, order_seed: int = 0, stop_at: int | None = None
) -> tuple[ParameterStore, list[RoundOutcome]]:
    """Run a job through a store and several runners, tasks in shuffled order."""
    store = ParameterStore(make(), job)
    return store, drive(store, make, job, trainers=trainers, order_seed=order_seed, stop_at=stop_at)


def drive(
    store: ParameterStore,
    make: MakeApp,
    job: Job,
    *,
    trainers: int = 2,
    order_seed: int = 0,
    stop_at: int | None = None,
) -> list[RoundOutcome]:
    """Go on from where the store stands, to its end or to version ``stop_at``."""
    chance = random.Random(order_seed)
    runners = [TaskRunner(make(), job) for _ in range(trainers)]
    outcomes = []
    while not store.finished and store.version != stop_at:
        for shard in chance.sample(range(job.scale), job.scale):
            store.add(shard, chance.choice(runners).run(store.state(), store.version, shard))
        outcomes.append(store.step())
    return outcomes
