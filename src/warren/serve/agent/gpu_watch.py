"""The GPUs of an agent while jobs come and go: foreign processes, and memory that comes back."""

from __future__ import annotations

import os
import pwd
import time
from collections.abc import Callable, Collection
from typing import Final

import msgspec

from warren.serve.agent import processes
from warren.serve.agent.devices import Devices, GpuState, differs
from warren.serve.agent.loop import Loop
from warren.serve.records.machines import DeviceUse

LOOK_S: Final = 3.0
"""Time between two looks at the GPUs, in seconds."""
_BACK_LOOK_S: Final = 0.05
"""Time between two looks while memory is to come back, in seconds."""
_BACK_S: Final = 10.0
"""Longest wait for memory to come back, in seconds."""
_SLACK_BYTES: Final = 256 << 20
"""Memory in bytes that may be in use beyond what was in use when the attempt began."""


class _Before(msgspec.Struct, frozen=True):
    """Memory that was in use on each GPU of an attempt when it began."""

    used_bytes: dict[str, int]


class GpuWatch:
    """Looks at the GPUs every few seconds.

    Parameters
    ----------
    loop
        The agent's loop.
    devices
        The devices of this machine; without GPUs nothing is ever looked at.
    runners
        Returns the processes that run jobs; their descendants are not foreign.
    changed
        Called with the use of all devices when it has changed in what matters.
    """

    def __init__(
        self,
        loop: Loop,
        devices: Devices,
        runners: Callable[[], Collection[int]],
        changed: Callable[[tuple[DeviceUse, ...]], None],
    ) -> None:
        self._loop, self._devices, self._runners = loop, devices, runners
        self._changed = changed
        self._before: dict[str, _Before] = {}
        self.uses: tuple[DeviceUse, ...] = ()
        if devices.has_gpus:
            self._look()

    def begins(self, attempt: str, devices: Collection[str]) -> None:
        """Note how much memory is in use before an attempt begins."""
        states = {one: self._devices.state(one) for one in devices}
        used = {one: state.used_bytes for one, state in states.items() if state is not None}
        if used:
            self._before[attempt] = _Before(used)

    def when_back(
        self,
        attempt: str,
        devices: Collection[str],
        others: Collection[str],
        then: Callable[[], None],
    ) -> None:
        """Call ``then`` when the memory of an attempt that has ended is back, at once if it is.

        Parameters
        ----------
        attempt
            The attempt.
        devices
            Its devices.
        others
            Devices that other attempts use at the same time: there, memory in use says nothing.
        then
            Called once, after ten seconds at the latest.
        """
        before = self._before.pop(attempt, None)
        deadline = time.monotonic() + _BACK_S

        def look() -> None:
            if time.monotonic() >= deadline or all(
                self._is_back(one, before, others) for one in devices
            ):
                then()
            else:
                self._loop.call_later(_BACK_LOOK_S, look)

        look()

    def _is_back(self, device: str, before: _Before | None, others: Collection[str]) -> bool:
        state = self._devices.state(device)
        if state is None:
            return True
        if any(not os.path.exists(f"/proc/{pid}") for pid in state.pids) and _sees_all_pids():
            return False
        if device in others or before is None or device not in before.used_bytes:
            return True
        return state.used_bytes <= before.used_bytes[device] + _SLACK_BYTES

    def _look(self) -> None:
        own = frozenset(self._runners())
        found = []
        for device in self._devices.devices:
            state = self._devices.state(device.id)
            if state is not None:
                found.append(DeviceUse(device.id, state.used_bytes, _foreign(state, own)))
        uses = tuple(found)
        if differs(self.uses, uses):
            self.uses = uses
            self._changed(uses)
        self._loop.call_later(LOOK_S, self._look)


def _foreign(state: GpuState, own: frozenset[int]) -> tuple[str, ...]:
    """Return what users read about processes that belong to no job."""
    found = []
    for pid in state.pids:
        name = processes.name_of(pid)
        # A process that this one cannot see is in another container, or has just ended.
        if name and not processes.descends_from(pid, own):
            found.append(f"{_owner(pid)}: {name} ({pid})")
        elif not name and not own and not _sees_all_pids():
            found.append(f"process {pid} of another container")
    return tuple(found)


def _owner(pid: int) -> str:
    try:
        uid = os.stat(f"/proc/{pid}").st_uid
        return pwd.getpwuid(uid).pw_name
    except OSError:
        return "?"
    except KeyError:
        return str(uid)


def _sees_all_pids() -> bool:
    """Tell whether this process sees those of the whole machine: process 2 is the kernel's."""
    return processes.name_of(2) == "kthreadd"
