"""Divide a job's tensors among its servers, and find their bytes in a flat state."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise

from torch import Tensor

from warren.live.training.tensor_layout import Layout, TensorEntry, flat_of, view_of
from warren.live.transport.frames import Buffer

Ranges = tuple[tuple[int, int], ...]
"""Byte ranges (begin, end) of a flat state, in order, none empty, none touching the next."""


def static_owners(layout: Layout, parts: int) -> tuple[int, ...]:
    """Return the part that owns each entry, shape (entries,): runs of neighbors, parts in order.

    The largest part is as small as runs allow; with more parts than tensors some own nothing.
    """
    # Bisection on the bytes of the largest part: the least limit for which ``parts`` runs of
    # neighbors are enough. No limit below the largest tensor can do.
    spans = _spans(layout)
    low, high = max((end - begin for begin, end in spans), default=0), layout.total_bytes
    while low < high:
        limit = (low + high) // 2
        if _filled(spans, limit)[-1] < parts:
            high = limit
        else:
            low = limit + 1
    return tuple(_filled(spans, low)) if spans else ()


def owners_of(layout: Layout, parts: int, model_bytes: Sequence[int]) -> tuple[int, ...]:
    """Return the part that owns each entry, shape (entries,), as ``model_bytes`` states.

    ``model_bytes``: the bytes that each part should hold, of which only the proportions count; if
    empty, all parts hold about the same. Parts have runs of neighbors, in order; an entry belongs
    to the part in whose share of all bytes its middle lies.
    """
    stated = sum(model_bytes)
    if not stated:
        return static_owners(layout, parts)
    # Middle / total against end / stated, as products: whole numbers are exact.
    ends = [2 * layout.total_bytes * end for end in accumulate(model_bytes)]
    found = (bisect_right(ends, (begin + end) * stated) for begin, end in _spans(layout))
    # Empty entries at the end have their middle at the end of all.
    return tuple(min(owner, parts - 1) for owner in found)


def ranges_of(layout: Layout, owners: Sequence[int], part: int) -> Ranges:
    """Return the byte ranges a part owns; neighbors are merged, padding goes with its tensor."""
    found: list[tuple[int, int]] = []
    for (begin, end), owner in zip(_spans(layout), owners, strict=True):
        if owner != part or begin == end:
            continue
        if found and found[-1][1] == begin:
            begin = found.pop()[0]
        found.append((begin, end))
    return tuple(found)


def views_in(
    layout: Layout, ranges: Ranges, buffers: Sequence[Buffer | Tensor]
) -> Iterator[tuple[int, TensorEntry, Tensor]]:
    """Yield index, entry and typed view of every tensor that lies in ``ranges``.

    Parameters
    ----------
    buffers
        One for each range, of any alignment. The views share their memory.
    """
    flats = [flat_of(buffer) for buffer in buffers]
    # Entries and ranges are both in order of their bytes, so one pass over both is enough.
    at = 0
    for index, entry in enumerate(layout.entries):
        while at < len(ranges) and entry.offset + entry.nbytes > ranges[at][1]:
            at += 1
        if at == len(ranges):
            return
        if entry.offset >= ranges[at][0] and entry.nbytes:
            yield index, entry, view_of(flats[at], entry, entry.offset - ranges[at][0])


def _spans(layout: Layout) -> list[tuple[int, int]]:
    """Return for each entry where its bytes begin and where the next entry's do."""
    starts = [entry.offset for entry in layout.entries]
    return list(pairwise([*starts, layout.total_bytes]))


def _filled(spans: Sequence[tuple[int, int]], limit: int) -> list[int]:
    """Return the owners when each part takes neighbors until ``limit`` bytes are full."""
    owners = []
    part = 0
    begin = 0
    for start, end in spans:
        if end - begin > limit:
            part, begin = part + 1, start
        owners.append(part)
    return owners
