"""Devices of this machine: its GPUs by NVML, or a device a processor where there is no GPU.

NVML is asked by way of the module ``pynvml``, which is loaded only where the driver's library is.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import re
import socket
from collections.abc import Callable
from typing import Any, Final

import msgspec

from warren import __version__
from warren.serve.agent import processes
from warren.serve.agent.care.xids import XidEvents
from warren.serve.agent.command import CPU_PREFIX
from warren.serve.records.machines import DeviceUse, HostDevice, Machine

_LIBRARY: Final = "libnvidia-ml.so.1"
_STEP_BYTES: Final = 256 << 20
"""Change of a device's used memory in bytes that is worth a report."""
_NOISE: Final = re.compile(
    r"nvidia|geforce|tesla|quadro|graphics|device|generation|pcie|sxm\d?|hbm\d?e?|nvl|laptop|gpu"
    r"|\d+[gm]i?b",
    re.IGNORECASE,
)
"""Words of a GPU's name that its short name leaves out."""


class GpuState(msgspec.Struct, frozen=True):
    """Memory of a GPU that is in use, in bytes, and the processes that use it."""

    used_bytes: int
    pids: tuple[int, ...]


class Devices:
    """The devices of this machine.

    Parameters
    ----------
    nvml
        The module ``pynvml``, or one like it; None where there are no GPUs.
    """

    def __init__(self, nvml: Any = None) -> None:
        self._nvml = nvml
        self._handles: dict[str, Any] = {}
        self._wholes: dict[str, Any] = {}
        self._ids_of: dict[str, list[str]] = {}
        self.devices = self._gpus() or _processors()

    @property
    def has_gpus(self) -> bool:
        """Whether the devices are GPUs."""
        return bool(self._handles)

    def ids(self) -> frozenset[str]:
        """Return the ids of all devices."""
        return frozenset(device.id for device in self.devices)

    def state(self, device: str) -> GpuState | None:
        """Return what uses a GPU; None if it does not answer or is none."""
        handle = self._handles.get(device)
        if handle is None:
            return None
        nvml = self._nvml
        try:
            used = int(nvml.nvmlDeviceGetMemoryInfo(handle).used)
            found = {
                int(process.pid)
                for ask in (
                    nvml.nvmlDeviceGetComputeRunningProcesses,
                    nvml.nvmlDeviceGetGraphicsRunningProcesses,
                )
                for process in self._asked(ask, handle)
            }
        except nvml.NVMLError:
            return None
        return GpuState(used, tuple(sorted(found)))

    def xid_events(self) -> XidEvents:
        """Return the errors that the driver reports of these GPUs from now on."""
        return XidEvents(self._nvml, self._wholes if self.has_gpus else {}, self._ids_of)

    def utilization(self, device: str) -> float | None:
        """Return the share of time in which a GPU computed just now; None: it is not known.

        Of the parts of a divided GPU the driver does not know it.
        """
        handle = self._handles.get(device)
        if handle is None:
            return None
        try:
            return float(self._nvml.nvmlDeviceGetUtilizationRates(handle).gpu) / 100
        except self._nvml.NVMLError:
            return None

    def _asked(self, ask: Callable[[Any], Any], handle: Any) -> list[Any]:
        try:
            return list(ask(handle))
        except self._nvml.NVMLError:  # not on this model
            return []

    def _gpus(self) -> tuple[HostDevice, ...]:
        if self._nvml is None:
            return ()
        nvml = self._nvml
        found = []
        try:
            for index in range(nvml.nvmlDeviceGetCount()):
                whole = nvml.nvmlDeviceGetHandleByIndex(index)
                whole_uuid = _text(nvml.nvmlDeviceGetUUID(whole))
                self._wholes[whole_uuid] = whole
                for handle in self._parts(whole) or (whole,):
                    uuid = _text(nvml.nvmlDeviceGetUUID(handle))
                    if not _is_visible(index, uuid):
                        continue
                    name = _text(nvml.nvmlDeviceGetName(handle))
                    total = int(nvml.nvmlDeviceGetMemoryInfo(handle).total)
                    found.append(HostDevice(uuid, "gpu", short_name(name), total))
                    self._handles[uuid] = handle
                    self._ids_of.setdefault(whole_uuid, []).append(uuid)
        except nvml.NVMLError as error:
            self._handles.clear()
            print(f"warren agent: the GPUs do not answer: {error}", flush=True)
            return ()
        return tuple(found)

    def _parts(self, whole: Any) -> list[Any]:
        """Return the instances that a GPU is divided into (MIG); none if it is not."""
        nvml = self._nvml
        found: list[Any] = []
        try:
            if not nvml.nvmlDeviceGetMigMode(whole)[0]:
                return found
            most = nvml.nvmlDeviceGetMaxMigDeviceCount(whole)
        except nvml.NVMLError:  # not on this model
            return found
        for index in range(most):
            with contextlib.suppress(nvml.NVMLError):  # there are fewer than the most
                found.append(nvml.nvmlDeviceGetMigDeviceHandleByIndex(whole, index))
        return found


