"""Batches in memory without a name, which goes from one process to another as a descriptor.

A batch is pickled, but the content of its tensors and arrays lies beside the pickle and is not
copied when the batch is read. The memory ends with its last user, however processes end.
"""

from __future__ import annotations

import functools
import io
import mmap
import operator
import os
import pickle
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from warren.live.training.tensor_layout import raw

_ALIGN: Final = 64
"""Bytes: torch aligns the memory of a tensor so."""


def store(batch: Any) -> int:
    """Put a batch into new memory; return its descriptor.

    Raises
    ------
    Exception
        An object in it cannot be pickled.
    """
    pickled, contents = _pickled(batch)
    parts = [pickled, *contents]
    head = np.array([len(parts), *(part.nbytes for part in parts)], dtype=np.int64)
    places = list(_places(head.nbytes, [part.nbytes for part in parts]))
    size = places.pop()
    fd = os.memfd_create("warren-batch", os.MFD_CLOEXEC)
    try:
        os.ftruncate(fd, size)
        # Not through a mapping: a fault for each page takes longer than the copy.
        for place, part in zip([0, *places], [head.data.cast("B"), *parts], strict=True):
            while part:
                wrote = os.pwrite(fd, part, place)
                part, place = part[wrote:], place + wrote
    except BaseException:
        os.close(fd)
        raise
    return fd


def load(fd: int) -> Any:
    """Return the batch in some memory, and close the descriptor; its tensors keep the memory."""
    try:
        # All of it will be read: one call is faster than a fault for each page.
        memory = mmap.mmap(fd, 0, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE)
    finally:
        os.close(fd)
    whole = memoryview(memory)
    count = int(np.frombuffer(whole[:8], dtype=np.int64)[0])
    head = np.frombuffer(whole[: 8 + 8 * count], dtype=np.int64)
    sizes = [int(one) for one in head[1:]]
    places = list(_places(head.nbytes, sizes))
    pickled, *contents = (
        whole[place : place + size] for place, size in zip(places, sizes, strict=False)
    )
    return pickle.loads(pickled, buffers=contents)  # noqa: S301  # of the same job


def same_contents(one: Any, other: Any) -> bool:
    """Tell whether the tensors and arrays of two batches have the same bytes, in order."""
    return _pickled(one)[1] == _pickled(other)[1]


def _pickled(batch: Any) -> tuple[memoryview, list[memoryview]]:
    contents: list[pickle.PickleBuffer] = []
    file = io.BytesIO()
    _Pickler(file, protocol=5, buffer_callback=contents.append).dump(batch)
    return file.getbuffer(), [one.raw() for one in contents]


def _places(start: int, sizes: Sequence[int]) -> Iterator[int]:
    """Yield the place of each part behind a head of ``start`` bytes, then the end of the last."""
    for size in sizes:
        start = -(-start // _ALIGN) * _ALIGN
        yield start
        start += size
    yield start


class _Pickler(pickle.Pickler):
    """Leaves the content of tensors out of the pickle, and names classes of an app's files."""

    def reducer_override(self, value: Any) -> Any:
        """Say how to make a tensor or a class again; other objects say so themselves."""
        if type(value) is Tensor and _simple(value):
            size, stride = tuple(value.size()), value.stride()
            last = sum((n - 1) * by for n, by in zip(size, stride, strict=True))
            # With its strides, on which kernels depend, and the gaps that these may leave.
            flat = value.as_strided((1 + last if value.numel() else 0,), (1,))
            content = pickle.PickleBuffer(raw(flat.view(torch.uint8)))
            return _tensor, (content, value.dtype, size, stride)
        if isinstance(value, type) and not _importable(value):
            return _class, (value.__module__, value.__qualname__)
        return NotImplemented


def _simple(tensor: Tensor) -> bool:
    """Tell whether a tensor is no more than numbers in main memory."""
    return (
        tensor.layout is torch.strided
        and tensor.is_cpu
        and not (tensor.requires_grad or tensor.is_quantized or tensor.is_conj() or tensor.is_neg())
    )


def _tensor(
    content: Any, dtype: torch.dtype, size: tuple[int, ...], stride: tuple[int, ...]
) -> Tensor:
    if not memoryview(content).nbytes:
        return torch.empty_strided(size, stride, dtype=dtype)
    return torch.frombuffer(content, dtype=dtype).as_strided(size, stride)


def _importable(kind: type) -> bool:
    """Tell whether a class is found by its name, as pickle wants it."""
    try:
        found = operator.attrgetter(kind.__qualname__)(sys.modules[kind.__module__])
    except (KeyError, AttributeError):
        return False
    return found is kind


@functools.cache
def _class(module: str, name: str) -> type:
    """Return a class of an app's file that Python does not know by the name of its module."""
    found = [one for one in _below(object) if (one.__module__, one.__qualname__) == (module, name)]
    if len(found) != 1:
        raise pickle.UnpicklingError(f"class {name} of a batch is found {len(found)} times")
    return found.pop()


def _below(kind: type) -> Iterator[type]:
    """Yield all living classes below a class."""
    # By identity: a metaclass may have a hash or an equality of its own.
    seen: set[int] = set()
    left: list[Any] = [kind]
    while left:
        for one in type.__subclasses__(left.pop()):
            if id(one) not in seen:
                seen.add(id(one))
                left.append(one)
                yield one
