"""Apps that behave badly with what is not theirs to keep: processes and files."""

from __future__ import annotations

import subprocess
import tempfile

from torch import Tensor, nn

from warren.apps.protocol import TorchApp


class Litters(TorchApp):
    """Leaves a sleeping process, in its own session, and a folder with every model it builds."""

    def model(self) -> nn.Module:
        """One layer, and the litter."""
        subprocess.Popen(["sleep", "600"], start_new_session=True)
        tempfile.mkdtemp(prefix="litter-")
        return nn.Linear(8, 1)

    def dataset(self) -> tuple[Tensor, Tensor]:
        """A line."""
        import torch

        x = torch.randn(128, 8)
        return x, x.sum(1, keepdim=True)

    def loss(self, model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        """Mean square."""
        x, y = batch
        error: Tensor = model(x) - y
        return error.square().mean()
