"""Gradients clipped by their global norm, to the same bits however many servers hold them.

As ``torch.nn.utils.clip_grad_norm_`` with the Euclidean norm, but that squares are added in double
precision: those of a tensor in its own order, those of tensors in the order of the model. So a
server can say what its tensors contribute, and all come to the same factor.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

import torch
from torch import Tensor

_PIECE: Final = 1 << 18
"""Numbers that are squared at a time: what doubles take of memory stays small."""
_EPSILON: Final = 1e-6


@torch.no_grad()
def square_of(gradient: Tensor | None) -> float:
    """Give the square of a gradient's norm; of none, zero."""
    if gradient is None:
        return 0.0
    flat = gradient.reshape(-1)
    flat = torch.view_as_real(flat).reshape(-1) if flat.is_complex() else flat
    return sum(
        (float(piece.double().square().sum()) for piece in torch.split(flat, _PIECE)), start=0.0
    )


def factor_of(squares: Iterable[float], limit: float) -> float | None:
    """Give what all gradients are multiplied by; None: their norm is within the limit."""
    norm = math.sqrt(sum(squares, start=0.0))
    factor = limit / (norm + _EPSILON)
    return None if factor >= 1 else factor
