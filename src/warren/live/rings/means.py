"""The mean of the updates of a ring's ranks: by all of them together, or by one process alone.

An update is flat (``training.layout``): gradients in the places of the parameters, then buffers.
Neighbours of one type are summed as one. Integer buffers are not summed: those of rank 0 count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from warren.live.rings.allreduce import Ring, ring_sum
from warren.live.training.layout import ALIGN_BYTES, Layout


class Run(NamedTuple):
    """Bytes [begin, end) of an update that are summed as numbers of one real type."""

    begin: int
    end: int
    dtype: torch.dtype


class RingMeans:
    """Where the numbers of an update lie."""

    def __init__(self, layout: Layout) -> None:
        self._runs = list(_runs(layout))
        self._integers = [entry for entry in layout.entries if entry.kind == "int_buffer"]

    @torch.no_grad()
    def over(self, ring: Ring, update: Tensor) -> None:
        """Put the mean over all ranks in the place of this rank's own update, shape (bytes,)."""
        for part in self._parts(update):
            ring.add(part)
            part.div_(ring.size)
        if self._integers:
            first = torch.cat([update[e.offset : e.offset + e.nbytes] for e in self._integers])
            ring.share(first)
            at = 0
            for e in self._integers:
                update[e.offset : e.offset + e.nbytes] = first[at : at + e.nbytes]
                at += e.nbytes

    @torch.no_grad()
    def of(self, updates: Sequence[Tensor]) -> Tensor:
        """What ``over`` leaves to each rank, from the updates of all, to the bit."""
        mean = updates[0].clone()
        parts = [list(self._parts(update)) for update in updates]
        for out, *own in zip(self._parts(mean), *parts, strict=True):
            out.copy_(ring_sum(own))
            out.div_(len(updates))
        return mean

    def _parts(self, update: Tensor) -> Iterator[Tensor]:
        return (update[run.begin : run.end].view(run.dtype) for run in self._runs)


def _runs(layout: Layout) -> Iterator[Run]:
    """The float tensors, neighbours of one type together with the (zero) padding between."""
    last: Run | None = None
    for entry in layout.entries:
        if entry.kind == "int_buffer" or not entry.nbytes:
            continue
        dtype = getattr(torch, entry.dtype)
        one = Run(entry.offset, entry.offset + entry.nbytes, _real(dtype))
        if last is not None and last.dtype == one.dtype and one.begin - last.end < ALIGN_BYTES:
            one = Run(last.begin, one.end, one.dtype)
        elif last is not None:
            yield last
        last = one
    if last is not None:
        yield last


def _real(dtype: torch.dtype) -> torch.dtype:
    """Complex numbers are summed as pairs of real ones."""
    return dtype.to_real() if dtype.is_complex else dtype
