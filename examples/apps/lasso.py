"""Lasso regression by proximal gradient steps, as Harmony trains it (its app Lasso).

Data are dense here: the 100,000 sparse features of Cruise's own workload would not fit.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LRScheduler, StepLR

from warren.apps.protocol import TorchApp

Pair = tuple[Tensor, Tensor]


class ProximalGradient(torch.optim.Optimizer):
    """Step against the gradient, then move every number by ``lr * l1`` towards 0 (or to it).

    ``accelerated``: FISTA (Beck and Teboulle 2009, (4.1)-(4.3)), for gradients without noise. The
    parameters are then its extrapolated points, at which gradients are wanted next.
    """

    def __init__(self, params: Any, *, lr: float, l1: float, accelerated: bool) -> None:
        super().__init__(params, {"lr": lr, "l1": l1, "accelerated": accelerated})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Step each tensor by its own gradient and state."""
        for group in self.param_groups:
            for point in group["params"]:
                if point.grad is None:
                    continue
                moved = point - group["lr"] * point.grad
                found = moved.sign() * (moved.abs() - group["lr"] * group["l1"]).clamp(min=0)
                if group["accelerated"]:
                    point.copy_(self._extrapolated(point, found))
                else:
                    point.copy_(found)

    def _extrapolated(self, point: Tensor, found: Tensor) -> Tensor:
        state = self.state[point]
        t, before = state.get("t", 1.0), state.get("found", found)
        state["t"], state["found"] = (1 + (1 + 4 * t * t) ** 0.5) / 2, found
        # At the first step t - 1 is 0, whatever stands for the step before.
        ahead: Tensor = found + (t - 1) / state["t"] * (found - before)
        return ahead


class Line(nn.Module):
    """Coefficients in blocks, all 0; as many servers can share them as there are blocks."""

    def __init__(self, features: int, blocks: int) -> None:
        super().__init__()
        parts = torch.zeros(features).tensor_split(min(blocks, features))
        self.coefficients = nn.ParameterList(part.clone() for part in parts)

    def whole(self) -> Tensor:
        """All coefficients, shape (features,)."""
        return torch.cat(list(self.coefficients))


class Lasso(TorchApp):
    """Minimize ``|y - X b|^2 / (2 n) + l1 |b|_1`` over b, where n is the number of rows.

    ``data`` is "diabetes" (442 rows of 10 features, inside scikit-learn), "synthetic", or the path
    of a libsvm file (from where Warren was started), whose features are counted from 0. Of
    synthetic data the ``features`` are standard normal, as ``nonzero`` coefficients at drawn places
    are, the others are 0; the noise of y has a tenth of its variance. ``seed`` is that of the
    drawing. All columns and y are shifted and scaled to mean 0 and variance 1: there is no
    intercept, and no b but 0 where ``l1`` is 1.

    ``lr`` counts in steps of 1 / L, where L is the largest eigenvalue of X'X / n: with all rows in
    a round, steps of 1 never raise the objective. It is multiplied by ``decay`` every ``period``
    rounds.
    """

    separable = True
    data: str = "diabetes"
    rows: int = 1000
    features: int = 100
    nonzero: int = 10
    seed: int = 0
    l1: float = 0.05
    lr: float = 1.0
    decay: float = 1.0
    period: int = 100
    accelerated: bool = False
    blocks: int = 4

    @cached_property
    def _rows(self) -> Pair:
        """Scaled features, shape (rows, features), and y."""
        x, y = self._read()
        # A column that never changes stays 0.
        spread = x.std(dim=0, correction=0)
        x = (x - x.mean(dim=0)) / torch.where(spread > 0, spread, 1)
        y = (y - y.mean()) / y.std(correction=0)
        return x.float(), y.float()

    def _read(self) -> Pair:
        if self.data == "synthetic":
            return self._synthetic()
        from sklearn.datasets import load_diabetes, load_svmlight_file

        if self.data == "diabetes":
            features, y = load_diabetes(return_X_y=True)
        else:
            sparse, y = load_svmlight_file(self.data, zero_based=True)
            features = sparse.toarray()
        return torch.tensor(features), torch.tensor(y)

    def _synthetic(self) -> Pair:
        draw = torch.Generator().manual_seed(self.seed)
        x = torch.randn(self.rows, self.features, generator=draw)
        places = torch.randperm(self.features, generator=draw)[: self.nonzero]
        y = x[:, places] @ torch.randn(len(places), generator=draw)
        return x, y + torch.randn(self.rows, generator=draw) * y.std() / 3

    def model(self) -> nn.Module:
        """One coefficient a feature."""
        return Line(self._rows[0].shape[1], self.blocks)

    def dataset(self) -> Pair:
        """All rows."""
        return self._rows

    def loss(self, model: nn.Module, batch: Pair) -> Tensor:
        """The objective on a batch, of which the gradient is that of the squares alone."""
        assert isinstance(model, Line)
        x, y = batch
        b = model.whole()
        return (y - x @ b).square().mean() / 2 + self.l1 * b.detach().abs().sum()

    def optimizer(
        self, named_parameters: Iterable[tuple[str, nn.Parameter]]
    ) -> torch.optim.Optimizer:
        """Proximal gradient steps."""
        return ProximalGradient(
            named_parameters,
            lr=self.lr / self._curvature(),
            l1=self.l1,
            accelerated=self.accelerated,
        )

    def _curvature(self) -> float:
        """L, by power iteration, which comes to it from below: five per cent are added."""
        x, _ = self._rows
        v = torch.randn(x.shape[1], generator=torch.Generator().manual_seed(0))
        for _ in range(50):
            v = x.T @ (x @ (v / v.norm())) / len(x)
        return 1.05 * float(v.norm())

    def schedule(self, optimizer: torch.optim.Optimizer) -> LRScheduler:
        """A step down every ``period`` rounds."""
        return StepLR(optimizer, step_size=self.period, gamma=self.decay)

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        """The objective on all rows, and how many coefficients are not 0."""
        assert isinstance(model, Line)
        nonzero = float((model.whole() != 0).sum())
        return {"objective": float(self.loss(model, self._rows)), "nonzero": nonzero}
