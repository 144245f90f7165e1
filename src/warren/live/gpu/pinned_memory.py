"""Main memory that is pinned, so that a GPU copies from and to it by itself."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from warren.live.training.memory.shared_memory import MappedMemories
from warren.live.transport.message import SharedSlot

_PORTABLE: Final = 1
"""cudaHostRegisterPortable: pinned for every context of this process."""


@contextlib.contextmanager
def pinned(flat: Tensor) -> Iterator[None]:
    """Pin memory inside; where that is refused, nothing but speed is lost."""
    failed = int(_cudart().cudaHostRegister(flat.data_ptr(), flat.nbytes, _PORTABLE))
    if failed:
        _forget_error()
    try:
        yield
    finally:
        if not failed:
            torch.cuda.synchronize()
            _cudart().cudaHostUnregister(flat.data_ptr())


class PinnedMemories(MappedMemories):
    """Memory that others made, of which each slot is pinned here when it is used first."""

    def __init__(self) -> None:
        super().__init__()
        # By path: the addresses that are pinned, and those where that was refused.
        self._pinned: dict[str, dict[int, bool]] = {}

    def view(self, spot: SharedSlot) -> memoryview:
        """Return the bytes of a slot, as ``MappedMemories.view`` does, in memory that is pinned."""
        bytes_of_slot = super().view(spot)
        address, size = _extent(bytes_of_slot)
        seen = self._pinned.setdefault(spot.path, {})
        if address not in seen:
            failed = int(_cudart().cudaHostRegister(address, size, _PORTABLE))
            seen[address] = not failed
            if failed:  # slower, and no error
                print(
                    f"warren: {size} bytes of memory cannot be pinned ({failed})", file=sys.stderr
                )
                _forget_error()
        return bytes_of_slot

    def _close(self, paths: Iterable[str]) -> None:
        gone = set(paths)
        for path in gone & self._pinned.keys():
            for address, done in self._pinned.pop(path).items():
                if done:
                    _cudart().cudaHostUnregister(address)
        super()._close(gone)


def _forget_error() -> None:
    """Meet the last error of CUDA here, which the next check of a kernel would raise elsewhere."""
    with suppress(RuntimeError):
        torch.zeros(1, device="cuda").add_(1)


def _cudart() -> Any:
    return torch.cuda.cudart()  # type: ignore[no-untyped-call]


def _extent(whole: memoryview) -> tuple[int, int]:
    """Return address and bytes of some memory."""
    array = np.frombuffer(whole, dtype=np.uint8)
    return array.__array_interface__["data"][0], array.nbytes
