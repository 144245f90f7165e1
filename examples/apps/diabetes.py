"""Disease progression after one year (442 patients of 10 measurements, inside scikit-learn)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.lr_scheduler import CosineAnnealingLR, LRScheduler

from warren.apps.protocol import TorchApp

Pair = tuple[Tensor, Tensor]


class Diabetes(TorchApp):
    """Regression by a small perceptron, trained by AdamW under a cosine schedule."""

    lr: float = 0.01
    hidden: int = 32
    period: int = 100

    @cached_property
    def _split(self) -> tuple[Pair, Pair]:
        """Training and test patients, scaled by the training ones; every fifth is for the test."""
        from sklearn.datasets import load_diabetes

        features, progression = load_diabetes(return_X_y=True)
        x = torch.tensor(features, dtype=torch.float64)
        y = torch.tensor(progression, dtype=torch.float64)
        test = torch.arange(len(y)) % 5 == 0
        x = (x - x[~test].mean(dim=0)) / x[~test].std(dim=0)
        y = (y - y[~test].mean()) / y[~test].std()
        x, y = x.float(), y.float()
        return (x[~test], y[~test]), (x[test], y[test])

    def model(self) -> nn.Module:
        """10 measurements to one number."""
        return nn.Sequential(nn.Linear(10, self.hidden), nn.ReLU(), nn.Linear(self.hidden, 1))

    def dataset(self) -> Pair:
        """The training patients."""
        return self._split[0]

    def loss(self, model: nn.Module, batch: Pair) -> Tensor:
        """Mean squared error, in units of the variance."""
        x, y = batch
        return functional.mse_loss(model(x).squeeze(1), y)

    def optimizer(
        self, named_parameters: Iterable[tuple[str, nn.Parameter]]
    ) -> torch.optim.Optimizer:
        """AdamW."""
        return torch.optim.AdamW(named_parameters, lr=self.lr, weight_decay=0.1)

    def schedule(self, optimizer: torch.optim.Optimizer) -> LRScheduler:
        """Half a cosine wave over ``period`` rounds, then back up."""
        return CosineAnnealingLR(optimizer, T_max=self.period, eta_min=self.lr / 20)

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        """R squared on the test patients."""
        x, y = self._split[1]
        error = functional.mse_loss(model(x).squeeze(1), y)
        return {"r2": float(1 - error / y.var(correction=0))}
