"""Hash an update where it lies on a device, so that only some bytes of it come to main memory.

The words of an entry are multiplied by odd numbers and added modulo 2**64 in rows, the rows are
mixed, multiplied by a number of their place and added. Whole numbers have no rounding, so the order
in which a device adds them does not matter. As the hash of updates in main memory
(``training.task_hashes``) it guards against accidents, not against malice.
"""

from __future__ import annotations

import struct
from typing import Final

import torch
from torch import Tensor

from warren.live.training.memory.shared_arena import ALIGN_BYTES
from warren.live.training.task_hashes import mark_of, packed_marks
from warren.live.training.tensor_layout import Layout

_WORDS: Final = ALIGN_BYTES // 4
"""Words of 32 bits in a row: every entry begins with a row."""
_CHUNK_ROWS: Final = 1 << 20
"""Rows that are multiplied at a time, so that products take little memory."""
_FIRST: Final = 0x2545F4914F6CDD1D
_SECOND: Final = 0x9E3779B97F4A7C15
_MODULUS: Final = 1 << 64


class DeviceHashes:
    """The hashes of the entries of one layout, computed on a device."""

    def __init__(self, layout: Layout, device: torch.device) -> None:
        self._rows = layout.total_bytes // ALIGN_BYTES
        words = [_signed(_FIRST * (2 * at + 1) | 1) for at in range(_WORDS)]
        self._words = torch.tensor(words, dtype=torch.int64, device=device)
        places = torch.arange(self._rows, dtype=torch.int64, device=device)
        self._places = places.mul_(2).add_(1).mul_(_signed(_SECOND))
        begins = [entry.offset // ALIGN_BYTES for entry in layout.entries]
        ends = [-(-(entry.offset + entry.nbytes) // ALIGN_BYTES) for entry in layout.entries]
        self._begins = torch.tensor(begins, dtype=torch.int64, device=device)
        self._ends = torch.tensor(ends, dtype=torch.int64, device=device)
        # ``sums[at]``: the sum of all rows before row ``at``.
        self._sums = torch.zeros(self._rows + 1, dtype=torch.int64, device=device)

    @torch.no_grad()
    def of(self, flat: Tensor) -> Tensor:
        """Return the hash of each entry, shape (entries,), int64, of a flat update."""
        rows = flat.view(torch.int32).view(self._rows, _WORDS)
        found = self._sums[1:]
        for begin in range(0, self._rows, _CHUNK_ROWS):
            part = rows[begin : begin + _CHUNK_ROWS]
            torch.sum(part * self._words, 1, out=found[begin : begin + _CHUNK_ROWS])
        # A shift keeps the sign; any function of the whole row that mixes high bits into low ones
        # serves.
        found.bitwise_xor_(found >> 29).mul_(self._places)
        torch.cumsum(found, 0, out=found)
        return self._sums[self._ends] - self._sums[self._begins]


def reading_of(loss: Tensor, hashes: Tensor) -> Tensor:
    """Return loss and hashes as one tensor of whole numbers, for one copy to main memory."""
    value = loss.detach().reshape(1).to(torch.float64).view(torch.int64)
    return torch.cat([value, hashes])


def read(reading: Tensor, present: bytes) -> tuple[float, bytes]:
    """Return the loss, and the marks of an update as ``task_hashes.marks_of`` packs them.

    ``reading``: of ``reading_of``, in main memory.
    """
    first, *hashes = reading.tolist()
    (loss,) = struct.unpack("<d", struct.pack("<q", first))
    marks = [mark_of(struct.pack("<d", loss) + present)]
    marks += [((one >> 32) ^ one) & 0xFFFFFFFF for one in hashes]
    return loss, packed_marks(marks)


def _signed(number: int) -> int:
    number %= _MODULUS
    return number - _MODULUS if number >= _MODULUS // 2 else number
