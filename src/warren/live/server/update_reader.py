"""Updates that lie in an executor's memory, copied into memory of the server that steps by them.

The executor may then use its memory again, long before the round is complete.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Final

from warren.live.training.block_ownership import Ranges
from warren.live.training.memory.disk_memory import DiskMemory
from warren.live.training.memory.shared_arena import ALIGN_BYTES
from warren.live.training.memory.shared_memory import LentMemory, MappedMemories
from warren.live.transport.message import SharedSlot

_PIECE_BYTES: Final = 1 << 23
"""Bytes of an update on disk that are copied at a time."""


class UpdateReader:
    """A reader of a server's part, ``ranges`` (begin, end) in bytes, from whole updates.

    It makes as many copies as are held at once; their memory is used again. ``disk``: where they
    lie; None: in main memory.
    """

    def __init__(self, ranges: Ranges, disk: DiskMemory | None = None) -> None:
        self._ranges = ranges
        self._disk = disk
        self._windows = MappedMemories(disk=disk)
        self._places: list[LentMemory] = []
        # In a copy every piece begins at a multiple of ALIGN_BYTES, as tensors do in an update.
        padded = (-(-(end - begin) // ALIGN_BYTES) * ALIGN_BYTES for begin, end in ranges)
        *self._starts, self._total_bytes = accumulate(padded, initial=0)

    def look(self, spot: SharedSlot) -> list[memoryview] | None:
        """Return the pieces in their place, for a step that is made before any acknowledgement.

        None: the executor is gone.
        """
        update = self._windows.look(spot)
        return None if update is None else [update[begin:end] for begin, end in self._ranges]

    def fetch(self, spot: SharedSlot) -> list[memoryview] | None:
        """Return copies, one piece a range.

        None: the executor is gone, and its task will run again.
        """
        update = self.look(spot)
        if update is None:
            return None
        place = next((place for place in self._places if place.free), None)
        if place is None:
            place = LentMemory(self._total_bytes, disk=self._disk)
            self._places.append(place)
        whole, pieces = place.lend(), []
        for start, source in zip(self._starts, update, strict=True):
            piece = whole[start : start + source.nbytes]
            self._copy(piece, source)
            pieces.append(piece)
        return pieces

    def _copy(self, piece: memoryview, source: memoryview) -> None:
        if self._disk is None:
            piece[:] = source
            return
        for at in range(0, len(piece), _PIECE_BYTES):
            piece[at : at + _PIECE_BYTES] = source[at : at + _PIECE_BYTES]
            self._disk.breathe()
