"""What the live benchmarks train: a task that computes nothing, one of a chosen length, and one
whose model is as large as is wanted."""

from __future__ import annotations

import time

import torch
from torch import Tensor, nn

from warren.apps.protocol import TorchApp


class Nothing(TorchApp):
    """A model of one number; a task is one forward and backward pass over it."""

    def model(self) -> nn.Module:
        """One weight."""
        return nn.Linear(1, 1, bias=False)

    def dataset(self) -> Tensor:
        """Sixteen zeros."""
        return torch.zeros(16, 1)

    def loss(self, model: nn.Module, batch: Tensor) -> Tensor:
        """Zero."""
        value: Tensor = model(batch)
        return value.sum()


class Matmuls(TorchApp):
    """The batch, ``passes`` times over, through one matrix of 480 x 480 (0.92 MB).

    ``starts``: a file that each task adds a line to, the monotonic clock's nanoseconds.
    """

    passes: int = 10
    starts: str = ""

    def model(self) -> nn.Module:
        """The matrix."""
        return nn.Linear(480, 480, bias=False)

    def dataset(self) -> Tensor:
        """Sixty-four rows of noise."""
        return torch.randn(64, 480)

    def loss(self, model: nn.Module, batch: Tensor) -> Tensor:
        """Mean square of the product; one large product each way, as in an ordinary step."""
        if self.starts:
            with open(self.starts, "a") as file:
                file.write(f"{time.monotonic_ns()}\n")
        value: Tensor = model(batch.repeat(self.passes, 1))
        return value.square().mean()


class Large(TorchApp):
    """A model of ``megabytes`` in ten tensors; a task looks at each number once."""

    megabytes: int = 100

    def model(self) -> nn.Module:
        """Ten vectors."""
        return _Vectors(10, self.megabytes * 25_000)

    def dataset(self) -> Tensor:
        """Sixteen ones."""
        return torch.ones(16, 1)

    def loss(self, model: nn.Module, batch: Tensor) -> Tensor:
        """The sum of all numbers, so that every gradient is one."""
        value: Tensor = model(batch)
        return value


class _Vectors(nn.Module):
    def __init__(self, count: int, length: int) -> None:
        super().__init__()
        self.parts = nn.ParameterList(nn.Parameter(torch.zeros(length)) for _ in range(count))

    def forward(self, batch: Tensor) -> Tensor:
        total = torch.stack([part.sum() for part in self.parts]).sum()
        return total * batch.mean()
