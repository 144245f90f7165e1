"""Clip gradients by their global norm, to the same bits however many servers hold them.

It computes the result of ``torch.nn.utils.clip_grad_norm_`` with the Euclidean norm, but adds
squares in double precision: those of a tensor in its own order, those of tensors in the order of
the model. So a server can state the contribution of its tensors, and all get the same factor.
On a GPU the order within a piece of a tensor is that of the GPU's sum.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

import torch
from torch import Tensor

_PIECE: Final = 1 << 18
"""Numbers that are squared at a time, so that their copies as doubles take little memory."""
_PIECE_ON_DEVICE: Final = 1 << 24
"""The same on a GPU, where each piece costs some microseconds."""
# The same constant as torch's: it keeps the quotient finite where all gradients are zero.
_EPSILON: Final = 1e-6


@torch.no_grad()
def squares_of(gradients: Iterable[Tensor | None]) -> tuple[float, ...]:
    """Return the square of the Euclidean norm of each gradient; 0.0 where there is none.

    Of gradients on a device, the sums of all pieces are copied to main memory at once.
    """
    sums = [[] if one is None else _sums_of(one) for one in gradients]
    there = [piece for pieces in sums for piece in pieces if not piece.is_cpu]
    found = iter(torch.stack(there).tolist() if there else ())
    return tuple(
        sum((float(one) if one.is_cpu else next(found) for one in pieces), start=0.0)
        for pieces in sums
    )


def _sums_of(gradient: Tensor) -> list[Tensor]:
    """Return the sum of squares of each piece of a gradient, in order, where the gradient is."""
    flat = gradient.reshape(-1)
    # |a + bi|^2 = a^2 + b^2: a complex number counts as two real ones.
    flat = torch.view_as_real(flat).reshape(-1) if flat.is_complex() else flat
    pieces = torch.split(flat, _PIECE if flat.is_cpu else _PIECE_ON_DEVICE)
    return [piece.double().square().sum() for piece in pieces]


def factor_of(squares: Iterable[float], limit: float) -> float | None:
    """Return the factor limit / (norm + epsilon) of all gradients; None if it is 1 or more."""
    # One fixed order of the sum, that of the tensors in the model, so all servers agree.
    norm = math.sqrt(sum(squares, start=0.0))
    factor = limit / (norm + _EPSILON)
    return None if factor >= 1 else factor
