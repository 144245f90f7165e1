"""A planted fault: an app whose tasks depend on how many its process has computed before.

It says that they do not (``scratch``), so that only computing a task again can show it.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from warren.apps.protocol import TorchApp


class Counts(TorchApp):
    """The gradient of the last bias, and of nothing else, grows with a count in the process."""

    computed: ClassVar[int] = 0
    scratch: ClassVar[tuple[str, ...]] = ("Counts.computed",)

    def model(self) -> nn.Module:
        """Two layers."""
        return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))

    def dataset(self) -> tuple[Tensor, Tensor]:
        """A line with noise."""
        x = torch.randn(256, 4)
        return x, x.sum(1, keepdim=True)

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        """Mean square, and the fault."""
        type(self).computed += 1
        x, y = batch
        bias = model.get_parameter("2.bias")
        return functional.mse_loss(model(x), y) + 1e-4 * self.computed * bias.sum()
