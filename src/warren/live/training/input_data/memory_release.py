"""Give the memory of a dataset back, though an app keeps the dataset's tensors."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, UntypedStorage
from torch.multiprocessing.reductions import StorageWeakRef

from warren.live.training.input_data.spilled_data import SpilledData


def let_go(data: SpilledData) -> bool:
    """Replace the memory of spilled tensors by mappings of their file; tell whether any is free.

    The tensors stay the same objects. If something else holds their memory, for example other
    tensors that are views of it, they are left unchanged.
    """
    parts, data.spilled = data.spilled, []
    refs: list[Any] = [
        StorageWeakRef(part.untyped_storage())  # type: ignore[no-untyped-call]
        for part in parts
    ]
    before = []
    for at, (part, mapped) in enumerate(zip(parts, data.file.mapped(), strict=True)):
        for tensor, other in ((part, mapped), *_base(part, mapped)):
            before.append((at, tensor, tensor.storage_offset(), tensor.shape, tensor.stride()))
            tensor.data = other
    if any(ref.expired() for ref in refs):
        return True
    for at, tensor, offset, shape, stride in before:
        storage = UntypedStorage._new_with_weak_ptr(refs[at].cdata)
        empty = torch.empty(0, dtype=tensor.dtype)
        tensor.data = empty.set_(storage, offset, shape, stride)
    return False


def _base(part: Tensor, mapped: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the tensor that a view was made from, which it keeps for ever, and its replacement."""
    base = part._base
    if base is None:
        return
    reshaped = (base.dtype, base.nbytes, base.data_ptr()) == (
        part.dtype,
        part.nbytes,
        part.data_ptr(),
    )
    if reshaped and base.is_contiguous():
        yield base, mapped.view(base.shape)
    elif sys.getrefcount(base) == _references_of_none():  # no other code can see its content
        yield base, torch.empty(0, dtype=base.dtype)


def _references_of_none() -> int:
    """Return the number of references to a view's base here, if no other name holds it.

    The number of the library's own references depends on its version.
    """
    part = torch.empty(2)[:1]
    base = part._base
    return sys.getrefcount(base)
