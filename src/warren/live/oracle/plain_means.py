"""The means of a barrier, as the plain loop takes them: in the order of servers, or of a ring."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn

from warren.live.rings.gradient_mean import RingMeans
from warren.live.training.tensor_layout import Layout
from warren.model.job import Job

Gradients = Mapping[str, Tensor | None]
Buffers = Mapping[str, Tensor]
Combine = Callable[
    [Sequence[Gradients], Sequence[Buffers]], tuple[dict[str, Tensor | None], dict[str, Tensor]]
]
"""Gradients and buffers of all shards, by name, become those of the round."""


def in_shard_order(
    gradients: Sequence[Gradients], buffers: Sequence[Buffers]
) -> tuple[dict[str, Tensor | None], dict[str, Tensor]]:
    """What servers do: (g_0 + g_1 + ...) / shards, each tensor by itself."""
    means = {name: _combine([one[name] for one in gradients]) for name in gradients[0]}
    return means, {name: _average([one[name] for one in buffers]) for name in buffers[0]}


def in_ring_order(model: nn.Module, job: Job) -> Combine:
    """What a ring does: all tensors of a type as one, each piece in an order of its own.

    Raises
    ------
    SpecError
        A tensor of the model is of a type that a ring cannot add.
    """
    layout = Layout.of(model)
    means = RingMeans(layout, job)

    def combine(
        gradients: Sequence[Gradients], buffers: Sequence[Buffers]
    ) -> tuple[dict[str, Tensor | None], dict[str, Tensor]]:
        updates = [_update(layout, *one) for one in zip(gradients, buffers, strict=True)]
        found = layout.views(means.of(updates))
        absent = {name for name in gradients[0] if all(one[name] is None for one in gradients)}
        mean = {name: None if name in absent else found[name].clone() for name in gradients[0]}
        return mean, {name: found[name] for name in buffers[0]}

    return combine


def _combine(gradients: Sequence[Tensor | None]) -> Tensor | None:
    """The mean in shard order; None counts as zero, unless it is None on all shards."""
    given = [gradient for gradient in gradients if gradient is not None]
    if not given:
        return None
    first, *rest = (torch.zeros_like(given[0]) if g is None else g for g in gradients)
    for gradient in rest:
        first = first + gradient
    return first / len(gradients)


def _average(buffers: Sequence[Tensor]) -> Tensor:
    """The mean in shard order of a float buffer; an integer one is that of shard 0."""
    first = buffers[0]
    if not (first.is_floating_point() or first.is_complex()):
        return first
    return sum(buffers[1:], start=first) / len(buffers)


@torch.no_grad()
def _update(layout: Layout, gradients: Gradients, buffers: Buffers) -> Tensor:
    """A shard's update as its trainer would have made it, shape (bytes,)."""
    flat = torch.zeros(layout.total_bytes, dtype=torch.uint8)
    for name, view in layout.views(flat).items():
        value = gradients[name] if name in gradients else buffers[name]
        if value is not None:
            view.copy_(value)
    return flat
