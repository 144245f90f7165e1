"""GPUs that are a file: what ``pynvml`` answers is read from the file FAKE_NVML names, each time.

The file is a list of objects with ``uuid``, ``name``, ``total``, ``used`` and ``pids``.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace


class NVMLError(Exception):
    """An error of the driver."""


Handle = int | tuple[int, int]


def _gpu(handle: Handle) -> dict:
    if isinstance(handle, tuple):
        return _gpus()[handle[0]]["parts"][handle[1]]
    return _gpus()[handle]


def _gpus() -> list[dict]:
    return json.loads(Path(os.environ["FAKE_NVML"]).read_text())


def nvmlInit() -> None:
    _gpus()


def nvmlDeviceGetCount() -> int:
    return len(_gpus())


def nvmlDeviceGetHandleByIndex(index: int) -> int:
    return index


def nvmlDeviceGetMigMode(handle: int) -> tuple[bool, bool]:
    divided = "parts" in _gpus()[handle]
    return divided, divided


def nvmlDeviceGetMaxMigDeviceCount(handle: int) -> int:
    return 7


def nvmlDeviceGetMigDeviceHandleByIndex(handle: int, index: int) -> tuple[int, int]:
    if index >= len(_gpus()[handle]["parts"]):
        raise NVMLError("not found")
    return handle, index


def nvmlDeviceGetUUID(handle: Handle) -> str:
    return _gpu(handle)["uuid"]


def nvmlDeviceGetName(handle: Handle) -> bytes:
    return _gpu(handle)["name"].encode()


def nvmlDeviceGetMemoryInfo(handle: Handle) -> SimpleNamespace:
    gpu = _gpu(handle)
    return SimpleNamespace(total=gpu["total"], used=gpu["used"])


def nvmlDeviceGetComputeRunningProcesses(handle: Handle) -> list[SimpleNamespace]:
    return [SimpleNamespace(pid=pid) for pid in _gpu(handle)["pids"]]


def nvmlDeviceGetGraphicsRunningProcesses(handle: Handle) -> list[SimpleNamespace]:
    raise NVMLError("not supported")
