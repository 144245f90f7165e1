"""Tensors that leave a device for main memory, and come back to it.

A job does so where another job needs the memory of its device. The memory of storages is given back
and asked for again, so every tensor and every view of them stays the same object.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(slots=True)
class _Piece:
    """A storage that has left; ``host``: its bytes, None if they are not needed."""

    storage: torch.UntypedStorage
    nbytes: int
    host: Tensor | None


class Offload:
    """Brings the tensors of one process out of a device, and back."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._pieces: list[_Piece] = []
        self._memory = torch.empty(0, dtype=torch.uint8)
        cuda = device.type == "cuda"
        self._stream = torch.cuda.Stream(device) if cuda else None  # type: ignore[no-untyped-call]

    @property
    def away(self) -> bool:
        """Tell whether the tensors are in main memory."""
        return bool(self._pieces)

    @torch.no_grad()
    def leave(self, tensors: Iterable[Tensor], empty: Iterable[Tensor] = ()) -> None:
        """Copy tensors of the device into main memory, and give their memory back.

        ``empty``: the contents of these are not needed, only their memory when they come back.
        """
        if self.away:
            return
        kept, rest = self._storages(tensors), self._storages(empty)
        found = {at: one for at, one in rest.items() if at not in kept}
        size = sum(_padded(one.nbytes()) for one in kept.values())
        if self._memory.numel() < size:
            cuda = self._device.type == "cuda"
            self._memory = torch.empty(size, dtype=torch.uint8, pin_memory=cuda)
        pieces, begin = [], 0
        for storage in kept.values():
            host = self._memory[begin : begin + storage.nbytes()]
            begin += _padded(storage.nbytes())
            pieces.append(_Piece(storage, storage.nbytes(), host))
        pieces += [_Piece(one, one.nbytes(), None) for one in found.values()]
        self._copy([(one.host, _bytes_of(one.storage)) for one in pieces if one.host is not None])
        if self._stream is not None:
            self._stream.synchronize()
        for one in pieces:
            one.storage.resize_(0)
        self._pieces = pieces
        if self._device.type == "cuda":
            torch.cuda.empty_cache()

    @torch.no_grad()
    def come_back(self) -> None:
        """Begin to copy the tensors back; all that the device is asked for later waits for them."""
        pieces, self._pieces = self._pieces, []
        for one in pieces:
            one.storage.resize_(one.nbytes)
        self._copy([(_bytes_of(one.storage), one.host) for one in pieces if one.host is not None])
        if self._stream is not None:
            torch.cuda.current_stream(self._device).wait_stream(self._stream)

    def _storages(self, tensors: Iterable[Tensor]) -> dict[int, torch.UntypedStorage]:
        """Return the storages of the device that can give their memory back, each once."""
        found = (one.untyped_storage() for one in tensors if one.device == self._device)
        return {one.data_ptr(): one for one in found if one.nbytes() and one.resizable()}

    def _copy(self, pairs: list[tuple[Tensor, Tensor]]) -> None:
        """Copy the second tensor of each pair into the first, after all that was asked before."""
        if self._stream is None:
            for target, source in pairs:
                target.copy_(source)
            return
        self._stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._stream):
            for target, source in pairs:
                target.copy_(source, non_blocking=True)


def _bytes_of(storage: torch.UntypedStorage) -> Tensor:
    """Return all bytes of a storage."""
    whole = torch.empty(0, dtype=torch.uint8, device=storage.device)
    return whole.set_(storage)


def _padded(nbytes: int) -> int:
    return -(-nbytes // 512) * 512
