"""Compute a barrier's means over shards, in shard order, straight from the received bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from warren.live.training.block_ownership import Ranges, views_in
from warren.live.training.helpers import ALONE, Helpers
from warren.live.training.memory.disk_memory import DiskMemory
from warren.live.training.memory.shared_arena import ALIGN_BYTES
from warren.live.training.memory.shared_memory import fresh
from warren.live.training.tensor_layout import Layout, TensorEntry, flat_of
from warren.live.transport.frames import Buffer

_CHUNK_BYTES: Final = 1 << 20
"""Means are computed piece by piece, so that a piece stays in the cache until it is divided."""


@dataclass(slots=True)
class TypedSpan:
    """Neighboring tensors of one type, summed as one: bytes [begin, end) of range ``at``."""

    at: int
    begin: int
    end: int
    dtype: torch.dtype


class GradientMeans:
    """The means of a part's float tensors: their memory, and their computation.

    Sum and quotient of real numbers are rounded once each, so that it does not matter which
    elements are handled together, nor where in memory they lie. Complex ones go one by one.
    ``disk``: where the memory lies; None: in main memory, or on ``device``.
    """

    def __init__(
        self,
        layout: Layout,
        ranges: Ranges,
        helpers: Helpers = ALONE,
        disk: DiskMemory | None = None,
        device: torch.device | None = None,
    ) -> None:
        self._layout, self._ranges, self._helpers = layout, ranges, helpers
        self._disk = disk
        self._device = device
        self._runs = float_runs(layout, ranges)
        self.renew()

    def renew(self) -> None:
        """Allocate new memory and leave the old to its other holders."""
        if self._device is None:
            flat = fresh(self._layout.total_bytes, self._disk)
        else:
            size = self._layout.total_bytes
            flat = torch.zeros(size, dtype=torch.uint8, device=self._device)
        pieces = [flat[begin:end] for begin, end in self._ranges]
        self._outs = [pieces[r.at][r.begin : r.end].view(r.dtype) for r in self._runs]
        self._views = list(views_in(self._layout, self._ranges, pieces))

    def memory(self) -> list[Tensor]:
        """Return tensors that share the memory of the means, which counts until the next step."""
        return list(self._outs)

    def touch(self) -> None:
        """Write to all of the memory, whose pages come when they are first touched."""
        for out in self._outs:
            out.zero_()

    def views(self) -> list[tuple[int, TensorEntry, Tensor]]:
        """Return index, entry and mean of each tensor; integer buffers have a place but no mean."""
        return self._views

    @torch.no_grad()
    def compute(self, updates: Sequence[Sequence[Buffer | Tensor]]) -> None:
        """Fill ``views`` from updates in shard order, each with one buffer a range."""
        flats = [[flat_of(buffer) for buffer in update] for update in updates]
        pieces: list[tuple[Tensor, ...]] = []
        for run, out in zip(self._runs, self._outs, strict=True):
            parts = [flat[run.at][run.begin : run.end].view(run.dtype) for flat in flats]
            # A complex quotient has more than one rounding, so complex tensors are not cut.
            if run.dtype.is_complex or out.nbytes <= _CHUNK_BYTES or self._device is not None:
                pieces.append((out, *parts))
                continue
            size = _CHUNK_BYTES // out.element_size()
            pieces += zip(*(torch.split(part, size) for part in (out, *parts)), strict=True)
        if self._disk is None:
            self._helpers.each(lambda at: _mean(*pieces[at]), [one[0].nbytes for one in pieces])
            return
        for piece in pieces:
            _mean(*piece)
            self._disk.breathe()


@torch.no_grad()  # each thread has a mode of its own
def _mean(out: Tensor, *parts: Tensor) -> None:
    """Write (p_0 + p_1 + ...) / number of parts to ``out``, added in this order."""
    if len(parts) == 1:
        # A division by 1 is exact, and copies in the same call.
        torch.div(parts[0], 1, out=out)
        return
    torch.add(parts[0], parts[1], out=out)
    for part in parts[2:]:
        out += part
    out.div_(len(parts))


def float_runs(layout: Layout, ranges: Ranges) -> list[TypedSpan]:
    """Return the owned float tensors; neighbors of one real type form a span, padding included."""
    runs: list[TypedSpan] = []
    for entry in layout.entries:
        at = next((i for i, (b, e) in enumerate(ranges) if b <= entry.offset < e), None)
        if entry.kind == "int_buffer" or not entry.nbytes or at is None:
            continue
        dtype: torch.dtype = getattr(torch, entry.dtype)
        begin = entry.offset - ranges[at][0]
        # Only padding lies between neighbors of a span; it is zero in each update, and stays so.
        last = runs[-1] if runs and runs[-1].at == at and not dtype.is_complex else None
        if last is not None and last.dtype == dtype and begin - last.end < ALIGN_BYTES:
            last.end = begin + entry.nbytes
        else:
            runs.append(TypedSpan(at, begin, begin + entry.nbytes, dtype))
    return runs
