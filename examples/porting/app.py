"""The class that docs/guides/porting.md makes of script.py: what is computed, without the loop."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional

from warren.apps.protocol import TorchApp


class Digits(TorchApp):
    """Digits by a perceptron with batch norm and dropout."""

    clip_norm = 1.0
    rounds: int = 660  # for the schedule: 30 epochs of 22 batches

    def model(self) -> nn.Module:
        """The untrained network."""
        return nn.Sequential(
            nn.Linear(64, 128), nn.BatchNorm1d(128), nn.ReLU(), nn.Dropout(0.3), nn.Linear(128, 10)
        )

    def dataset(self) -> tuple[Tensor, Tensor]:
        """What is trained on; the rest stays for ``evaluate``."""
        pixels, digits = load_digits(return_X_y=True)
        x = torch.tensor(pixels / 16, dtype=torch.float32)
        y = torch.tensor(digits)
        order = torch.randperm(len(x))
        test, train = order[:360], order[360:]
        self.test = x[test], y[test]
        return x[train], y[train]

    def loss(self, model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        """The mean loss of a batch."""
        images, labels = batch
        noisy = images + 0.1 * torch.randn_like(images)
        return functional.cross_entropy(model(noisy), labels)

    def optimizer(
        self, named_parameters: Iterable[tuple[str, nn.Parameter]]
    ) -> torch.optim.Optimizer:
        """What steps once a round."""
        return torch.optim.AdamW([p for _, p in named_parameters], lr=0.003)

    def schedule(self, optimizer: torch.optim.Optimizer) -> torch.optim.lr_scheduler.LRScheduler:
        """Stepped once a round, after the optimizer."""
        return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, self.rounds)

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        """Accuracy on the digits that were left aside."""
        x, y = self.test
        return {"accuracy": (model(x).argmax(dim=1) == y).float().mean().item()}
