"""What every message is, and what several of them carry."""

from __future__ import annotations

import msgspec


class Message(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Base of all messages."""


class Stamp(msgspec.Struct, frozen=True, array_like=True):
    """When a task was on COMP, and when its synchronisation ended; -1: its only device."""

    shard: int
    start_ns: int
    comp_end_ns: int
    end_ns: int
    device: int = -1
