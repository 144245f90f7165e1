"""GPUs that are a file: what ``pynvml`` answers is read from the file FAKE_NVML names, each time.

The file is a list of objects with ``uuid``, ``name``, ``total``, ``used`` and ``pids``; some also
have ``share``, the percentage of time in which they compute, and ``xids``, errors that come.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace


class NVMLError(Exception):
    """An error of the driver."""


Handle = int | tuple[int, int]
nvmlEventTypeXidCriticalError = 8  # noqa: N816 - its name in NVML
taken: dict[str, int] = {}
"""Errors of each GPU that were taken."""


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


def nvmlDeviceGetUtilizationRates(handle: Handle) -> SimpleNamespace:
    if "share" not in _gpu(handle):
        raise NVMLError("not supported")
    return SimpleNamespace(gpu=_gpu(handle)["share"])


def nvmlEventSetCreate() -> str:
    return "events"


def nvmlDeviceRegisterEvents(handle: Handle, types: int, events: str) -> None:
    if _gpu(handle).get("xids") is None:
        raise NVMLError("not supported")


def nvmlEventSetWait_v2(events: str, timeout_ms: int) -> SimpleNamespace:
    for index, gpu in enumerate(_gpus()):
        at, xids = taken.get(gpu["uuid"], 0), gpu.get("xids") or []
        if at < len(xids):
            taken[gpu["uuid"]] = at + 1
            return SimpleNamespace(device=index, eventType=8, eventData=xids[at])
    raise NVMLError("timeout")


def nvmlDeviceGetComputeRunningProcesses(handle: Handle) -> list[SimpleNamespace]:
    return [SimpleNamespace(pid=pid) for pid in _gpu(handle)["pids"]]


def nvmlDeviceGetGraphicsRunningProcesses(handle: Handle) -> list[SimpleNamespace]:
    raise NVMLError("not supported")
