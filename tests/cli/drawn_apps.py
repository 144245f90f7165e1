"""Apps as small as those of the examples, on data that are drawn: they load torch and no more."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.lr_scheduler import CosineAnnealingLR, LRScheduler

from warren.apps.protocol import TorchApp


def drawn(cases: int, width: int) -> Tensor:
    """Features of so many cases, float32 (cases, width); always the same."""
    return torch.randn(cases, width, generator=torch.Generator().manual_seed(width))


class Line(TorchApp):
    """Linear regression by AdamW under a cosine schedule."""

    lr: float = 0.05
    cases: int = 350
    width: int = 10
    outputs: int = 1

    def model(self) -> nn.Module:
        """Features to as many outputs."""
        return nn.Linear(self.width, self.outputs)

    def dataset(self) -> tuple[Tensor, Tensor]:
        """Features, and their sum."""
        x = drawn(self.cases, self.width)
        return x, x.sum(dim=1)

    def loss(self, model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        """Mean squared error."""
        x, y = batch
        return functional.mse_loss(model(x).squeeze(1), y)

    def optimizer(
        self, named_parameters: Iterable[tuple[str, nn.Parameter]]
    ) -> torch.optim.Optimizer:
        """AdamW."""
        return torch.optim.AdamW(named_parameters, lr=self.lr, weight_decay=0.1)

    def schedule(self, optimizer: torch.optim.Optimizer) -> LRScheduler:
        """Half a cosine wave over 100 rounds, then back up."""
        return CosineAnnealingLR(optimizer, T_max=100, eta_min=self.lr / 20)


class Sides(Line):
    """Logistic regression: on which side of a plane a case lies."""

    cases: int = 450
    width: int = 30

    def dataset(self) -> tuple[Tensor, Tensor]:
        """Features, and whether their sum is positive."""
        x, y = super().dataset()
        return x, (y > 0).float()

    def loss(self, model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        """Mean logistic loss."""
        x, y = batch
        return functional.binary_cross_entropy_with_logits(model(x).squeeze(1), y)


class Largest(Line):
    """A perceptron with a hidden layer, by momentum: which of ten features is the largest."""

    cases: int = 1400
    width: int = 64
    outputs: int = 10
    hidden: int = 128

    def model(self) -> nn.Module:
        """64 features to 10 classes."""
        return nn.Sequential(
            nn.Linear(self.width, self.hidden), nn.ReLU(), nn.Linear(self.hidden, self.outputs)
        )

    def dataset(self) -> tuple[Tensor, Tensor]:
        """Features, and the number of the largest."""
        x = drawn(self.cases, self.width)
        return x, x[:, : self.outputs].argmax(dim=1)

    def loss(self, model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        """Mean cross entropy."""
        x, y = batch
        return functional.cross_entropy(model(x), y)

    def optimizer(
        self, named_parameters: Iterable[tuple[str, nn.Parameter]]
    ) -> torch.optim.Optimizer:
        """SGD with momentum."""
        return torch.optim.SGD(named_parameters, lr=self.lr, momentum=0.9)

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        """Accuracy on the cases it learns from."""
        x, y = self.dataset()
        return {"accuracy": (model(x).argmax(dim=1) == y).sum().item() / len(y)}
