"""The mean of the updates of a ring's ranks: by all of them together, or by one process alone.

An update is flat (``training.tensor_layout``): gradients in the places of the parameters, then
buffers. Neighbors of one type are summed as one. Integer buffers are not summed: those of rank 0
count. Of two NaNs a compiler may keep either, so all of a mean get the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

import torch
from torch import Tensor

from warren.live.rings.allreduce import Ring, ring_sum
from warren.live.training.app.app_contract import refuse
from warren.live.training.gradient_sum import float_runs
from warren.live.training.tensor_layout import Layout, TensorEntry
from warren.model.job import Job

_SUMMED: Final = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
"""The types of numbers that gloo can add."""


class RingMeans:
    """The means of a job's updates, taken over a ring or in one process to the same bits.

    Raises
    ------
    SpecError
        A tensor is of a type that a ring cannot add; the message names it.
    """

    def __init__(self, layout: Layout, job: Job) -> None:
        for entry in layout.entries:
            if entry.kind != "int_buffer" and _real(_dtype(entry)) not in _SUMMED:
                allowed = ", ".join(str(dtype).removeprefix("torch.") for dtype in _SUMMED)
                message = f"is of {entry.dtype}, which a ring cannot add; allowed: {allowed}"
                raise refuse(job, entry.name, f"{message}, or complex numbers of these")
        self._runs = float_runs(layout, ((0, layout.total_bytes),))
        self._integers = [entry for entry in layout.entries if entry.kind == "int_buffer"]

    @torch.no_grad()
    def over(self, ring: Ring, update: Tensor) -> None:
        """Put the mean over all ranks in the place of this rank's own update, shape (bytes,)."""
        # (g_0 + ... + g_{n-1}) / n, in the order of the ring; ``of`` below does the same.
        for part in self._parts(update):
            ring.add(part)
            part.div_(ring.size)
            _one_nan(part)
        # Integer buffers, such as counts of batches, are rank 0's: gathered, so that they go round
        # in one call, and put back.
        if self._integers:
            first = torch.cat([update[e.offset : e.offset + e.nbytes] for e in self._integers])
            ring.share(first)
            at = 0
            for e in self._integers:
                update[e.offset : e.offset + e.nbytes] = first[at : at + e.nbytes]
                at += e.nbytes

    @torch.no_grad()
    def of(self, updates: Sequence[Tensor]) -> Tensor:
        """Return the result of ``over`` on each rank, from the updates of all, to the bit."""
        # The copy also brings rank 0's integer buffers.
        mean = updates[0].clone()
        parts = [list(self._parts(update)) for update in updates]
        for out, *own in zip(self._parts(mean), *parts, strict=True):
            out.copy_(ring_sum(own))
            out.div_(len(updates))
            _one_nan(out)
        return mean

    def _parts(self, update: Tensor) -> Iterator[Tensor]:
        """Generate views of the runs of neighboring numbers of one type, as real numbers."""
        return (update[run.begin : run.end].view(_real(run.dtype)) for run in self._runs)


def _one_nan(part: Tensor) -> None:
    """Let all NaNs of a part be the same one."""
    # A sum with a NaN in it is one, and is computed in less time than a look at each number takes.
    if part.sum().isnan():
        part.masked_fill_(part.isnan(), math.nan)


def _dtype(entry: TensorEntry) -> torch.dtype:
    found = getattr(torch, entry.dtype)
    assert isinstance(found, torch.dtype)
    return found


def _real(dtype: torch.dtype) -> torch.dtype:
    """Return the type as which numbers are summed: complex ones are pairs of real ones."""
    return dtype.to_real() if dtype.is_complex else dtype
