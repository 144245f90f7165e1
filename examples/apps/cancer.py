"""Breast cancer, malignant or benign (569 cases of 30 measurements, inside scikit-learn)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import torch
from torch import Tensor, nn
from torch.nn import functional

from warren.apps.protocol import TorchApp

Pair = tuple[Tensor, Tensor]


class Cancer(TorchApp):
    """Logistic regression; ``hidden`` above 0 puts a layer in between."""

    lr: float = 0.05
    hidden: int = 0
    weight_decay: float = 1e-3

    @cached_property
    def _split(self) -> tuple[Pair, Pair]:
        """Training and test cases, scaled by the training cases; every fifth is a test case."""
        from sklearn.datasets import load_breast_cancer

        features, labels = load_breast_cancer(return_X_y=True)
        x = torch.tensor(features, dtype=torch.float64)
        y = torch.tensor(labels, dtype=torch.float32)
        test = torch.arange(len(y)) % 5 == 0
        mean, std = x[~test].mean(dim=0), x[~test].std(dim=0)
        x = ((x - mean) / std).float()
        return (x[~test], y[~test]), (x[test], y[test])

    def model(self) -> nn.Module:
        """30 measurements to one logit."""
        if self.hidden == 0:
            return nn.Linear(30, 1)
        return nn.Sequential(nn.Linear(30, self.hidden), nn.Tanh(), nn.Linear(self.hidden, 1))

    def dataset(self) -> Pair:
        """The training cases."""
        return self._split[0]

    def loss(self, model: nn.Module, batch: Pair) -> Tensor:
        """Mean logistic loss."""
        x, y = batch
        return functional.binary_cross_entropy_with_logits(model(x).squeeze(1), y)

    def optimizer(
        self, named_parameters: Iterable[tuple[str, nn.Parameter]]
    ) -> torch.optim.Optimizer:
        """SGD with weight decay."""
        return torch.optim.SGD(named_parameters, lr=self.lr, weight_decay=self.weight_decay)

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        """Accuracy on the test cases."""
        x, y = self._split[1]
        right = ((model(x).squeeze(1) > 0) == (y > 0.5)).sum().item()
        return {"accuracy": right / len(y)}
