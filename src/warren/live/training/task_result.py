"""What a task sends to its servers, and what a barrier reports."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from xxhash import xxh3_64_intdigest

from warren.live.training.tensor_layout import Layout
from warren.live.transport.frames import Buffer

MARK_BYTES: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResult:
    """The outcome of one task.

    ``update`` has the places of the state: gradients where the parameters are, buffers as the
    forward pass left them; absent gradients and padding are zero. It comes in one piece a range,
    for whoever it is meant. ``present`` has one byte a parameter of the whole model, 1 where it
    has a gradient, 0 where that is None. ``marks`` are ``marks_of`` all of it.
    """

    loss: float
    present: bytes
    marks: bytes
    update: tuple[Buffer, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundOutcome:
    """What the barrier of ``round`` gave: mean loss in shard order, metrics where evaluated."""

    round: int
    loss: float
    metrics: Mapping[str, float] | None
    finished: bool


def marks_of(layout: Layout, loss: float, present: bytes, update: Buffer) -> bytes:
    """Four bytes for loss and mask, then four for each entry: equal for equal work.

    The low half of XXH3, which takes a tenth of the time of SHA-256 or less: it guards against
    accidents, among them an app that is not deterministic, and not against malice.
    """
    whole = memoryview(update)
    parts = (whole[entry.offset : entry.offset + entry.nbytes] for entry in layout.entries)
    hashed: tuple[Buffer, ...] = (struct.pack("<d", loss) + present, *parts)
    marks = [xxh3_64_intdigest(part) & 0xFFFFFFFF for part in hashed]
    return struct.pack(f"<{len(marks)}I", *marks)


def nondeterministic(layout: Layout, round_no: int, shard: int, known: bytes, marks: bytes) -> str:
    """Say that a task gave two results, and in which tensor."""
    names = differing(layout, known, marks)
    what = f"tensor {names[0]!r} differs" if names else "only its loss or its mask differs"
    return f"app is not deterministic: task {shard} of round {round_no} ran twice, {what}"


def differing(layout: Layout, one: bytes, other: bytes) -> tuple[str, ...]:
    """Names of the tensors whose marks differ; none where only loss or mask do."""
    return tuple(
        entry.name
        for at, entry in enumerate(layout.entries, start=1)
        if one[at * MARK_BYTES :][:MARK_BYTES] != other[at * MARK_BYTES :][:MARK_BYTES]
    )
