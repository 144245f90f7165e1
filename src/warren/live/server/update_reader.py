"""Updates that lie in an executor's memory, copied into memory of the server that steps by them.

The executor may then use its memory again, long before the round is complete.
"""

from __future__ import annotations

from itertools import accumulate

from warren.live.training.block_ownership import Ranges
from warren.live.training.memory.shared_arena import ALIGN_BYTES
from warren.live.training.memory.shared_memory import LentMemory, MappedMemories
from warren.live.transport.message import SharedSlot


class UpdateReader:
    """A reader of a server's part, ``ranges`` (begin, end) in bytes, from whole updates.

    It makes as many copies as are held at once; their memory is used again.
    """

    def __init__(self, ranges: Ranges) -> None:
        self._ranges = ranges
        self._windows = MappedMemories()
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
            place = LentMemory(self._total_bytes)
            self._places.append(place)
        whole, pieces = place.lend(), []
        for start, source in zip(self._starts, update, strict=True):
            piece = whole[start : start + source.nbytes]
            piece[:] = source
            pieces.append(piece)
        return pieces
