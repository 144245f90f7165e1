"""Whether GPUs are still there, by NVIDIA's management library (NVML), which needs no context."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Final

_LIBRARY: Final = "libnvidia-ml.so.1"
_PREFIXES: Final = ("GPU-", "MIG-", "")
"""What NVML puts before the identity that CUDA gives a GPU, or a part of one."""


def lost_gpus(uuids: Sequence[str]) -> list[str]:
    """Return the GPUs of these identities that NVML does not find; all, where it cannot be asked.

    A GPU that has fallen off its bus is not found.
    """
    try:
        nvml = ctypes.CDLL(_LIBRARY)
    except OSError:
        return list(uuids)
    if nvml.nvmlInit_v2():
        return list(uuids)
    try:
        return [uuid for uuid in uuids if not any(_is_there(nvml, p + uuid) for p in _PREFIXES)]
    finally:
        nvml.nvmlShutdown()


def _is_there(nvml: ctypes.CDLL, uuid: str) -> bool:
    """Tell whether NVML finds a GPU and can ask it something."""
    handle, busy = ctypes.c_void_p(), (ctypes.c_ulonglong * 3)()
    if nvml.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(handle)):
        return False
    return not nvml.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(busy))
