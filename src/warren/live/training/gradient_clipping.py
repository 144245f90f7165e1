"""Clip gradients by their global norm, to the same bits however many servers hold them.

It computes the result of ``torch.nn.utils.clip_grad_norm_`` with the Euclidean norm, but adds
squares in double precision: those of a tensor in its own order, those of tensors in the order of
the model. So a server can state the contribution of its tensors, and all get the same factor.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

import torch
from torch import Tensor

_PIECE: Final = 1 << 18
"""Numbers that are squared at a time, so that their copies as doubles take little memory."""
# The same constant as torch's: it keeps the quotient finite where all gradients are zero.
_EPSILON: Final = 1e-6


@torch.no_grad()
def square_of(gradient: Tensor | None) -> float:
    """Return the square of a gradient's Euclidean norm; 0.0 where there is no gradient."""
    if gradient is None:
        return 0.0
    flat = gradient.reshape(-1)
    # |a + bi|^2 = a^2 + b^2: a complex number counts as two real ones.
    flat = torch.view_as_real(flat).reshape(-1) if flat.is_complex() else flat
    return sum(
        (float(piece.double().square().sum()) for piece in torch.split(flat, _PIECE)), start=0.0
    )


def factor_of(squares: Iterable[float], limit: float) -> float | None:
    """Return the factor limit / (norm + epsilon) of all gradients; None if it is 1 or more."""
    # One fixed order of the sum, that of the tensors in the model, so all servers agree.
    norm = math.sqrt(sum(squares, start=0.0))
    factor = limit / (norm + _EPSILON)
    return None if factor >= 1 else factor
