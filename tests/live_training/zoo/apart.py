"""Apps whose methods leave something to each other, or draw where few expect it."""

from __future__ import annotations

import random
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn, optim
from zoo_base import Base


class DatasetForEvaluate(Base):
    """``dataset()`` sets what ``evaluate()`` reads."""

    def dataset(self) -> Any:
        x, y = super().dataset()
        self.test = x[:10], y[:10]
        return x[10:], y[10:]

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        return {"error": float(self.loss(model, self.test))}


class OptimizerForLoss(Base):
    """``optimizer()`` sets what ``loss()`` reads."""

    def optimizer(self, named_parameters: Any) -> optim.Optimizer:
        self.decay = 0.01
        return super().optimizer(named_parameters)

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        return super().loss(model, batch) + self.decay * model[0].weight.square().sum()


class RandomOptimizer(Base):
    def optimizer(self, named_parameters: Any) -> optim.Optimizer:
        return optim.SGD([p for _, p in named_parameters], lr=random.uniform(0.01, 0.2))


class TorchOptimizer(Base):
    def optimizer(self, named_parameters: Any) -> optim.Optimizer:
        return optim.SGD([p for _, p in named_parameters], lr=0.2 * float(torch.rand(())))


class RandomSchedule(Base):
    def schedule(self, optimizer: optim.Optimizer) -> Any:
        return optim.lr_scheduler.ExponentialLR(optimizer, random.uniform(0.5, 0.9))


class RandomSplit(Base):
    """The pattern of the quickstart, its split drawn."""

    @cached_property
    def split(self) -> Any:
        x, y = super().dataset()
        order = torch.randperm(60)
        return (x[order[:40]], y[order[:40]]), (x[order[40:]], y[order[40:]])

    def dataset(self) -> Any:
        return self.split[0]

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        return {"error": float(self.loss(model, self.split[1]))}


class DrawsInEvaluate(Base):
    """Keeps what its first evaluation draws."""

    noise: Any = None

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        if self.noise is None:
            self.noise = torch.randn(5, 4)
        return {"mean": float(model(self.noise).mean())}


class TableInEvaluate(Base):
    """Keeps what it would find again, and draws for another purpose."""

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        if not hasattr(self, "test"):
            self.test = torch.arange(20.0).view(5, 4)
        self.seen = self.test + torch.randn(5, 4)
        return {"mean": float(model(self.seen).mean())}


class Steps(Base):
    """Reads the learning rate that the optimizer has come to."""

    def optimizer(self, named_parameters: Any) -> optim.Optimizer:
        self.steps = super().optimizer(named_parameters)
        return self.steps

    def schedule(self, optimizer: optim.Optimizer) -> Any:
        return optim.lr_scheduler.ExponentialLR(optimizer, 0.5)

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        return super().loss(model, batch) * self.steps.param_groups[0]["lr"]


class ByMetric(Base):
    """What ``evaluate()`` leaves for ``loss()`` is not where most tasks run."""

    best: Any = None

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        metrics = super().evaluate(model)
        self.best = torch.tensor(metrics["size"])
        return metrics

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        return super().loss(model, batch) * (1.0 if self.best is None else 0.5)


class Best(Base):
    """Counts its best metric from evaluation to evaluation."""

    def __init__(self) -> None:
        super().__init__()
        self.best = 0.0

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        self.best = max(self.best, super().evaluate(model)["size"])
        return {"best": self.best}


class Last(Base):
    """Evaluates what the last task has left, which no server has."""

    last: Any = None

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        self.last = model(batch[0]).detach()
        return super().loss(model, batch)

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        return {"last": 0.0 if self.last is None else float(self.last.sum())}
