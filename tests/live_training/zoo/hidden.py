"""Apps whose fault shows only where something is computed again, or by another process."""

from __future__ import annotations

import time
from typing import Any, ClassVar

import torch
from torch import Tensor, nn, optim
from zoo_base import Base


class WallClock(Base):
    """Nothing of it is kept, so only the same task once more can show it."""

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        return super().loss(model, batch) * (1 + time.monotonic_ns() % 997 / 1000)


class Counting(optim.SGD):
    """Counts its steps in an attribute."""

    steps = 0

    def step(self, closure: Any = None) -> Any:
        self.steps += 1
        for group in self.param_groups:
            group["lr"] = 0.1 / self.steps
        return super().step(closure)


class CountsSteps(Base):
    def optimizer(self, named_parameters: Any) -> optim.Optimizer:
        return Counting((p for _, p in named_parameters), lr=0.1)


class Delta(Base):
    """Its metric is how far the model went since the last evaluation."""

    last: Any = None

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        last, self.last = self.last, model[0].weight.detach().clone()
        return {"way": 0.0 if last is None else float((self.last - last).norm())}


class Written(Base):
    """The same, in a tensor that is there from the beginning."""

    def dataset(self) -> Any:
        self.last = torch.zeros_like(self.model()[0].weight)
        return super().dataset()

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        way = float((model[0].weight - self.last).norm())
        self.last.copy_(model[0].weight)
        return {"way": way}


class WrittenLarge(Base):
    def dataset(self) -> Any:
        self.table = torch.zeros(1 << 15)
        return super().dataset()

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        self.table += model[0].weight.mean()
        return {"mean": float(self.table.mean())}


class LosesBest(Base):
    """Says that no metric depends on what it keeps, which is not so."""

    best = 1e9
    scratch: ClassVar[tuple[str, ...]] = ("self.best",)

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        self.best = min(self.best, super().evaluate(model)["size"]) / 2
        return {"best": self.best}
