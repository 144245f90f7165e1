"""What `warren calibrate` trains: models that compute nothing, and one that computes steadily.

It is loaded by its path, like an app of a user's.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from warren.apps.protocol import TorchApp


class _Vector(nn.Module):
    """A model that is one vector."""

    def __init__(self, floats: int) -> None:
        super().__init__()
        self.values = nn.Parameter(torch.zeros(floats))


class Empty(TorchApp):
    """``floats`` parameters of four bytes; a task only touches the first."""

    floats: int = 256

    def model(self) -> nn.Module:
        """The vector."""
        return _Vector(self.floats)

    def dataset(self) -> torch.Tensor:
        """Eight items that are nothing."""
        return torch.zeros(8)

    def loss(self, model: nn.Module, batch: Any) -> torch.Tensor:
        """Zero, with a gradient."""
        assert isinstance(model, _Vector)
        zero: torch.Tensor = model.values[0] * batch.sum()
        return zero


class Steady(TorchApp):
    """A perceptron of ``width``, some milliseconds a task: what real training does to a core."""

    width: int = 512

    def model(self) -> nn.Module:
        """Two layers."""
        return nn.Sequential(
            nn.Linear(256, self.width), nn.ReLU(), nn.Linear(self.width, self.width), nn.ReLU()
        )

    def dataset(self) -> torch.Tensor:
        """Random items, the same everywhere."""
        return torch.randn(512, 256, generator=torch.Generator().manual_seed(0))

    def loss(self, model: nn.Module, batch: Any) -> torch.Tensor:
        """The mean square of what comes out."""
        out: torch.Tensor = model(batch)
        return (out * out).mean()
