"""Schedules, apps and models that keep something."""

from __future__ import annotations

import random
from typing import Any

import torch
from _restored_base import Base, kinds_in
from torch import Tensor, nn, optim
from torch.nn.utils import parametrize
from torch.optim import lr_scheduler, swa_utils


class LambdaClosure(Base):
    def schedule(self, optimizer: optim.Optimizer) -> Any:
        box = [0]

        def factor(_: int) -> float:
            box[0] += 1
            return min(1.0, box[0] / 6)

        return lr_scheduler.LambdaLR(optimizer, factor)


class LambdaCallable(Base):
    def schedule(self, optimizer: optim.Optimizer) -> Any:
        class Warming:
            def __init__(self) -> None:
                self.seen, self.history = 0, [1.0]

            def __call__(self, _: int) -> float:
                self.seen += 1
                self.history.append(0.5 * self.history[-1] + 0.1)
                return min(1, self.seen / 5) * self.history[-1]

        return lr_scheduler.LambdaLR(optimizer, Warming())


class LambdaDraws(Base):
    """A learning rate that is drawn."""

    def schedule(self, optimizer: optim.Optimizer) -> Any:
        draw = random.Random(1)
        return lr_scheduler.LambdaLR(optimizer, lambda _: draw.uniform(0.5, 1.5))


class OwnSchedule(Base):
    """A class with attributes that its ``state_dict`` leaves out."""

    def schedule(self, optimizer: optim.Optimizer) -> Any:
        class Sawtooth(lr_scheduler.LRScheduler):
            tooth = 0.0

            def get_lr(self) -> Any:
                self.tooth = (self.tooth + 0.3) % 1
                return [base * (1 - self.tooth) for base in self.base_lrs]

            def state_dict(self) -> dict[str, Any]:
                return {"last_epoch": self.last_epoch}

        return Sawtooth(optimizer)


class Restarts(Base):
    def schedule(self, optimizer: optim.Optimizer) -> Any:
        warm = lr_scheduler.LinearLR(optimizer, 0.1, 1, 3)
        cosine = lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 2, 2)
        return lr_scheduler.SequentialLR(optimizer, [warm, cosine], [3])


class Cyclic(Base):
    def schedule(self, optimizer: optim.Optimizer) -> Any:
        return lr_scheduler.CyclicLR(
            optimizer, 0.01, 0.2, step_size_up=2, mode="exp_range", gamma=0.95
        )


class Swa(Base):
    def schedule(self, optimizer: optim.Optimizer) -> Any:
        return swa_utils.SWALR(optimizer, swa_lr=0.02, anneal_epochs=4)


class TensorRate(Base):
    def steps(self, parameters: list[nn.Parameter]) -> optim.Optimizer:
        return optim.Adam(parameters, lr=torch.tensor(0.01), foreach=False, fused=False)

    def schedule(self, optimizer: optim.Optimizer) -> Any:
        return lr_scheduler.ExponentialLR(optimizer, 0.9)


# In the app and its model.


class Patience(Base):
    """Ends once the metric has not fallen for three evaluations."""

    best = float("inf")
    bad = 0

    def finished(self, metrics: Any) -> bool:
        """Count how often it was no better."""
        self.bad = 0 if metrics["size"] < self.best else self.bad + 1
        self.best = min(self.best, metrics["size"])
        return self.bad >= 3


class Symmetric(nn.Module):
    """A parametrisation with a buffer that counts."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))

    def forward(self, weight: Tensor) -> Tensor:
        """Symmetric, and less each time."""
        if self.training:
            self.seen += 1
        return (weight + weight.t()) / (2 + 0.01 * self.seen)


class Parametrised(Base):
    def model(self) -> nn.Module:
        net = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 3))
        parametrize.register_parametrization(net[0], "weight", Symmetric())
        return net


class ForwardCounts(Base):
    """A forward hook that counts, on which tasks depend."""

    refused = "depends on"

    def model(self) -> nn.Module:
        net = super().model()
        seen = [0]

        def hook(_: Any, __: Any, output: Tensor) -> Tensor:
            seen[0] += 1
            return output / seen[0]

        net[0].register_forward_hook(hook)
        return net


class ForwardLogs(Base):
    """A forward hook that counts what no result depends on."""

    scratch = ("model.0.hook.self.seen",)

    def model(self) -> nn.Module:
        net = super().model()
        self.seen = [0]
        net[0].register_forward_hook(lambda *_: self.seen.append(1))
        return net


SCHEDULES = kinds_in(globals())
