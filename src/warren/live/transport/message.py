"""The base of all messages, and the records that several of them carry."""

from __future__ import annotations

from typing import Final

import msgspec

# Fields are sent by position, so their order is part of the protocol: a new one goes last and has
# a default. Each class states its tag, which stays the same whatever the class is called.


class Message(msgspec.Struct, frozen=True, tag="Message", array_like=True):
    """Base of all messages."""


_DEVICE: Final = "device"


class SharedSlot(msgspec.Struct, frozen=True, array_like=True):
    """One slot of memory that processes of a host share; see ``training.memory.shared_arena``.

    ``path`` leads to the memory, which has ``slots`` slots of ``slot_bytes`` each; ``slot`` is the
    number of this one. ``serial`` distinguishes the memory from later memory at the same path.
    """

    path: str
    serial: int
    slot_bytes: int
    slots: int
    slot: int

    @property
    def on_device(self) -> bool:
        """Tell whether it stands for memory of a device, in its server's process."""
        return self.path == _DEVICE


def place_on_device(slot_bytes: int, slot: int) -> SharedSlot:
    """Return the description of a place on a device, for a process that only passes it on."""
    return SharedSlot(_DEVICE, 0, slot_bytes, 1, slot)


class TaskStamp(msgspec.Struct, frozen=True, array_like=True):
    """When the task of a shard was on COMP, and when its synchronization ended.

    ``device`` is the device that ran it; -1: the only device that it was assigned to. ``data_ns``:
    how long it waited for its batch on COMP.
    """

    shard: int
    start_ns: int
    comp_end_ns: int
    end_ns: int
    device: int = -1
    data_ns: int = 0
