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


def _gpus() -> list[dict]:
    return json.loads(Path(os.environ["FAKE_NVML"]).read_text())


def nvmlInit() -> None:
    _gpus()


def nvmlDeviceGetCount() -> int:
    return len(_gpus())


def nvmlDeviceGetHandleByIndex(index: int) -> int:
    return index


def nvmlDeviceGetUUID(handle: int) -> str:
    return _gpus()[handle]["uuid"]


def nvmlDeviceGetName(handle: int) -> bytes:
    return _gpus()[handle]["name"].encode()


def nvmlDeviceGetMemoryInfo(handle: int) -> SimpleNamespace:
    gpu = _gpus()[handle]
    return SimpleNamespace(total=gpu["total"], used=gpu["used"])


def nvmlDeviceGetComputeRunningProcesses(handle: int) -> list[SimpleNamespace]:
    return [SimpleNamespace(pid=pid) for pid in _gpus()[handle]["pids"]]


def nvmlDeviceGetGraphicsRunningProcesses(handle: int) -> list[SimpleNamespace]:
    raise NVMLError("not supported")
