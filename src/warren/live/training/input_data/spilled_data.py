"""A dataset of plain tensors of which some blocks are in memory; all of it is on disk.

Harmony's disk-blocks and memory-blocks (4.3.3): a block is some consecutive items. An order of
samples is a permutation, so all blocks are used alike, and the first ones are those in memory. Data
never change: a block is spilled by forgetting it, and the share on disk (alpha) can change at any
moment without writing a byte.
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from warren.live.training.input_data.spill_file import Row, Rows, SpillFile, bytes_of
from warren.model.costs import IntArray

BLOCK_BYTES: Final = 1 << 18
_BLOCKS_MOST: Final = 1 << 13
"""A block in memory is a mapping of its own, of which a process may have 65,530."""
_SMALL: Final = 64
"""Tensors of at most one part in this number of all data stay in memory: a read for each of their
rows would cost as much as one of a large row."""
_SPILLED_FROM_BYTES: Final = 1 << 20
"""Smaller datasets stay as they are: they hold less than reading ahead would take."""


class SpilledData:
    """The items of a dataset, from memory and disk.

    Parameters
    ----------
    dataset : Tensor, dict, list or tuple of Tensor
        Data that ``can_spill``. Their memory may be released afterwards.
    folder : str
        The folder of the file.
    block_bytes : int
        Approximate size of a block.

    Raises
    ------
    InputDataError
        The file cannot be written.
    """

    def __init__(self, dataset: Any, folder: str, block_bytes: int = BLOCK_BYTES) -> None:
        parts = parts_of(dataset)
        # The names of a dict; None for a single tensor, numbers for several.
        self._names = list(dataset) if isinstance(dataset, dict) else None
        self._single = isinstance(dataset, Tensor)
        least_bytes = sum(part.nbytes for part in parts) // _SMALL
        # Of each tensor itself where it stays in memory; else None.
        self._kept = [part if part.nbytes <= least_bytes else None for part in parts]
        self.spilled = [part for part in parts if part.nbytes > least_bytes]
        """The tensors that are on disk; all others, such as labels, are small."""
        self._like = [(part.dtype, part.shape[1:]) for part in self.spilled]
        self.file = SpillFile(self.spilled, folder)
        self.total_bytes = self.file.item_bytes * self.file.items
        least = max(block_bytes, self.total_bytes // _BLOCKS_MOST)
        self._block_items = max(1, least // self.file.item_bytes)
        self.blocks = -(-self.file.items // self._block_items)
        self._blocks: list[Rows] = []

    @property
    def block_bytes(self) -> int:
        """Return the bytes of a block in memory; only the last one may have fewer."""
        return self._block_items * self.file.item_bytes

    @property
    def held_bytes(self) -> int:
        """Return the bytes of all blocks that are in memory."""
        held = min(len(self._blocks) * self._block_items, self.file.items)
        return held * self.file.item_bytes

    def whole_blocks(self, most_bytes: int) -> int:
        """Return the bytes of as many whole blocks as ``most_bytes`` have place for."""
        if most_bytes >= self.total_bytes:
            return self.total_bytes
        return max(0, most_bytes // self.block_bytes) * self.block_bytes

    def resize(self, most_bytes: int) -> None:
        """Keep as many blocks in memory as ``most_bytes`` have place for.

        Raises
        ------
        InputDataError
            A block that is to come to memory cannot be read.
        """
        count = self.blocks if most_bytes >= self.total_bytes else most_bytes // self.block_bytes
        del self._blocks[max(0, count) :]
        while len(self._blocks) < count:
            self._blocks.append(self._loaded(len(self._blocks)))

    def gather(self, items: IntArray) -> Any:
        """Return these items as indexing the dataset does: the same types, strides and bits.

        Raises
        ------
        InputDataError
            Items cannot be read from disk, or were changed.
        """
        whole = [
            torch.empty((len(items), *shape), dtype=dtype, device="cpu")
            for dtype, shape in self._like
        ]
        rows = [bytes_of(part) for part in whole]
        cold = []
        for at, item in enumerate(items.tolist()):
            block, inside = divmod(item, self._block_items)
            if block < len(self._blocks):
                for row, held in zip(rows, self._blocks[block], strict=True):
                    row[at] = held[inside]
            else:
                cold.append(at)
        if cold:
            self._gather_cold(items[cold], cold, rows)
        return self._batch(whole, items)

    def share_on_disk(self, items: IntArray) -> int:
        """Return the number of these items that are only on disk."""
        return int((items >= len(self._blocks) * self._block_items).sum())

    def _batch(self, spilled: list[Tensor], items: IntArray) -> Any:
        """Return a batch like its dataset: of these rows, and of those of tensors in memory."""
        rest, index = iter(spilled), torch.from_numpy(items)
        found = [next(rest) if part is None else part[index] for part in self._kept]
        if self._single:
            return found[0]
        return tuple(found) if self._names is None else dict(zip(self._names, found, strict=True))

    def _gather_cold(self, items: IntArray, at: list[int], rows: Rows) -> None:
        """Read items from disk into these rows."""
        self.file.read(items, [[row[one] for one in at] for row in rows])

    def _loaded(self, block: int) -> Rows:
        """Return a block from disk, in memory that goes back to the system when it is dropped."""
        first = block * self._block_items
        count = min(self._block_items, self.file.items - first)
        rows = [_memory(count, size) for size in self.file.row_bytes]
        self.file.read_block(first, rows)
        return rows


def parts_of(dataset: Any) -> Sequence[Tensor]:
    """Return the tensors of a dataset of plain tensors."""
    if isinstance(dataset, dict):
        return list(dataset.values())
    return dataset if isinstance(dataset, list | tuple) else [dataset]


def can_spill(dataset: Any) -> bool:
    """Tell whether a dataset is large, and of plain tensors that lie in memory as in a file."""
    if type(dataset) not in (Tensor, dict, list, tuple):
        return False
    parts = parts_of(dataset)
    if not parts or not all(type(part) is Tensor for part in parts):
        return False
    flat = all(
        part.is_cpu
        and part.layout is torch.strided
        and part.is_contiguous()
        and not (part.requires_grad or part.is_quantized or part.is_inference())
        and not (part.is_conj() or part.is_neg())
        and part.nbytes > 0
        for part in parts
    )
    # Where a tensor stands twice, it would be written twice and counted twice.
    return (
        flat
        and len({part.data_ptr() for part in parts}) == len(parts)
        and sum(part.nbytes for part in parts) >= _SPILLED_FROM_BYTES
    )


def _memory(items: int, row_bytes: int) -> Row:
    """Return zeros of shape (items, row_bytes) in a mapping of their own.

    Memory of the C library would often not go back to the system, and stay the host's.
    """
    private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    return np.frombuffer(mmap.mmap(-1, items * row_bytes, flags=private), dtype=np.uint8).reshape(
        items, row_bytes
    )
