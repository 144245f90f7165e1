"""Multinomial logistic regression by SGD, as Cruise and Harmony train it (their app MLR).

Data are dense here: the 160,000 sparse features of Cruise's own workload would not fit.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.lr_scheduler import LRScheduler, StepLR

from warren.apps.protocol import TorchApp

Pair = tuple[Tensor, Tensor]


class Scores(nn.Module):
    """A linear map from features to classes; its weights lie in blocks of features.

    A server owns whole tensors, so several servers can share as many blocks as there are.
    """

    def __init__(self, features: int, classes: int, blocks: int) -> None:
        super().__init__()
        parts = torch.zeros(features, classes).tensor_split(min(blocks, features))
        self.weights = nn.ParameterList(part.clone() for part in parts)
        self.bias = nn.Parameter(torch.zeros(classes))

    def forward(self, x: Tensor) -> Tensor:
        """Scores of shape (rows, classes)."""
        return x @ torch.cat(list(self.weights)) + self.bias

    def penalty(self) -> Tensor:
        """Half the squared norm of the weights; biases are free."""
        return torch.stack([block.square().sum() for block in self.weights]).sum() / 2


class Mlr(TorchApp):
    """Minimize the mean cross entropy plus ``l2 / 2`` times the squared norm of the weights.

    ``data`` is "digits" (1,797 images of 64 pixels, inside scikit-learn), "synthetic", or the path
    of a libsvm file (from where Warren was started), whose features are counted from 0; a file that
    counts from 1 gets one feature that is always 0. Synthetic data are ``rows`` of standard normal
    ``features`` and a class of ``classes`` each, drawn by the probabilities of a model whose
    weights are normal, too. ``seed`` is that of the drawing.

    ``lr`` is multiplied by ``decay`` every ``period`` rounds.
    """

    data: str = "digits"
    rows: int = 2000
    features: int = 50
    classes: int = 5
    seed: int = 0
    l2: float = 1e-3
    lr: float = 0.1
    momentum: float = 0.9
    decay: float = 1.0
    period: int = 100
    blocks: int = 4

    @cached_property
    def _rows(self) -> Pair:
        """All features, shape (rows, features), and classes from 0 on."""
        if self.data == "synthetic":
            return self._synthetic()
        from sklearn.datasets import load_digits, load_svmlight_file

        if self.data == "digits":
            pixels, labels = load_digits(return_X_y=True)
            features = torch.tensor(pixels / 16.0, dtype=torch.float32)
        else:
            sparse, labels = load_svmlight_file(self.data, zero_based=True)
            features = torch.tensor(sparse.toarray(), dtype=torch.float32)
        # Files may name classes as they like.
        return features, torch.unique(torch.tensor(labels), return_inverse=True)[1]

    def _synthetic(self) -> Pair:
        draw = torch.Generator().manual_seed(self.seed)
        features = torch.randn(self.rows, self.features, generator=draw)
        weights = torch.randn(self.features, self.classes, generator=draw)
        # Scores of variance 4: the classes are neither hopeless nor separable.
        chances = torch.softmax(2 * features @ weights / self.features**0.5, dim=1)
        return features, torch.multinomial(chances, 1, generator=draw).squeeze(1)

    def model(self) -> nn.Module:
        """All weights 0, so that the first loss is log(classes)."""
        features, labels = self._rows
        return Scores(features.shape[1], int(labels.max()) + 1, self.blocks)

    def dataset(self) -> Pair:
        """All rows."""
        return self._rows

    def loss(self, model: nn.Module, batch: Pair) -> Tensor:
        """The objective on a batch."""
        assert isinstance(model, Scores)
        x, y = batch
        return functional.cross_entropy(model(x), y) + self.l2 * model.penalty()

    def optimizer(
        self, named_parameters: Iterable[tuple[str, nn.Parameter]]
    ) -> torch.optim.Optimizer:
        """SGD with Nesterov's momentum, where there is any."""
        nesterov = self.momentum > 0
        return torch.optim.SGD(
            named_parameters, lr=self.lr, momentum=self.momentum, nesterov=nesterov
        )

    def schedule(self, optimizer: torch.optim.Optimizer) -> LRScheduler:
        """A step down every ``period`` rounds."""
        return StepLR(optimizer, step_size=self.period, gamma=self.decay)

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        """The objective on all rows, and the share of rows whose class is found."""
        x, y = self._rows
        right = (model(x).argmax(dim=1) == y).sum().item()
        return {"objective": float(self.loss(model, (x, y))), "accuracy": right / len(y)}
