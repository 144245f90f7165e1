"""The file that holds all input data of one process: tensors end to end, read item by item.

*Format.* The tensors of a dataset one after the other, each from a multiple of ``PAGE_BYTES`` on,
as they lie in memory. The checksum of an item (XXH3, 64 bits) covers its row of each tensor, in
their order. It is kept in memory and not in the file, so a file that was cut or exchanged is
noticed, too. A batch is a random draw of items, so checksums are of items: one of a block would
make each item cost a block. The file has no name from its first byte on: it goes with its process,
however that ends.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from xxhash import xxh3_64, xxh3_64_intdigest

from warren.model.costs import IntArray
from warren.model.errors import InputDataError

Row = NDArray[np.uint8]
Rows = list[Row]
"""Items as bytes: of each tensor an array of shape (items, bytes of one item)."""
Places = Sequence[Row] | Sequence[list[Row]]
"""For each tensor the rows of some items, which may lie apart."""
PAGE_BYTES: Final = mmap.PAGESIZE
_WRITTEN_BYTES: Final = 1 << 22
"""Bytes written before the system is advised to drop them from memory."""


class SpillFile:
    """The input data of one process on disk.

    Parameters
    ----------
    parts : sequence of Tensor
        Contiguous tensors of one length in main memory. They are only read.
    folder : str
        Where the file is made.

    Raises
    ------
    InputDataError
        The file cannot be written.
    """

    def __init__(self, parts: Sequence[Tensor], folder: str) -> None:
        self._folder = folder
        self._like = [(part.dtype, part.shape) for part in parts]
        self.items = len(parts[0])
        self.row_bytes = [part.nbytes // self.items for part in parts]
        """Bytes of an item in each tensor."""
        self._begins = [0]
        for part in parts:
            pages = -(-part.nbytes // PAGE_BYTES)
            self._begins.append(self._begins[-1] + pages * PAGE_BYTES)
        rows = [bytes_of(part) for part in parts]
        self._sums_N = _sums(rows)
        try:
            self._fd, path = tempfile.mkstemp(dir=folder)
            os.unlink(path)
            os.ftruncate(self._fd, self._begins[-1])
            for begin, row in zip(self._begins, rows, strict=False):
                self._write(begin, row.reshape(-1).data)
            os.posix_fadvise(self._fd, 0, 0, os.POSIX_FADV_RANDOM)
        except OSError as error:
            self.close()
            raise InputDataError(
                f"its input data cannot be written to {folder}: {error.strerror}"
            ) from error

    @property
    def item_bytes(self) -> int:
        """Return the bytes of one item in all tensors."""
        return sum(self.row_bytes)

    def read(self, items: IntArray, rows: Places) -> None:
        """Read items from disk, and let the system forget them: here they are kept but once.

        Parameters
        ----------
        items : array, shape (items,)
            The items, in any order.
        rows : Places
            Where they go: item ``items[k]`` to the k-th rows.

        Raises
        ------
        InputDataError
            The file cannot be read, or has other bytes than were written.
        """
        places: list[tuple[int, int, Any]] = [
            *zip(self._begins, self.row_bytes, rows, strict=False)
        ]
        numbers = items.tolist()
        try:
            # All are asked for before the first is waited for: a disk serves many at a time.
            for begin, size, _ in places:
                for item in numbers:
                    os.posix_fadvise(self._fd, begin + item * size, size, os.POSIX_FADV_WILLNEED)
            for begin, size, row in places:
                for at, item in enumerate(numbers):
                    self._fill(begin + item * size, row[at], item)
        except OSError as error:
            raise self._unread(error) from error
        self._forget()
        self._check(numbers, rows)

    def read_block(self, first: int, rows: Rows) -> None:
        """Read the items from ``first`` on, as many as ``rows`` have place for; see ``read``."""
        try:
            for begin, size, row in zip(self._begins, self.row_bytes, rows, strict=False):
                self._fill(begin + first * size, row.reshape(-1), first)
        except OSError as error:
            raise self._unread(error) from error
        self._forget()
        self._check(range(first, first + len(rows[0])), rows)

    def mapped(self) -> list[Tensor]:
        """Return the tensors once more, as memory that the system reads from the file when used.

        Bytes written into one are seen by its holders alone and never get into the file.
        """
        whole = mmap.mmap(self._fd, self._begins[-1], access=mmap.ACCESS_COPY)
        found = []
        for begin, (dtype, shape) in zip(self._begins, self._like, strict=False):
            flat = torch.frombuffer(whole, dtype=dtype, count=shape.numel(), offset=begin)
            found.append(flat.view(shape))
        return found

    def close(self) -> None:
        """Give up the file; mappings of it stay."""
        fd, self._fd = getattr(self, "_fd", -1), -1
        if fd >= 0:
            os.close(fd)

    def _write(self, begin: int, content: memoryview) -> None:
        """Write to disk piece by piece, so that the system holds little of it in memory at once."""
        for at in range(0, len(content), _WRITTEN_BYTES):
            piece = content[at : at + _WRITTEN_BYTES]
            done = 0
            while done < len(piece):
                done += os.pwrite(self._fd, piece[done:], begin + at + done)
            os.fdatasync(self._fd)
            self._forget()

    def _fill(self, offset: int, row: Row, item: int) -> None:
        """Fill a row with the bytes of the file from ``offset`` on."""
        place = row.data
        done = 0
        while done < len(place):
            got = os.preadv(self._fd, [place[done:]], offset + done)
            if not got:
                raise self._damaged(item)
            done += got

    def _forget(self) -> None:
        """Let the system forget its pages of the file: they would count as memory of the host."""
        os.posix_fadvise(self._fd, 0, 0, os.POSIX_FADV_DONTNEED)

    def _check(self, items: Sequence[int], rows: Places) -> None:
        """Refuse items whose checksums differ from the written ones."""
        for item, found in zip(items, _sums(rows).tolist(), strict=True):
            if int(self._sums_N[item]) != found:
                raise self._damaged(item)

    def _damaged(self, item: int) -> InputDataError:
        return InputDataError(
            f"its input data in {self._folder} are damaged: item {item} is not what was written"
        )

    def _unread(self, error: OSError) -> InputDataError:
        return InputDataError(
            f"its input data cannot be read from {self._folder}: {error.strerror}"
        )


def bytes_of(part: Tensor) -> Row:
    """Return the bytes of a contiguous tensor, shape (items, bytes of one), as a view of it."""
    flat: Row = part.detach().view(-1).view(torch.uint8).numpy()
    return flat.reshape(len(part), -1)


def _sums(rows: Places) -> NDArray[np.uint64]:
    """Return the checksums of items, shape (items,)."""
    count = len(rows[0])
    if len(rows) == 1:
        found = (xxh3_64_intdigest(row.data) for row in rows[0])
        return np.fromiter(found, np.uint64, count)
    return np.fromiter((_sum([part[at] for part in rows]) for at in range(count)), np.uint64, count)


def _sum(row: Sequence[Row]) -> int:
    """Return the checksum of one item."""
    state = xxh3_64()
    for part in row:
        state.update(part.data)
    return state.intdigest()
