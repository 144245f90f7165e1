"""What the apps of the zoo share: points to fit, and two layers."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from warren.apps.protocol import TorchApp


class Base(TorchApp):
    def model(self) -> nn.Module:
        return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1))

    def dataset(self) -> Any:
        x = torch.randn(60, 4)
        return x, x.sum(1, keepdim=True).sin()

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        x, y = batch
        return functional.mse_loss(model(x).float(), y)

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        return {"size": float(sum(p.detach().abs().sum() for p in model.parameters()))}


class Words(Base):
    """Embeds one of seven numbers."""

    def dataset(self) -> Any:
        return torch.randint(0, 7, (60,))

    def model(self) -> nn.Module:
        return nn.Sequential(nn.Embedding(7, 3), nn.Linear(3, 1))

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        return model(batch).square().mean()
