"""Memory that is used again, round after round: touching fresh pages costs more than copying."""

from __future__ import annotations

import contextlib
import mmap
import weakref
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from warren.live.training.blocks import Ranges, views_in
from warren.live.training.layout import Layout


def fresh(nbytes: int) -> Tensor:
    """A flat uint8 tensor of zeros that begins a page; pages come when they are first touched."""
    if not nbytes:
        return torch.empty(0, dtype=torch.uint8)
    pages = mmap.mmap(-1, nbytes, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(OSError, AttributeError):  # a wish: not every kernel has large pages
        pages.madvise(mmap.MADV_HUGEPAGE)
    return torch.frombuffer(pages, dtype=torch.uint8)


class _Place:
    """Memory for one state. ``lent`` dies with the last view of it that anyone holds."""

    def __init__(self, layout: Layout, ranges: Ranges) -> None:
        self.flat = fresh(layout.total_bytes)
        pieces = [self.flat.numpy()[begin:end].data for begin, end in ranges]
        self.views = {e.name: view for _, e, view in views_in(layout, ranges, pieces)}
        self.lent: weakref.ref[np.ndarray[tuple[int], np.dtype[np.uint8]]] | None = None

    @property
    def free(self) -> bool:
        """Whether nobody can read it any more."""
        return self.lent is None or self.lent() is None

    def lend(self, ranges: Ranges) -> tuple[memoryview, ...]:
        """Its bytes; slices, messages and whatever else share them keep ``lent`` alive."""
        handle = self.flat.numpy()[:]
        self.lent = weakref.ref(handle)
        whole = handle.data
        return tuple(whole[begin:end] for begin, end in ranges)


class StatePool:
    """Copies of the owned part of a model that stay as they are while anyone may read them.

    A view keeps its memory, and so do its slices and a message that sends it without copying,
    until the transport has let go. So a place is free exactly when its last view is gone, and
    nobody has to say so. As many places come to be as are held at once.
    """

    def __init__(self, layout: Layout, ranges: Ranges) -> None:
        self._layout, self._ranges = layout, ranges
        self._places: list[_Place] = []

    def pack(self, source: Mapping[str, Tensor]) -> tuple[memoryview, ...]:
        """The bytes of these tensors, by name, one piece a range; padding is zero."""
        place = next((place for place in self._places if place.free), None)
        if place is None:
            place = _Place(self._layout, self._ranges)
            self._places.append(place)
        _copy(list(place.views.values()), [source[name].detach() for name in place.views])
        return place.lend(self._ranges)

    def __len__(self) -> int:
        """How many places there are."""
        return len(self._places)


def _copy(targets: Sequence[Tensor], sources: Sequence[Tensor]) -> None:
    with torch.no_grad():
        for target, source in zip(targets, sources, strict=True):
            target.copy_(source)
