"""Handwritten digits (8 x 8 gray pixels, 1,797 images that ship inside scikit-learn)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import torch
from torch import Tensor, nn
from torch.nn import functional

from warren.apps.protocol import TorchApp

Pair = tuple[Tensor, Tensor]


class Digits(TorchApp):
    """A perceptron with one hidden layer, trained by SGD with momentum."""

    lr: float = 0.1
    hidden: int = 128

    @cached_property
    def _split(self) -> tuple[Pair, Pair]:
        """Training and test images; every fifth image is kept for the test."""
        from sklearn.datasets import load_digits

        pixels, labels = load_digits(return_X_y=True)
        x = torch.tensor(pixels / 16.0, dtype=torch.float32)
        y = torch.tensor(labels, dtype=torch.int64)
        test = torch.arange(len(y)) % 5 == 0
        return (x[~test], y[~test]), (x[test], y[test])

    def model(self) -> nn.Module:
        """64 pixels to 10 classes."""
        return nn.Sequential(nn.Linear(64, self.hidden), nn.ReLU(), nn.Linear(self.hidden, 10))

    def dataset(self) -> Pair:
        """The training images and labels."""
        return self._split[0]

    def loss(self, model: nn.Module, batch: Pair) -> Tensor:
        """Mean cross entropy."""
        x, y = batch
        return functional.cross_entropy(model(x), y)

    def optimizer(
        self, named_parameters: Iterable[tuple[str, nn.Parameter]]
    ) -> torch.optim.Optimizer:
        """SGD with momentum."""
        return torch.optim.SGD(named_parameters, lr=self.lr, momentum=0.9)

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        """Accuracy on the test images."""
        x, y = self._split[1]
        right = (model(x).argmax(dim=1) == y).sum().item()
        return {"accuracy": right / len(y)}


class DigitsCNN(Digits):
    """A small convolutional network: its batch norm keeps buffers, its dropout draws numbers."""

    lr: float = 0.05
    channels: int = 16
    dropout: float = 0.25

    def model(self) -> nn.Module:
        """Two convolutions, then a linear layer on 4 x 4 positions."""
        c = self.channels
        return nn.Sequential(
            nn.Unflatten(1, (1, 8, 8)),
            nn.Conv2d(1, c, 3, padding=1, bias=False),
            nn.BatchNorm2d(c),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(c, 2 * c, 3, padding=1, bias=False),
            nn.BatchNorm2d(2 * c),
            nn.ReLU(),
            nn.Flatten(),
            nn.Dropout(self.dropout),
            nn.Linear(2 * c * 16, 10),
        )
