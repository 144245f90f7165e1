"""Find the GPUs of this machine, and give them to the devices of a cluster that are named so."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from warren.live.own_programs import isolation
from warren.live.training.numerics import clean_environment
from warren.model.cluster import PROCESSOR, Device
from warren.model.errors import Problem, SpecError
from warren.model.job import Job

ANY: Final = "cuda"
"""The type of a device that is any GPU; any other type is a GPU where one is called so."""
_DRIVER: Final = "/dev/nvidiactl"
_LIMIT_S: Final = 120.0
_PROCESSORS: Final = "processors"
_ASK: Final = """
import json, torch
cuda = torch.cuda
found = [cuda.get_device_properties(at) for at in range(cuda.device_count())]
words = f"CUDA {torch.version.cuda}, cuDNN {torch.backends.cudnn.version()}" if found else ""
known = [(one.name, one.total_memory, words, str(getattr(one, "uuid", ""))) for one in found]
print(json.dumps(known))
"""


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU: its number for CUDA, its own name, its memory, and the libraries it computes with.

    ``uuid``: its identity, whatever its number in a process is; empty: unknown.
    """

    index: int
    name: str
    memory_bytes: int
    libraries: str
    uuid: str = ""

    def is_called(self, type_name: str) -> bool:
        """Tell whether a device type means this GPU: ``cuda``, its name or a word of that."""
        # Names of types have no spaces. Some names of GPUs have dashes: ``NVIDIA A100-SXM4-40GB``.
        whole = self.name.lower().replace(" ", "-")
        return type_name.lower() in (ANY, whole, *self.name.lower().split(), *whole.split("-"))

    @property
    def numerics(self) -> str:
        """The facts on which its bits depend."""
        return f"{self.name}, {self.libraries}"


def has_driver() -> bool:
    """Tell whether NVIDIA's driver is there, without which no torch finds a GPU."""
    return os.path.exists(_DRIVER)


@functools.cache
def gpus_here() -> tuple[Gpu, ...]:
    """Return the GPUs that torch can use on this machine, in the order of CUDA.

    A separate process asks, since a process that has used CUDA cannot be forked. Without a driver
    of NVIDIA none is started.
    """
    if not has_driver():
        return ()
    command = [sys.executable, *isolation(), "-c", _ASK]
    try:
        ran = subprocess.run(
            command,
            # As trainers have it: which GPU has which number depends on the environment.
            env=clean_environment(os.environ),
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=True,
        )
        rows = json.loads(ran.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return ()  # a driver without a torch that can use it
    return tuple(Gpu(at, *row) for at, row in enumerate(rows))


def gpus_of(devices: Sequence[Device], gpus: Sequence[Gpu] | None = None) -> tuple[Gpu | None, ...]:
    """Return the GPU of each device; None: it is a process on the CPU.

    Devices of a type that names a GPU take GPUs of that name in order, each its own. Devices of
    other types are processes on the CPU (whether they may be is decided by ``runs.machine``).
    ``gpus`` None: those of this machine, which are not looked for if all devices are named as
    processors.

    Raises
    ------
    SpecError
        More devices are of a type than there are GPUs that it means.
    """
    if gpus is None:
        processors = all(one.type.upper().startswith(PROCESSOR) for one in devices)
        gpus = () if processors else gpus_here()
    free = list(gpus)
    found: dict[int, Gpu | None] = {}
    # Those that want a certain GPU first: ``cuda`` takes any that is left.
    for device in sorted(devices, key=lambda one: one.type.lower() == ANY):
        mine = next((gpu for gpu in free if gpu.is_called(device.type)), None)
        if mine is None and any(gpu.is_called(device.type) for gpu in gpus):
            asked = sum(one.type == device.type for one in devices)
            here = ", ".join(gpu.name for gpu in gpus)
            message = f"{asked} devices of type {device.type}; GPUs of this machine: {here}"
            raise SpecError(Problem(file="cluster", field="devices", message=message))
        if mine is not None:
            free.remove(mine)
        found[device.index] = mine
    return tuple(found[device.index] for device in devices)


def class_of(gpus: Iterable[Gpu | None]) -> str:
    """Return the GPUs' addition to the numerics class of computations on these devices.

    Empty if none of them is a GPU.
    """
    kinds = {gpu.numerics if gpu else "" for gpu in gpus}
    return "" if kinds <= {""} else " | ".join(sorted(kind or _PROCESSORS for kind in kinds))


def classes_of(
    devices: Sequence[Device], gpus: Sequence[Gpu | None], jobs: Sequence[Job]
) -> tuple[str, ...]:
    """Return ``class_of`` the devices that each job may use; ``gpus``: of each device.

    Raises
    ------
    SpecError
        A job would get other bits on one device than on another and has to stay in one class.
    """
    found, used = [], list(zip(devices, gpus, strict=True))
    for job in jobs:
        # By kind, the first device of it.
        kinds: dict[str, str] = {}
        for one, gpu in used:
            if job.may_use(one.type):
                kinds.setdefault(gpu.numerics if gpu else _PROCESSORS, one.name)
        if len(kinds) > 1 and job.numerics == "strict":
            rows = sorted(kinds.items())
            names = ", ".join(f"{kind.partition(',')[0]} ({name})" for kind, name in rows)
            message = (
                f"job {job.name} (numerics: strict) would get other bits on one device than on "
                f"another: {names}; allowed: devices of one kind, `types` that are, or "
                "numerics: mixed"
            )
            raise SpecError(Problem(file="cluster", field="devices", message=message))
        found.append(class_of(gpu for one, gpu in used if job.may_use(one.type)))
    return tuple(found)
