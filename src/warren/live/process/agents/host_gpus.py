"""The GPUs of an agent's machine: given to the devices of its host, claimed, and watched."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from warren.live.gpu.discovery import Gpu, gpus_of
from warren.live.gpu.gpu_watch import lost_gpus
from warren.live.process.agents.spec import WantedGpus
from warren.live.process.device_claims import DeviceClaims
from warren.model.cluster import Device
from warren.model.errors import SpecError

_LOOK_S: Final = 5.0
"""Seconds between two looks whether the GPUs are still there."""
_MISSES: Final = 2
"""Looks in a row that do not find a GPU, after which it counts as lost."""


class HostGpus:
    """The GPUs of the devices of one host. The claims last until ``close``, or the process ends.

    Where other runs have claimed GPUs, the devices get others that mean the same type.

    Parameters
    ----------
    wanted
        The devices, and how GPUs are claimed.
    gpus
        The GPUs of this machine.

    Attributes
    ----------
    found
        The number of each device, and its GPU.
    problem
        Why there are too few GPUs, and what is allowed; empty: there are enough.
    """

    def __init__(self, wanted: WantedGpus, gpus: Sequence[Gpu]) -> None:
        self._wanted, self._gpus = wanted, gpus
        self._claims: dict[Gpu, DeviceClaims] = {}
        refused: list[str] = []
        mine = self._taken(refused)
        if mine is None and wanted.share:
            mine = _given(wanted.devices, gpus)
            self._claim(mine or (), [], share=True)
        for gpu in [gpu for gpu in self._claims if gpu not in (mine or ())]:
            self._claims.pop(gpu).close()
        self.problem = "" if mine is not None else self._lack(refused)
        numbers = [device.index for device in wanted.devices]
        self.found = tuple(zip(numbers, mine or (), strict=not self.problem))

    def close(self) -> None:
        """Give the claims back."""
        for claims in self._claims.values():
            claims.close()
        self._claims.clear()

    def watch(self) -> int:
        """Watch the GPUs in a thread; return a file descriptor that is readable when one is lost.

        Watched are the GPUs that NVIDIA's management library knows.
        """
        fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        uuids = [gpu.uuid for _, gpu in self.found if gpu.uuid]
        if uuids:
            threading.Thread(target=_watch, args=(uuids, fd), daemon=True).start()
        return fd

    def _taken(self, refused: list[str]) -> tuple[Gpu, ...] | None:
        """Claim a GPU for each device; None: there are too few that no other run has."""
        free = list(self._gpus)
        while (mine := _given(self._wanted.devices, free)) is not None:
            others = self._claim(mine, refused, share=False)
            if not others:
                return mine
            free = [gpu for gpu in free if gpu not in others]
        return None

    def _claim(self, gpus: Sequence[Gpu], refused: list[str], *, share: bool) -> list[Gpu]:
        """Claim GPUs; return those that other runs have, and add who that is to ``refused``."""
        others = []
        for gpu in gpus:
            named = {gpu.uuid or str(gpu.index): f"GPU {gpu.index} ({gpu.name})"}
            try:
                if gpu not in self._claims:
                    self._claims[gpu] = DeviceClaims(0, named, self._wanted.run, share=share)
            except SpecError as error:
                others.append(gpu)
                refused += [problem.message for problem in error.problems]
        return others

    def _lack(self, refused: Sequence[str]) -> str:
        """Say that there are too few GPUs."""
        counts = Counter(device.type for device in self._wanted.devices)
        wants = " and ".join(f"{count} of type {name}" for name, count in counts.items())
        here = Counter(gpu.name.replace(" ", "-") for gpu in self._gpus)
        has = ", ".join(f"{count} {name}" for name, count in here.items()) or "none"
        why = "".join(f"; {one}" for one in refused)
        return f"its devices are {wants}, and its GPUs (each `cuda` or by its name) are {has}{why}"


def _given(devices: Sequence[Device], gpus: Sequence[Gpu]) -> tuple[Gpu, ...] | None:
    """Return the GPU of each device; None: there are too few."""
    try:
        found = gpus_of(devices, gpus)
    except SpecError:
        return None
    given = tuple(gpu for gpu in found if gpu is not None)
    return given if len(given) == len(devices) else None


def _watch(
    uuids: Sequence[str],
    fd: int,
    look: Callable[[Sequence[str]], Sequence[str]] = lost_gpus,
    wait: Callable[[float], object] = time.sleep,
) -> None:
    """Look for GPUs that were there and are lost; write to ``fd`` once, and end."""
    # Those that are not known from the start cannot be watched.
    lost = look(uuids)
    known, misses = [uuid for uuid in uuids if uuid not in lost], 0
    while known and misses < _MISSES:
        wait(_LOOK_S)
        misses = misses + 1 if look(known) else 0
    if known:
        os.eventfd_write(fd, 1)
