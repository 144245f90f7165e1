"""Apps that keep something from task to task outside their model's state."""

from __future__ import annotations

import itertools
import random
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset
from zoo_base import Base
from zoo_noise import noise

calls = 0


class Noisy(Dataset[Any]):
    def __init__(self) -> None:
        self.x, self.rng = torch.randn(60, 4), np.random.default_rng(3)

    def __len__(self) -> int:
        return 60

    def __getitem__(self, index: int) -> Any:
        x = self.x[index]
        return x + 0.1 * float(self.rng.normal()), x.sum().view(1)


class NumpyGenerator(Base):
    def dataset(self) -> Any:
        return Noisy()


class TorchGenerator(Base):
    def dataset(self) -> Any:
        self.rng = torch.Generator().manual_seed(1)
        return super().dataset()

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        x, y = batch
        return super().loss(model, (x + torch.randn(x.shape, generator=self.rng), y))


class NeighboursGenerator(Base):
    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        return super().loss(model, batch) * (1 + noise())


class Queue(Base):
    def __init__(self) -> None:
        super().__init__()
        self.lasts: deque[Tensor] = deque([torch.ones(4)], maxlen=2)

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        self.lasts.append(batch[0].mean(0))
        return super().loss(model, (batch[0] - self.lasts[0], batch[1]))


class Reseeds(Base):
    """Its generators are left somewhere, but always at the same place."""

    def dataset(self) -> Any:
        self.all = [np.random.RandomState(1), random.Random(1), torch.Generator()]
        self.memory = torch.zeros(3)
        return super().dataset()

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        x, y = batch
        of_numpy, of_python, of_torch = self.all
        of_numpy.seed(7)
        of_python.seed(7)
        of_torch.manual_seed(7)
        self.memory.fill_(of_numpy.normal() + of_python.random() + of_torch.initial_seed())
        x = x + torch.randn(x.shape, generator=of_torch) + self.memory[0]
        return super().loss(model, (x, y))


class Counter(Base):
    def __init__(self) -> None:
        super().__init__()
        self.steps = 0

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        self.steps += 1
        return super().loss(model, batch) / self.steps


class LateCounter(Base):
    """Its counter is not there before the first task."""

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        self.steps = getattr(self, "steps", 0) + 1
        return super().loss(model, batch) / self.steps


class GlobalCounter(Base):
    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        global calls
        calls += 1
        return super().loss(model, batch) / calls


class ClassCounter(Base):
    steps = 0

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        type(self).steps += 1
        return super().loss(model, batch) / self.steps


def counting() -> Callable[[], int]:
    count = 0

    def more() -> int:
        nonlocal count
        count += 1
        return count

    return more


class ClosedOver(Base):
    def dataset(self) -> Any:
        self.more = counting()
        return super().dataset()

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        return super().loss(model, batch) / self.more()


class Iterates(Base):
    def dataset(self) -> Any:
        self.steps = itertools.count(1)
        return super().dataset()

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        return super().loss(model, batch) / next(self.steps)


class Unfreezes(Base):
    """After some steps another layer learns too."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = 0

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        self.steps += 1
        for parameter in model[0].parameters():
            parameter.requires_grad_(self.steps > 7)
        return super().loss(model, batch)


class Gate(nn.Module):
    """Keeps a mean that is no buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.mean = nn.Linear(4, 1), torch.zeros(4)

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(0)
        return self.layer(x - self.mean)


class RunningMean(Base):
    def model(self) -> nn.Module:
        return Gate()


class WrittenMean(Base):
    """The same, written in place and too large to be copied."""

    def model(self) -> nn.Module:
        self.mean = torch.zeros(4, 20_000)
        return super().model()

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        x, y = batch
        self.mean.mul_(0.9).add_(0.1 * x.mean(0).view(4, 1))
        return super().loss(model, (x - self.mean[:, 0], y))


class Normalises(Base):
    """Normalizes by the first batch that it sees."""

    first: Any = None

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        x, y = batch
        if self.first is None:
            self.first = x.std()
        return super().loss(model, (x / self.first, y))


class DrawsOnce(Base):
    """Draws a projection in its first task."""

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        x, y = batch
        if not hasattr(self, "turn"):
            self.turn = torch.randn(4, 4)
        return super().loss(model, (x @ self.turn, y))


class Teacher(Base):
    """A slow copy of the model, kept by the app."""

    def model(self) -> nn.Module:
        self.teacher = super().model()
        return super().model()

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        with torch.no_grad():
            for slow, fast in zip(self.teacher.parameters(), model.parameters(), strict=True):
                slow.lerp_(fast, 0.1)
        return super().loss(model, (batch[0], self.teacher(batch[0]).detach()))


class First(Base):
    """Its first task counts twice."""

    def __init__(self) -> None:
        super().__init__()
        self.first = True

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        factor, self.first = 2.0 if self.first else 1.0, False
        return factor * super().loss(model, batch)


class Logs(Base):
    def dataset(self) -> Any:
        self.seen: list[float] = []
        return super().dataset()

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        self.seen.append(float(batch[0].sum()))
        return super().loss(model, batch)


class NamedLogs(Logs):
    """Says that nothing depends on what it keeps."""

    scratch = ("self.seen", "calls")

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        global calls
        calls += 1
        return super().loss(model, batch)


class Table(Base):
    """A table that is filled once, a memory by size, and what the last task looked like."""

    def __init__(self) -> None:
        super().__init__()
        self.table: Any = None
        self.ready = False
        self.by_size: dict[int, Tensor] = {}
        self.rows: list[Tensor] = []

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        x, y = batch
        if not self.ready:
            self.table, self.ready = torch.arange(4.0) / 4, True
            self.rows.extend(self.table)
        some = 4 + int(x[0, 0] > 0)
        if some not in self.by_size:
            self.by_size[some] = torch.full((1,), float(some))
        out = model(nn.functional.dropout(x + self.table, 0.1))
        model.last, self.last = out.detach(), float(out.detach().mean())
        return nn.functional.mse_loss(out * self.by_size[some] + self.rows[1], y)
