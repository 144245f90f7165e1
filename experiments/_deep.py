"""A PyTorch net whose layers are alike, so that any number of servers can have equal parts."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor, nn
from torch.nn import functional

from warren.apps.protocol import TorchApp


class Deep(TorchApp):
    """Handwritten digits through ``layers`` residual layers of ``width``."""

    layers: int = 12
    width: int = 150
    lr: float = 0.02

    @cached_property
    def _digits(self) -> tuple[Tensor, Tensor]:
        from sklearn.datasets import load_digits

        found = load_digits()
        return torch.tensor(found.data / 16, dtype=torch.float32), torch.tensor(found.target)

    def model(self) -> nn.Module:
        """64 pixels to 10 logits."""
        return nn.ModuleDict(
            {
                "first": nn.Linear(64, self.width),
                "layers": nn.ModuleList(
                    nn.Linear(self.width, self.width) for _ in range(self.layers)
                ),
                "last": nn.Linear(self.width, 10),
            }
        )

    def dataset(self) -> tuple[Tensor, Tensor]:
        """All images."""
        return self._digits

    def loss(self, model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        """Mean cross entropy."""
        x, y = batch
        parts: dict[str, nn.Module] = model  # type: ignore[assignment]
        x = parts["first"](x)
        for layer in parts["layers"]:  # type: ignore[attr-defined]
            x = x + torch.tanh(layer(x)) / self.layers
        return functional.cross_entropy(parts["last"](x), y)

    def optimizer(self, named_parameters: object) -> torch.optim.Optimizer:
        """SGD with momentum."""
        return torch.optim.SGD(list(named_parameters), lr=self.lr, momentum=0.9)  # type: ignore[call-overload]
