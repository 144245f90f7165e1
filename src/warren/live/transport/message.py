"""What every message is, and what several of them carry."""

from __future__ import annotations

import msgspec


class Message(msgspec.Struct, frozen=True, tag="Message", array_like=True):
    """Base of all messages."""


class SharedSlot(msgspec.Struct, frozen=True, array_like=True):
    """A slot of memory that processes of one host share:
    ``warren.live.training.memory.shared_arena``.

    ``path`` leads to the memory, which has ``slots`` slots of ``slot_bytes``. ``serial`` tells it
    from other memory that the same path may lead to later.
    """

    path: str
    serial: int
    slot_bytes: int
    slots: int
    slot: int


class TaskStamp(msgspec.Struct, frozen=True, array_like=True):
    """When a task was on COMP, and when its synchronisation ended; -1: its only device."""

    shard: int
    start_ns: int
    comp_end_ns: int
    end_ns: int
    device: int = -1
