"""Apps that `warren calibrate` trains: models of any size, tasks of any length, a small net.

It is loaded by its path, like an app of a user's.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from warren.apps.protocol import TorchApp

# Rows sum to 1, so its square has the same entries, none of them denormal and slow.
_MATRIX = torch.full((256, 256), 1 / 256)


class _Vector(nn.Module):
    """A model that is one vector."""

    def __init__(self, floats: int) -> None:
        super().__init__()
        self.values = nn.Parameter(torch.zeros(floats))


class Vector(TorchApp):
    """A model of ``floats`` parameters of four bytes, of which a task changes only the first.

    It multiplies matrices ``products`` times, about 0.3 ms each, so that a task takes time at any
    model size.
    """

    floats: int = 256
    products: int = 0

    def model(self) -> nn.Module:
        """Return the model, which is one vector."""
        return _Vector(self.floats)

    def dataset(self) -> torch.Tensor:
        """Return eight items that are all zero."""
        return torch.zeros(8)

    def loss(self, model: nn.Module, batch: Any) -> torch.Tensor:
        """Multiply matrices, then return zero with a gradient."""
        assert isinstance(model, _Vector)
        for _ in range(self.products):
            torch.mm(_MATRIX, _MATRIX)
        # A loss must depend on a parameter; the batch is zero, so the model does not change.
        zero: torch.Tensor = model.values[0] * batch.sum()
        return zero


class Perceptron(TorchApp):
    """A net of two layers of ``width``: some milliseconds a task, the load of real training."""

    width: int = 512

    def model(self) -> nn.Module:
        """Return two linear layers, each with a ReLU."""
        return nn.Sequential(
            nn.Linear(256, self.width), nn.ReLU(), nn.Linear(self.width, self.width), nn.ReLU()
        )

    def dataset(self) -> torch.Tensor:
        """Return random items, the same in every process."""
        return torch.randn(512, 256, generator=torch.Generator().manual_seed(0))

    def loss(self, model: nn.Module, batch: Any) -> torch.Tensor:
        """Return the mean square of the net's output."""
        out: torch.Tensor = model(batch)
        return (out * out).mean()
