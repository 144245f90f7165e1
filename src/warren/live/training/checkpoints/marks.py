"""Marks by which values that a barrier may change in place are compared."""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor
from xxhash import xxh3_64_intdigest

from warren.live.training.isolation.kept_values import GENERATORS, PLAIN, content

LEAVES: Final = (Tensor, np.ndarray, *GENERATORS)
_HASHED_BYTES: Final = 1 << 26
"""Size above which a tensor or an array is compared by a sample of its elements."""
_SAMPLES: Final = 1 << 20


def mark(value: Any) -> object:
    """Return a mark that differs once the content of a leaf, or of an unentered object, changes."""
    if isinstance(value, Tensor) and value.layout is not torch.strided:
        return tuple(map(content, _parts_of_sparse(value)))
    if isinstance(value, Tensor) and value.nbytes > _HASHED_BYTES:
        sample = value.detach().reshape(-1)[:: 1 + value.numel() // _SAMPLES]
        version = 0 if value.is_inference() else value._version
        return value.data_ptr(), version, content(sample.contiguous())
    if isinstance(value, np.ndarray) and value.nbytes > _HASHED_BYTES:
        return value.shape, content(value.reshape(-1)[:: 1 + value.size // _SAMPLES])
    if isinstance(value, set | frozenset):
        return len(value), frozenset(map(repr, value))
    if isinstance(value, io.StringIO | io.BytesIO):
        return type(value), value.tell(), value.getvalue()
    if isinstance(value, (*LEAVES, Iterator)):
        return content(value)
    # Of an object that is not entered, this tells whether it has changed; it is not saved so.
    if (buffer := buffer_of(value)) is not None:
        return type(value), mark(buffer)
    try:
        return type(value), xxh3_64_intdigest(pickle.dumps(value, protocol=4))
    except Exception:  # objects may refuse in any way
        return type(value)


def _parts_of_sparse(value: Tensor) -> Iterator[Tensor]:
    """Yield the tensors in which a tensor that is not dense has its numbers."""
    found = value.detach()
    if found.layout is torch.sparse_coo:
        yield from (found._indices(), found._values())
    elif found.layout in (torch.sparse_csr, torch.sparse_bsr):
        yield from (found.crow_indices(), found.col_indices(), found.values())


def buffer_of(value: Any) -> np.ndarray[Any, np.dtype[np.uint8]] | None:
    """Return the bytes of a buffer, such as a ``bytearray``, an ``array`` or a C structure."""
    try:
        return None if isinstance(value, LEAVES) else np.frombuffer(value, np.uint8)
    except Exception:  # it is none, or its class refuses in some way
        return None


def outline(value: Any) -> int:
    """Return a number that differs once a long container has other items."""
    items = [*value, *value.values()] if isinstance(value, dict) else value
    return hash(tuple(repr(one) if isinstance(one, PLAIN) else id(one) for one in items))
