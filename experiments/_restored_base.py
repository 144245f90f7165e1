"""What apps share whose optimizers, schedules and hooks keep something, each in its own way.

``restored_state.py`` takes their servers away; tests do so for all of them once. ``refused`` is
part of the line that refuses one; without it the parameters and metrics have to be the same.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn, optim
from torch.nn import functional

from warren.apps.protocol import TorchApp


class Base(TorchApp):
    """A small perceptron."""

    refused: ClassVar[str] = ""
    sleep_s: float = 0.0

    def model(self) -> nn.Module:
        """Two layers."""
        return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3))

    def dataset(self) -> tuple[Tensor, Tensor]:
        """Points of three classes."""
        x = torch.randn(120, 8)
        return x, (x.sum(1) > 0).long() + (x[:, 0] > 0.5).long()

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        """Cross entropy."""
        x, y = batch
        time.sleep(self.sleep_s)
        return functional.cross_entropy(model(x.to(next(model.parameters()).dtype)).float(), y)

    def optimizer(self, named_parameters: Any) -> optim.Optimizer:
        """SGD with momentum."""
        return self.steps([one for _, one in named_parameters])

    def steps(self, parameters: list[nn.Parameter]) -> optim.Optimizer:
        """What steps these parameters."""
        return optim.SGD(parameters, lr=0.1, momentum=0.9, fused=False)

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        """Sizes of the weights, and of an average where the app keeps one."""
        kept = getattr(self, "average", None)
        values = kept() if callable(kept) else kept
        if isinstance(values, dict):
            values = list(values.values())
        sizes = {"size": float(sum(one.abs().sum() for one in model.parameters()))}
        return sizes if values is None else {**sizes, "average": size(values)}


def size(values: Any) -> float:
    return float(sum(one.detach().double().abs().sum() for one in values))


@torch.no_grad()
def average(old: list[Tensor], new: list[Tensor]) -> None:
    """Move an average a little."""
    for one, other in zip(old, new, strict=True):
        one.lerp_(other.detach(), 0.2)


def kinds_in(names: Mapping[str, Any]) -> dict[str, type[Base]]:
    """The apps that a file makes, by name."""
    found = [one for one in names.values() if isinstance(one, type) and issubclass(one, Base)]
    own = [one for one in found if one.__module__ == names["__name__"]]
    return {one.__name__: one for one in own if not one.__name__.startswith("_")}
