"""Machines of the service, as their agents describe them."""

from __future__ import annotations

from typing import Literal

import msgspec


class HostDevice(msgspec.Struct, frozen=True):
    """A device of a host: a GPU, or a processor where the machine has no GPU.

    ``id`` is a GPU's UUID, or ``cpu:3``; ``type`` the short name of its model (``H100``), or
    ``CPU``.
    """

    id: str
    kind: Literal["gpu", "cpu"]
    type: str
    memory_bytes: int = 0


class Machine(msgspec.Struct, frozen=True):
    """A host, as its agent describes it when it connects.

    ``boot_id`` changes when the machine starts again. ``limits`` says how memory and process trees
    are held together there: ``cgroup`` or ``rlimit``. ``tests``: its agent can test its GPUs.
    """

    name: str
    devices: tuple[HostDevice, ...]
    boot_id: str
    processors: int
    memory_bytes: int
    limits: str
    version: str
    tests: bool = False


class DeviceUse(msgspec.Struct, frozen=True):
    """What a device is doing: memory in use, and processes that belong to no job (GPUs only)."""

    id: str
    used_bytes: int = 0
    foreign: tuple[str, ...] = ()
