"""Facts of this machine: the numerics class of its processes, and the device types it has.

PyTorch gives the numerics class, but loading it costs a command a second or more. The class follows
from PyTorch as installed, the processor's features and a few variables. As long as these are the
same as in the last query of PyTorch, so is the class.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import platform
import re
from collections import Counter
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from warren.live.gpu.discovery import ANY, gpus_here, gpus_of
from warren.model.cluster import PROCESSOR, Cluster
from warren.model.errors import Problem, SpecError
from warren.store.files import parsed_json, read, write_atomic

_FEATURES: Final = ("flags", "Features", "model name")
"""Beginnings of the lines of ``/proc/cpuinfo`` that describe a processor's features."""
_VARIABLES: Final = ("ATEN_", "DNNL_", "MKL_", "OMP_")
"""Beginnings of environment variables that PyTorch and its numeric libraries read."""
_TYPE: Final = re.compile(r"[A-Za-z0-9._-]{1,80}")
"""The form of a device type."""


def known_numerics(history: Path | None) -> str:
    """Return the numerics class of processes that train here.

    It is read from a file beside the history database; where it is not there, PyTorch is asked, and
    the answer is written there. ``history`` None: PyTorch is asked, and nothing is kept.
    """
    from warren.live.training.numerics import numerics_class

    path = None if history is None else history.with_suffix(".numerics.json")
    key = _installed()
    if path is None or not key:
        return numerics_class(threads=1)
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        known = parsed_json(read(path))
        if known["of"] == key and isinstance(known["numerics"], str):
            return str(known["numerics"])
    numerics = numerics_class(threads=1)
    with contextlib.suppress(OSError, SpecError):
        write_atomic(path, json.dumps({"of": key, "numerics": numerics}))
    return numerics


def _installed() -> str:
    """Return a hash of all facts that the class follows from; empty if one is unknown."""
    spec = importlib.util.find_spec("torch")
    try:
        release = version("torch")
    except PackageNotFoundError:
        return ""
    if spec is None or spec.origin is None:
        return ""
    # The file's time changes when PyTorch is installed again, even in the same version.
    place = Path(spec.origin)
    facts = [release, str(place), str(place.stat().st_mtime_ns), platform.machine()]
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        # All cores say the same lines: a set leaves each once.
        facts += sorted({line for line in lines if line.startswith(_FEATURES)})
    facts += sorted(f"{k}={v}" for k, v in os.environ.items() if k.startswith(_VARIABLES))
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()


def other_types(cluster: Cluster) -> list[str]:
    """Return the device types that are not this machine's processor."""
    return [name for name in cluster.type_names if not name.upper().startswith(PROCESSOR)]


def hosts_here() -> list[dict[str, Any]]:
    """Return this machine as a cluster file lists hosts: its GPUs, each called by its name.

    Without a GPU, it has a device for each processor that this process may use. It never lists
    both: their results differ in the last bits, so that most jobs are kept to one of them.
    """
    names = (gpu.name.replace(" ", "-") for gpu in gpus_here())
    gpus = Counter(name if _TYPE.fullmatch(name) else ANY for name in names)
    return [{"name": "local", "devices": gpus or {PROCESSOR: len(os.sched_getaffinity(0))}}]


def check_device_types(cluster: Cluster, file: str, field: str) -> None:
    """Refuse device types that this machine lacks, unless they are emulated.

    Types of hosts of Ray are not looked at: their agents find their GPUs when the run starts.

    Raises
    ------
    SpecError
        With the types, and the way out.
    """
    others = other_types(cluster)
    if cluster.emulate is not None or cluster.ray is not None or not others:
        return
    gpus = gpus_here()
    absent = [name for name in others if not any(gpu.is_called(name) for gpu in gpus)]
    if absent:
        hosts = list(dict.fromkeys(one.host for one in cluster.devices if one.type in absent))
        # One host is this machine; several hosts are others.
        if len(hosts) > 1:
            named = ", ".join(hosts[:5])
            away = f"GPUs of other machines ({named}) need `engine: {{ray: HOST:PORT}}`, and "
        else:
            away = ""
        here = "".join(f", {gpu.name.replace(' ', '-')} or cuda" for gpu in gpus[:1])
        message = (
            f"{away}this machine has no {', '.join(absent)}; allowed: {PROCESSOR}, a name that "
            f"begins with it{here}, or `emulate: {{time_scale: 1}}`, which plays other types on "
            "the processor (a job with a `model` needs a row of profiles that has them)"
        )
        raise SpecError(Problem(file=file, field=field, message=message))


def measured_device(cluster: Cluster) -> tuple[str, str, list[str]]:
    """Return the GPU on which the tasks of a run are measured, if its first device is one.

    Returns
    -------
    name, libraries
        Of the GPU, both empty if the device is a processor. Under Ray, what the file calls it, and
        where the Ray cluster is.
    others
        Types that are not measured, but assumed to be equally fast.
    """
    others = other_types(cluster)
    if cluster.emulate is not None or not others:
        return "", "", []
    first = cluster.devices[0].type
    if cluster.ray is not None:
        # It is on another machine, of which no more is known before a run.
        here = first.upper().startswith(PROCESSOR)
        name, libraries = ("", "") if here else (first, f"Ray at {cluster.ray}")
        return name, libraries, others if here else _but(cluster, first)
    gpu = gpus_of(cluster.devices)[0]
    if gpu is None:
        return "", "", others
    return gpu.name, gpu.libraries, _but(cluster, first)


def _but(cluster: Cluster, first: str) -> list[str]:
    """Return the device types except this one."""
    return [name for name in cluster.type_names if name != first]
