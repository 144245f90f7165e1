"""Move each gradient to its place in the update as soon as a backward pass has it.

So of a model on disk one gradient is in memory at a time, and not all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor, nn

from warren.live.training.memory.disk_memory import DiskMemory
from warren.live.training.tensor_layout import tensors


class GradientsOnDisk:
    """The gradients of one model. ``targets``: places in the update, in the order of the layout."""

    def __init__(self, model: nn.Module, disk: DiskMemory) -> None:
        self._disk = disk
        self.targets: Sequence[Tensor] = ()
        for at, tensor in enumerate(tensors(model).values()):
            if isinstance(tensor, nn.Parameter) and tensor.requires_grad and disk.holds(tensor):
                move = partial(self._move, at)
                tensor.register_post_accumulate_grad_hook(move)  # type: ignore[no-untyped-call]

    @torch.no_grad()
    def _move(self, at: int, parameter: Tensor) -> None:
        """Exchange a gradient for an equal one in its place; a later part is added to it there."""
        gradient, target = parameter.grad, self.targets[at]
        if gradient is None or gradient.data_ptr() == target.data_ptr():
            return
        alike = (gradient.shape, gradient.dtype) == (target.shape, target.dtype)
        # With other strides a kernel may add in another order.
        if alike and gradient.is_contiguous() and gradient.layout is torch.strided:
            target.copy_(gradient)
            parameter.grad = target.detach()
            self._disk.breathe()
