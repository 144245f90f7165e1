"""Which server of a job has which tensor, and where its bytes lie in a flat state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from torch import Tensor

from warren.live.training.tensor_layout import Layout, TensorEntry, flat_of, view_of
from warren.live.transport.frames import Buffer

Ranges = tuple[tuple[int, int], ...]
"""Byte ranges (begin, end) of a flat state, in order, none empty, none touching the next."""


def static_owners(layout: Layout, parts: int) -> tuple[int, ...]:
    """The part that owns each entry, shape (entries,): runs of neighbours, parts in order.

    The largest part is as small as runs allow; with more parts than tensors some own nothing.
    """
    spans = _spans(layout)
    low, high = max((end - begin for begin, end in spans), default=0), layout.total_bytes
    while low < high:
        limit = (low + high) // 2
        if _filled(spans, limit)[-1] < parts:
            high = limit
        else:
            low = limit + 1
    return tuple(_filled(spans, low)) if spans else ()


def ranges_of(layout: Layout, owners: Sequence[int], part: int) -> Ranges:
    """What a part owns; neighbours are merged and a tensor's padding belongs to it."""
    found: list[tuple[int, int]] = []
    for (begin, end), owner in zip(_spans(layout), owners, strict=True):
        if owner != part or begin == end:
            continue
        if found and found[-1][1] == begin:
            begin = found.pop()[0]
        found.append((begin, end))
    return tuple(found)


def views_in(
    layout: Layout, ranges: Ranges, buffers: Sequence[Buffer]
) -> Iterator[tuple[int, TensorEntry, Tensor]]:
    """Index, entry and typed view of every tensor that lies in ``ranges``.

    Parameters
    ----------
    buffers
        One for each range, of any alignment. The views share their memory.
    """
    flats = [flat_of(buffer) for buffer in buffers]
    at = 0
    for index, entry in enumerate(layout.entries):
        while at < len(ranges) and entry.offset + entry.nbytes > ranges[at][1]:
            at += 1
        if at == len(ranges):
            return
        if entry.offset >= ranges[at][0] and entry.nbytes:
            yield index, entry, view_of(flats[at], entry, entry.offset - ranges[at][0])


def _spans(layout: Layout) -> list[tuple[int, int]]:
    """Where each entry begins and where the next one does."""
    starts = [entry.offset for entry in layout.entries]
    return list(pairwise([*starts, layout.total_bytes]))


def _filled(spans: Sequence[tuple[int, int]], limit: int) -> list[int]:
    """Owners when each part takes neighbours until ``limit`` bytes are full."""
    owners, part, begin = [], 0, 0
    for start, end in spans:
        if end - begin > limit:
            part, begin = part + 1, start
        owners.append(part)
    return owners
