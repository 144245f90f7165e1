"""What the tests of training share: small jobs and a server loop without processes."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn, optim
from torch.nn import functional

from warren.apps.protocol import TorchApp
from warren.live.training.app import app_loader
from warren.live.training.app.app_imports import SourceReader
from warren.live.training.memory.disk_memory import DiskMemory
from warren.live.training.parameter_store import ParameterStore
from warren.live.training.task_hashes import RoundOutcome
from warren.live.training.task_runner import TaskRunner
from warren.model.job import AppSource, Evaluate, Job

APPS = Path(__file__).resolve().parents[2] / "examples" / "apps"
MakeApp = Callable[[], TorchApp]


@cache
def _text_of(file: str, base: str) -> AppSource:
    return SourceReader(base).app(file)


def loaded_anew(job: Job, base: Path) -> TorchApp:
    """The app as a new process of a run has it: its file is loaded again, and its text is pinned.

    To read the text, and those of the modules that it imports, takes as long as to load it.
    """
    app_loader.forget_apps()
    assert job.app is not None
    file = job.app.rpartition(":")[0]
    app_loader.use_pinned({file: _text_of(file, str(base))})
    try:
        return app_loader.build_app(job, str(base))
    finally:
        app_loader._pinned = None


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


class Mixed(nn.Module):
    """Tied weights, batch norm, a weight that is used by some shards, one by none."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(7, 6)
        self.norm = nn.BatchNorm1d(6)
        self.wide = nn.Linear(6, 33)
        self.back = nn.Linear(33, 6)
        self.sometimes = nn.Parameter(torch.ones(6))
        self.never = nn.Parameter(torch.ones(5))
        self.output = nn.Linear(6, 7, bias=False)
        self.output.weight = self.embedding.weight

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.norm(self.embedding(x))
        hidden = hidden + self.back(functional.dropout(self.wide(hidden).relu(), 0.2))
        if x[0] < 3:
            hidden = hidden * self.sometimes
        return self.output(hidden)


OPTIMIZERS: dict[str, Any] = {
    "sgd": lambda ps: optim.SGD(ps, lr=0.1, momentum=0.9, weight_decay=0.01),
    "adam": lambda ps: optim.Adam(ps, lr=0.01),
    "adamw foreach": lambda ps: optim.AdamW(ps, lr=0.01, foreach=True, amsgrad=True),
    "adagrad": lambda ps: optim.Adagrad(ps, lr=0.1),
    "adadelta": lambda ps: optim.Adadelta(ps),
    "rmsprop": lambda ps: optim.RMSprop(ps, lr=0.01, momentum=0.5, centered=True),
    "rprop": lambda ps: optim.Rprop(ps, lr=0.01),
    "rprop foreach": lambda ps: optim.Rprop(ps, lr=0.01, foreach=True),
    "adamax": lambda ps: optim.Adamax(ps),
    "nadam": lambda ps: optim.NAdam(ps),
    "radam": lambda ps: optim.RAdam(ps),
    "asgd": lambda ps: optim.ASGD(ps),
    "maximize": lambda ps: optim.SGD(ps, lr=1e-3, maximize=True, foreach=True, weight_decay=0.1),
}


class MixedApp(Points):
    chosen: str = "sgd"

    def model(self) -> nn.Module:
        return Mixed()

    def dataset(self) -> Any:
        return torch.randint(0, 7, (90,))

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        return functional.cross_entropy(model(batch), (batch + 1) % 7)

    def optimizer(self, named_parameters: Any) -> optim.Optimizer:
        return OPTIMIZERS[self.chosen](list(named_parameters))

    def schedule(self, optimizer: optim.Optimizer) -> Any:
        return optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.7)

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        noise = torch.rand(())  # what an app may do: the generators are part of the promise
        return super().evaluate(model) | {"noise": float(noise)}


def mixed_job(**fields: Any) -> Job:
    return a_job(**{"rounds": 5, "evaluate": Evaluate(every=2), **fields})


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
            store.add(shard, chance.choice(runners).run(whole(store), store.version, shard))
        store.step()
        outcomes.append(store.conclude())
    return outcomes


def serve_split(make: MakeApp, job: Job, parts: int) -> tuple[ParameterStore, list[RoundOutcome]]:
    """The same with as many servers; gives the first, with all blocks of the last round."""
    stores = [ParameterStore(make(), job, part=part, parts=parts) for part in range(parts)]
    return stores[0], drive_split(stores, make, job)


def drive_split(
    stores: Sequence[ParameterStore],
    make: MakeApp,
    job: Job,
    *,
    stop_at: int | None = None,
    disk: DiskMemory | None = None,
) -> list[RoundOutcome]:
    """Go on from where the servers stand, to the end or to version ``stop_at``.

    ``disk``: where the trainer's model lies.
    """
    runner, first, outcomes = TaskRunner(make(), job, disk=disk), stores[0], []
    while not first.finished and first.version != stop_at:
        state = gather(stores)
        for shard in range(job.scale):
            result = runner.run(state, first.version, shard)
            (whole,) = result.update
            for store in stores:
                pieces = tuple(memoryview(whole)[begin:end] for begin, end in store.ranges)
                store.add(shard, replace(result, update=pieces))
        step_all(stores)
        if first.wants_whole:
            for store in stores[1:]:
                assert store.wants_whole
                first.take(store.ranges, store.blocks())
        outcomes.append(first.conclude())
    return outcomes


def step_all(stores: Sequence[ParameterStore]) -> None:
    """What servers do when all updates are in: tell each other what they know of the norm, step."""
    squares = [one for store in stores for one in store.combine()]
    for store in stores:
        store.step(squares)


def gather(stores: Sequence[ParameterStore]) -> bytearray:
    """The whole state, put together from what each server owns."""
    state = bytearray(stores[0].total_bytes)
    for store in stores:
        for (begin, end), piece in zip(store.ranges, store.state(), strict=True):
            state[begin:end] = piece
    return state


def whole(store: ParameterStore) -> bytes:
    """The state of a server that is alone."""
    return b"".join(store.state())
