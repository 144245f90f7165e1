"""Use memory again, round after round: touching fresh pages costs more than copying.

Memory of other processes of this host is opened once, and read where their spots say.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import os
import weakref
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.graph import increment_version

from warren.live.training.block_ownership import Ranges, views_in
from warren.live.training.helpers import ALONE, Helpers
from warren.live.training.memory.disk_memory import DiskMemory
from warren.live.training.memory.shared_arena import Arena
from warren.live.training.tensor_layout import Layout, flat_of
from warren.live.transport.frames import Buffer
from warren.live.transport.message import SharedSlot

SHARED_FROM_BYTES: Final = 1 << 16
"""Smaller states are sent: copying them costs less than saying when they are not needed."""
_LARGE_BYTES: Final = 1 << 17
"""Larger tensors are copied as bytes; smaller ones in one call of torch's for all of them."""
_REAL: Final = frozenset({torch.float64, torch.float32, torch.float16, torch.bfloat16})
_TYPES: Final = frozenset({Tensor, nn.Parameter})
_memcmp: Final = ctypes.CDLL(None).memcmp
_memcmp.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
_FRAMES: Final = 4
"""A device has two places for updates; states lie in two too, or in a few of their server's."""


def fresh(nbytes: int, disk: DiskMemory | None = None) -> Tensor:
    """Return a flat uint8 tensor of zeros at the start of a page; pages come when first touched.

    ``disk``: where it lies; None: in main memory.
    """
    if disk is not None:
        return disk.fresh(nbytes)
    if not nbytes:
        return torch.empty(0, dtype=torch.uint8)
    pages = mmap.mmap(-1, nbytes, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    # A request only: not every kernel has large pages.
    with contextlib.suppress(OSError, AttributeError):
        pages.madvise(mmap.MADV_HUGEPAGE)
    return torch.frombuffer(pages, dtype=torch.uint8)


@torch.no_grad()
def copy_all(
    targets: Sequence[Tensor],
    sources: Sequence[Tensor],
    helpers: Helpers = ALONE,
    disk: DiskMemory | None = None,
) -> None:
    """Copy each source into its target; large ones as bytes, which takes less to begin.

    ``helpers`` share the large ones. ``disk``: they lie there, and are copied one by one.
    """
    if disk is not None:
        for target, source in zip(targets, sources, strict=True):
            if target.data_ptr() != source.data_ptr():
                target.copy_(source)
                disk.breathe()
        return
    moved: list[Tensor] = []
    moves: list[tuple[int, int, int]] = []
    left: tuple[list[Tensor], list[Tensor]] = [], []
    for target, source in zip(targets, sources, strict=True):
        if target.nbytes >= _LARGE_BYTES and _lie_alike(target, source):
            moves.append((target.data_ptr(), source.data_ptr(), target.nbytes))
            moved.append(target)
        else:
            left[0].append(target)
            left[1].append(source)
    helpers.each(lambda at: ctypes.memmove(*moves[at]), [size for _, _, size in moves])
    # ``memmove`` goes past autograd, which has to see that these tensors have changed.
    increment_version(moved)
    if left[0]:
        torch._foreach_copy_(*left)


def same_bytes(one: Tensor, other: Tensor) -> bool:
    """Tell whether two tensors of a type and shape have the same bytes, NaNs among them.

    100 MB in main memory take 14 ms, a seventh of the time of ``torch.equal`` for bytes.
    """
    if _lie_alike(one, other):
        return not int(_memcmp(one.data_ptr(), other.data_ptr(), one.nbytes))
    if (one.shape, one.dtype) != (other.shape, other.dtype):
        return False
    return torch.equal(_bytes(one), _bytes(other).to(one.device))


def first_difference(pairs: Iterable[tuple[Tensor, Tensor]]) -> int | None:
    """Return the position of the first two tensors whose bytes differ; None: no two do.

    A device is waited for once, and not for each pair.
    """
    there: list[tuple[int, Tensor]] = []
    for at, (one, other) in enumerate(pairs):
        if one.is_cpu or (one.shape, one.dtype) != (other.shape, other.dtype):
            if not same_bytes(one, other):
                return at
        elif one.numel():
            there.append((at, (_bytes(one) != _bytes(other).to(one.device)).any()))
    flags = torch.stack([differs for _, differs in there]).tolist() if there else ()
    return next((at for (at, _), differs in zip(there, flags, strict=True) if differs), None)


def _bytes(tensor: Tensor) -> Tensor:
    plain = tensor.detach().resolve_conj().resolve_neg()
    return plain.contiguous().view(-1).view(torch.uint8)


def _lie_alike(target: Tensor, source: Tensor) -> bool:
    """Tell whether a copy of the bytes equals a copy of the numbers."""
    dtype = target.dtype
    if dtype not in _REAL or source.dtype != dtype or source.shape != target.shape:
        return False
    return _plain(target) and _plain(source)


def _plain(one: Tensor) -> bool:
    """Tell whether a tensor's bytes lie in main memory in row-major order, as they are."""
    return type(one) in _TYPES and one.is_cpu and one.is_contiguous() and not one.is_neg()


class LentMemory:
    """Memory that is lent to readers, and is free again when the last view of it is gone.

    A view keeps its memory, and so do its slices and a message that sends it without copying, until
    the transport has released it. So no call is needed, and none can come too early. In the memory
    of an ``arena``, in its slot 0, other processes can read it too; then a view must be held for
    them. Other memory is on ``disk``, if that is given.
    """

    def __init__(
        self, nbytes: int, arena: Arena | None = None, disk: DiskMemory | None = None
    ) -> None:
        if arena is not None:
            self.flat = torch.frombuffer(arena.slot(0), dtype=torch.uint8)
        else:
            self.flat = fresh(nbytes, disk)
        self.spot = None if arena is None else arena.spot(0)
        self._lent: weakref.ref[Any] | None = None

    @property
    def free(self) -> bool:
        """Tell whether no process can read it any more."""
        return self._lent is None or self._lent() is None

    def lent(self, view: memoryview) -> bool:
        """Tell whether a view is of the memory lent last."""
        return self._lent is not None and self._lent() is view.obj

    def lend(self) -> memoryview:
        """Lend all bytes, and note by a weak reference when the last view of them is gone."""
        # A new array object each time, which all views made from it keep alive.
        handle = self.flat.numpy()[:]
        self._lent = weakref.ref(handle)
        return handle.data


class StateMemory:
    """A whole state or update at some address: typed views, and the padding between them."""

    def __init__(self, layout: Layout, flat: Tensor) -> None:
        self.views = list(layout.views(flat).values())
        ends = [entry.offset + entry.nbytes for entry in layout.entries]
        begins = [*(entry.offset for entry in layout.entries[1:]), layout.total_bytes]
        gaps = [(end, begin) for end, begin in zip(ends, begins, strict=True) if end < begin]
        self.padding = [flat[end:begin] for end, begin in gaps]


class StateMemories:
    """Views of the buffers used last. They keep the memory, so an address means one buffer."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._last: dict[int, StateMemory] = {}

    def at(self, buffer: Buffer) -> StateMemory:
        """Return the views of a buffer of ``layout.total_bytes`` bytes, in its own memory."""
        address = np.frombuffer(buffer, dtype=np.uint8).__array_interface__["data"][0]
        frame = self._last.pop(address, None) or StateMemory(self._layout, flat_of(buffer))
        # Dicts keep the order of insertion, and ``pop`` above moves a used entry to the end (LRU).
        if len(self._last) >= _FRAMES:
            del self._last[next(iter(self._last))]
        self._last[address] = frame
        return frame


class StatePool:
    """Copies of the owned part of a model that stay as they are while anyone may read them.

    There are as many places as were ever held at once. ``shared``: a folder as for
    ``Arena.create``; then other processes of this host can read them. ``helpers`` share copies.
    ``disk``: where they lie; None: in main memory.
    """

    def __init__(
        self,
        layout: Layout,
        ranges: Ranges,
        shared: str | None = None,
        helpers: Helpers = ALONE,
        disk: DiskMemory | None = None,
    ) -> None:
        self._layout = layout
        self._ranges = ranges
        self._disk = disk
        self._helpers = helpers
        self._shared = shared
        self._places: list[tuple[LentMemory, dict[int, Tensor]]] = []

    def __len__(self) -> int:
        """Return the number of places."""
        return len(self._places)

    @torch.no_grad()
    def pack(self, source: Sequence[Tensor]) -> tuple[memoryview, ...]:
        """Return the bytes of all tensors of the layout, one piece a range; padding is zero."""
        # A place whose bytes are not held any more may be written again.
        found = next((pair for pair in self._places if pair[0].free), None)
        place, views = self._new() if found is None else found
        if views:
            copy_all(list(views.values()), [source[at] for at in views], self._helpers, self._disk)
        whole = place.lend()
        return tuple(whole[begin:end] for begin, end in self._ranges)

    def spot(self, packed: Sequence[memoryview]) -> SharedSlot | None:
        """Return the place of a packed state, given its pieces; None if it is not shared."""
        for place, _ in self._places if packed else ():
            if place.lent(packed[0]):
                return place.spot
        return None

    def _new(self) -> tuple[LentMemory, dict[int, Tensor]]:
        size = self._layout.total_bytes
        arena = None
        if self._shared is not None:
            with nullcontext() if self._disk is None else self._disk.refusing():
                arena = Arena.create(size, 1, self._shared, self._disk)
        place = LentMemory(size, arena, self._disk)
        pieces = pieces_of(place.flat, self._ranges)
        views = {at: view for at, _, view in views_in(self._layout, self._ranges, pieces)}
        self._places.append((place, views))
        return place, views


def pieces_of(flat: Tensor, ranges: Ranges) -> Sequence[memoryview]:
    """Return the bytes of a flat tensor in these ranges, in its own memory."""
    return [flat.numpy()[begin:end].data for begin, end in ranges]


# Errors that say nothing about the memory asked for: this process or host has no more to give.
_FULL: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


class MappedMemories:
    """Arenas that others made; those closed by their makers are closed as others are opened.

    ``read_only``, ``relay`` and ``disk`` as for ``Arena.open``.
    """

    def __init__(
        self, *, read_only: bool = False, relay: bool = False, disk: DiskMemory | None = None
    ) -> None:
        self._read_only, self._relay = read_only, relay
        self.disk = disk
        self._arenas: dict[tuple[str, int], Arena] = {}

    def view(self, spot: SharedSlot) -> memoryview:
        """Return the bytes of a slot, which may be written unless these arenas are for reading.

        Raises
        ------
        OSError
            Its maker is gone, or has closed it.
        ValueError
            It differs from the spot's description.
        """
        key = spot.path, spot.serial
        if key not in self._arenas:
            # Close arenas closed by their makers, and other memory that the same path led to
            # before.
            self._close(path for path, _ in self._arenas if not os.path.exists(path))
            self._close([spot.path])
            self._arenas[key] = Arena.open(
                spot, read_only=self._read_only, relay=self._relay, disk=self.disk
            )
        return self._arenas[key].slot(spot.slot)

    def relayed(self, spot: SharedSlot) -> SharedSlot:
        """Return the description by which others find, through this process, a viewed slot."""
        return self._arenas[spot.path, spot.serial].spot(spot.slot)

    def look(self, spot: SharedSlot) -> memoryview | None:
        """Return the result of ``view``; None if the slot's maker is gone.

        Raises
        ------
        OSError
            This process or its host can open no more.
        """
        try:
            return self.view(spot)
        except ValueError:
            return None
        except OSError as error:
            if error.errno in _FULL:
                raise
            return None

    def close(self) -> None:
        """Close all arenas; see ``Arena.close``."""
        self._close([path for path, _ in self._arenas])

    def _close(self, paths: Iterable[str]) -> None:
        gone = set(paths)
        for key in [key for key in self._arenas if key[0] in gone]:
            self._arenas.pop(key).close()
