"""Non-negative matrix factorization, as Cruise and Harmony train it (their app NMF).

*Differs.* Cruise keeps the rows of L at the workers, each with its row of X, so they move where
data move. A task of Warren's keeps nothing: it solves for the rows of L that it needs anew, from a
fixed start in a fixed number of steps, as scikit-learn's ``MiniBatchNMF`` does with
``fresh_restarts`` (in as many as it takes). Cruise's X are ratings of which most are not known;
here X is known, and what a file leaves out is 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from warren.apps.protocol import TorchApp


class ProjectedGradient(torch.optim.Optimizer):
    """Step against the gradient; what would be below 0 becomes 0."""

    def __init__(self, params: Any, *, lr: float) -> None:
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Step each tensor by its own gradient."""
        for group in self.param_groups:
            for tensor in group["params"]:
                if tensor.grad is not None:
                    tensor.copy_((tensor - group["lr"] * tensor.grad).clamp(min=0))


class Factor(nn.Module):
    """R, of shape (rank, columns), in blocks of columns, which as many servers can share."""

    def __init__(self, start: Tensor, blocks: int) -> None:
        super().__init__()
        parts = start.tensor_split(min(blocks, start.shape[1]), dim=1)
        self.columns = nn.ParameterList(part.contiguous() for part in parts)

    def whole(self) -> Tensor:
        """R."""
        return torch.cat(list(self.columns), dim=1)


class Nmf(TorchApp):
    """Minimize ``|X - L R|^2`` over L and R, all of whose numbers are 0 or more; R is the model.

    A task solves for its rows of L by ``inner`` accelerated projected gradient steps from 0. Then
    R's gradient is the mean over these rows of that of ``|x - l R|^2 / 2``, and its row j is
    divided by the sum of row j of ``L'L / rows``. Since L'L has no number below 0, these sums on a
    diagonal are at least L'L (their difference has row sums of 0 and nothing above 0 beside the
    diagonal), so a step with ``lr`` below 2 does not raise the error of the task's rows. A round
    takes the mean of its tasks' steps.

    ``data`` is "digits" (1,797 images of 64 pixels, inside scikit-learn), "synthetic", or the path
    of a file (from where Warren was started) with lines ``ROW: COLUMN,VALUE COLUMN,VALUE ...``.
    Synthetic data are a product of two matrices of ``true_rank``: ``rows`` of exponentially
    distributed numbers of which half are replaced by 0, and ``columns`` of such numbers. ``seed``
    is that of the drawing.
    """

    separable = True
    data: str = "digits"
    rows: int = 500
    columns: int = 100
    true_rank: int = 8
    seed: int = 0
    rank: int = 8
    inner: int = 20
    lr: float = 1.5
    blocks: int = 4

    @cached_property
    def _rows(self) -> Tensor:
        """X, shape (rows, columns)."""
        if self.data == "synthetic":
            draw = torch.Generator().manual_seed(self.seed)
            left = torch.empty(self.rows, self.true_rank).exponential_(generator=draw)
            left *= torch.rand(left.shape, generator=draw) < 0.5
            return left @ torch.empty(self.true_rank, self.columns).exponential_(generator=draw)
        if self.data == "digits":
            from sklearn.datasets import load_digits

            return torch.tensor(load_digits().data, dtype=torch.float32)
        x = _read(Path(self.data).read_text())
        if x.min() < 0:
            raise ValueError(f"{self.data} has values below 0")
        return x

    def model(self) -> nn.Module:
        """R, drawn evenly, such that L R has about the mean of X for an L of the same size."""
        start = torch.rand(self.rank, self._rows.shape[1])
        return Factor(start * 2 * (self._rows.mean() / self.rank).sqrt(), self.blocks)

    def dataset(self) -> Tensor:
        """The rows of X."""
        return self._rows

    def loss(self, model: nn.Module, batch: Tensor) -> Tensor:
        """The mean of ``|x - l R|^2 / 2``, with the gradient that the class describes."""
        assert isinstance(model, Factor)
        r = model.whole()
        with torch.no_grad():
            left = self._left(batch, r)
            rest = left @ r - batch
            value = rest.square().sum() / (2 * len(batch))
            # Where nothing uses a row of R, its gradient is 0, and so is its sum.
            sums = (left.T @ left).sum(dim=1, keepdim=True).clamp(min=1e-30)
            gradient = left.T @ rest / sums
        # A sum of products has its other factors as gradient, to the bit.
        product = (r * gradient).sum()
        return value + (product - product.detach())

    def _left(self, x: Tensor, r: Tensor) -> Tensor:
        """L for rows of X: FISTA with a bound a coordinate, by the same argument as R's step."""
        gram, cross = r @ r.T, x @ r.T
        sums = gram.sum(dim=1).clamp(min=1e-30)
        left = ahead = torch.zeros_like(cross)
        t = 1.0
        for _ in range(self.inner):
            before, left = left, (ahead - (ahead @ gram - cross) / sums).clamp(min=0)
            last, t = t, (1 + (1 + 4 * t * t) ** 0.5) / 2
            ahead = left + (last - 1) / t * (left - before)
        return left

    def optimizer(
        self, named_parameters: Iterable[tuple[str, nn.Parameter]]
    ) -> torch.optim.Optimizer:
        """Projected gradient steps."""
        return ProjectedGradient(named_parameters, lr=self.lr)

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        """The norm of X - L R as a part of the norm of X, with L solved for as in a task."""
        assert isinstance(model, Factor)
        r = model.whole()
        rest = self._rows - self._left(self._rows, r) @ r
        return {"error": float(rest.norm() / self._rows.norm())}


def _read(text: str) -> Tensor:
    """Rows in the order of their lines; columns that no line names are left out."""
    lines = [line.partition(":")[2].split() for line in text.splitlines() if line[:1].isdigit()]
    cells = [(row, *map(float, cell.split(","))) for row, line in enumerate(lines) for cell in line]
    row, column, value = torch.tensor(cells).T
    names, at = torch.unique(column, return_inverse=True)
    x = torch.zeros(len(lines), len(names))
    x[row.long(), at] = value
    return x
