"""Values whose content no attribute shows: buffers, C structures, streams, sparse tensors."""

from __future__ import annotations

import ctypes
import io
from typing import Any, ClassVar

import torch
from _restored_base import kinds_in
from _restored_corners import _counting as counting
from _restored_corners import _Hooked as Hooked
from torch import Tensor


class _Bytes(bytearray):
    """A container of bytes of one's own."""


class _Structure(ctypes.Structure):
    _fields_: ClassVar = [("n", ctypes.c_int)]


class _ChangedLater(Hooked):
    """A buffer whose first byte is changed at each step: no attribute shows it."""

    buffer: Any = None

    def number(self) -> Any:
        buffer = self.buffer()

        def count() -> int:
            buffer[0] += 1
            return int(buffer[0])

        return count


class OwnBytes(_ChangedLater):
    refused = "a _Bytes, goes on at each step"
    buffer = staticmethod(lambda: _Bytes(4))


class ViewOfBytes(_ChangedLater):
    refused = "a memoryview, goes on at each step"
    buffer = staticmethod(lambda: memoryview(bytearray(4)))


class CNumbers(_ChangedLater):
    refused = "a c_int_Array_2, goes on at each step"
    buffer = staticmethod(lambda: (ctypes.c_int * 2)())


class CStructure(Hooked):
    refused = "a _Structure, goes on at each step"

    def number(self) -> Any:
        return counting(_Structure())


class TextStream(Hooked):
    refused = "a StringIO, goes on at each step"

    def number(self) -> Any:
        text = io.StringIO()

        def count() -> int:
            text.write(".")
            return len(text.getvalue())

        return count


class SparseConstant(Hooked):
    """A matrix of a graph, which never changes."""

    def number(self) -> Any:
        graph = torch.eye(3).to_sparse()
        return lambda: graph.to_dense().sum()


class SparseChanged(Hooked):
    refused = "holds a Tensor, which a checkpoint cannot keep"

    def number(self) -> Any:
        graph = torch.eye(3).to_sparse()

        def count() -> Tensor:
            graph.add_(torch.eye(3).to_sparse())
            return graph.to_dense()[0, 0]

        return count


BUFFERS = kinds_in(globals())
