"""What a task sends to its server, and what a barrier reports."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass

from warren.live.training.layout import Buffer


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResult:
    """The outcome of one task.

    ``update`` has the layout of the state: gradients in the places of the parameters, buffers
    as the forward pass left them. ``present`` has one byte a parameter, 1 where it has a
    gradient, 0 where that is None. ``sha`` is ``hash_update`` of the rest.
    """

    loss: float
    update: Buffer
    present: bytes
    sha: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundOutcome:
    """What the barrier of ``round`` gave: mean loss in shard order, metrics where evaluated."""

    round: int
    loss: float
    metrics: Mapping[str, float] | None
    finished: bool


def hash_update(loss: float, present: bytes, update: Buffer) -> str:
    """SHA-256 of a task's loss, mask and update, in hex: equal for equal work."""
    total = hashlib.sha256(struct.pack("<d", loss))
    total.update(present)
    total.update(update)
    return total.hexdigest()
