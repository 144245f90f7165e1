"""Errors that the driver reports of GPUs (Xid), by events of NVML."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from warren.serve.agent.care.activity import Clock

LOOK_S: Final = 3.0
"""Time between two looks for errors, in seconds."""
AGAIN_S: Final = 600.0
"""Time in which the same error of the same device and jobs is reported once, in seconds."""
_MOST: Final = 1000
"""Most errors that are taken in one look."""


class XidEvents:
    """The errors of all GPUs of a machine.

    Parameters
    ----------
    nvml
        The module ``pynvml``, or one like it.
    handles
        The handle of each whole GPU, by UUID. A GPU that knows no events is left out.
    parts
        UUID of a whole GPU to the ids of its devices: its own, or those of its parts.
    """

    def __init__(
        self, nvml: Any, handles: Mapping[str, Any], parts: Mapping[str, Sequence[str]]
    ) -> None:
        self._nvml, self._parts = nvml, parts
        self._by_handle = {_key(handle): uuid for uuid, handle in handles.items()}
        self._set: Any = None
        if not handles:
            return
        try:
            found = nvml.nvmlEventSetCreate()
            watched = [self._register(handle, found) for handle in handles.values()]
            self._set = found if any(watched) else None
        except (AttributeError, nvml.NVMLError):  # a driver or module without events
            return

    def _register(self, handle: Any, events: Any) -> bool:
        nvml = self._nvml
        try:
            nvml.nvmlDeviceRegisterEvents(handle, nvml.nvmlEventTypeXidCriticalError, events)
        except nvml.NVMLError:  # not on this model
            return False
        return True

    @property
    def work(self) -> bool:
        """Whether errors are reported at all."""
        return self._set is not None

    def come(self) -> list[tuple[str, int]]:
        """Return the device and the number of each error since the last call."""
        nvml, found = self._nvml, list[tuple[str, int]]()
        if self._set is None:
            return found
        for _ in range(_MOST):
            try:
                event = nvml.nvmlEventSetWait_v2(self._set, 0)
            except nvml.NVMLError:  # there is none
                break
            if event.eventType & nvml.nvmlEventTypeXidCriticalError:
                devices = self._parts.get(self._uuid(event.device), ())
                found += [(device, int(event.eventData)) for device in devices]
        return found

    def _uuid(self, handle: Any) -> str:
        """Return the UUID of a GPU, which may be lost: then the driver no longer knows it."""
        known = self._by_handle.get(_key(handle))
        if known is not None:
            return known
        try:
            uuid = self._nvml.nvmlDeviceGetUUID(handle)
        except self._nvml.NVMLError:
            return ""
        return uuid.decode() if isinstance(uuid, bytes) else str(uuid)


def _key(handle: Any) -> Any:
    """Return what two handles of the same GPU have in common: the address that they hold."""
    return handle if isinstance(handle, int) else ctypes.cast(handle, ctypes.c_void_p).value


class XidWatch:
    """Looks for errors every few seconds, if the daemon asks for it.

    Parameters
    ----------
    loop
        The agent's loop.
    events
        The errors of this machine's GPUs.
    attempts
        Returns the names of the attempts on a device. The same error is reported again for others.
    report
        Called with device and number; it returns whether the report was sent.
    clock
        The clock, in seconds.
    """

    def __init__(
        self,
        loop: Clock,
        events: XidEvents,
        attempts: Callable[[str], tuple[str, ...]],
        report: Callable[[str, int], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._loop, self._events, self._attempts = loop, events, attempts
        self._report, self._clock = report, clock
        self._said_s: dict[tuple[str, int, tuple[str, ...]], float] = {}
        self._unsent: list[tuple[str, int]] = []
        self._runs = self._wanted = False

    def watch(self, wanted: bool) -> None:
        """Report errors from now on, or no longer; those that could not be sent are sent now."""
        self._wanted = wanted
        if wanted and self._events.work:
            unsent, self._unsent = self._unsent, []
            for device, number in unsent:
                self._send(device, number)
            if not self._runs:
                self._runs = True
                self._turn()

    def look(self) -> None:
        """Report the errors that have come; before the end of an attempt, so that it is known."""
        now_s = self._clock()
        for device, number in self._events.come():
            key = (device, number, self._attempts(device))
            if now_s - self._said_s.get(key, float("-inf")) >= AGAIN_S and self._wanted:
                self._said_s[key] = now_s
                self._send(device, number)
        self._said_s = {one: at for one, at in self._said_s.items() if now_s - at < AGAIN_S}

    def _send(self, device: str, number: int) -> None:
        if not self._report(device, number) and len(self._unsent) < _MOST:
            self._unsent.append((device, number))

    def _turn(self) -> None:
        self.look()
        self._loop.call_later(LOOK_S, self._turn)