def load_nvml() -> Any:
    """Return the module ``pynvml``, ready for use; None where there is no driver or no module.

    ``WARREN_NVML`` names another module that does the same, for tests.
    """
    named = os.environ.get("WARREN_NVML")
    if named is None:
        try:
            ctypes.CDLL(_LIBRARY)
        except OSError:
            return None
    try:
        nvml = importlib.import_module(named or "pynvml")
        nvml.nvmlInit()
    except ImportError:
        print(
            "warren agent: this machine has an NVIDIA driver, and its GPUs need a module: "
            "pip install nvidia-ml-py",
            flush=True,
        )
        return None
    except Exception as error:  # NVMLError of whichever version
        print(f"warren agent: the GPUs do not answer: {error}", flush=True)
        return None
    return nvml


def machine(name: str, devices: Devices, limits: str, tests: bool = False) -> Machine:
    """Return the description of this machine; ``tests``: its GPUs can be tested."""
    return Machine(
        name=name,
        devices=devices.devices,
        boot_id=processes.boot_id(),
        processors=len(os.sched_getaffinity(0)),
        memory_bytes=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        limits=limits,
        version=__version__,
        tests=tests and devices.has_gpus,
    )


def own_name() -> str:
    """Return the name of this machine."""
    return socket.gethostname() or "localhost"


def short_name(name: str) -> str:
    """Return the short name of a GPU's model: ``H100`` for ``NVIDIA H100 80GB HBM3``."""
    words = [word for word in re.split(r"[\s/_-]+", name) if word and not _NOISE.fullmatch(word)]
    # An RTX A6000 is an A6000; of an RTX 4090 the two words make the name.
    if len(words) > 1 and words[0] == "RTX" and re.fullmatch(r"A\d+", words[1]):
        del words[0]
    return "".join(words) or "GPU"


def differs(old: tuple[DeviceUse, ...], new: tuple[DeviceUse, ...]) -> bool:
    """Tell whether the use of devices has changed in what matters."""
    if len(old) != len(new):
        return True
    return any(
        one.id != other.id
        or one.foreign != other.foreign
        or abs(one.used_bytes - other.used_bytes) >= _STEP_BYTES
        for one, other in zip(old, new, strict=True)
    )


def _processors() -> tuple[HostDevice, ...]:
    return tuple(
        HostDevice(f"{CPU_PREFIX}{number}", "cpu", "CPU")
        for number in sorted(os.sched_getaffinity(0))
    )


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _is_visible(index: int, uuid: str) -> bool:
    """Tell whether the agent's own CUDA_VISIBLE_DEVICES, if it is set, names a GPU."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return True
    names = [one.strip() for one in visible.split(",") if one.strip()]
    return any(one == str(index) or (len(one) > 4 and uuid.startswith(one)) for one in names)
