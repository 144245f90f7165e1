"""This machine's numerics class without loading PyTorch, which takes a command a second or more.

It follows from PyTorch as it is installed, the processor's features and a few variables: as long as
these are what they were when it was last asked, it is what it was then.

Which device types this machine has: live, a task must run where its file says.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from warren.model.cluster import Cluster
from warren.model.errors import Problem, SpecError
from warren.profile.measured import PROCESSOR
from warren.store.files import write_atomic

_FEATURES: Final = ("flags", "Features", "model name")
_VARIABLES: Final = ("ATEN_", "DNNL_", "MKL_", "OMP_")


def known_numerics(history: Path | None) -> str:
    """The numerics class of processes that train here, from beside the history database.

    Asked of PyTorch, and written there, where it is not known; None: nothing is known, and nothing
    is kept.
    """
    from warren.live.training.numerics import numerics_class

    path = None if history is None else history.with_suffix(".numerics.json")
    key = _installed()
    if path is None or not key:
        return numerics_class(threads=1)
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        known = json.loads(path.read_text())
        if known["of"] == key and isinstance(known["numerics"], str):
            return str(known["numerics"])
    numerics = numerics_class(threads=1)
    with contextlib.suppress(OSError, SpecError):
        write_atomic(path, json.dumps({"of": key, "numerics": numerics}))
    return numerics


def _installed() -> str:
    """A hash of all that it follows from; empty where that cannot be told."""
    spec = importlib.util.find_spec("torch")
    try:
        release = version("torch")
    except PackageNotFoundError:
        return ""
    if spec is None or spec.origin is None:
        return ""
    place = Path(spec.origin)
    facts = [release, str(place), str(place.stat().st_mtime_ns), platform.machine()]
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        facts += sorted({line for line in lines if line.startswith(_FEATURES)})
    facts += sorted(f"{k}={v}" for k, v in os.environ.items() if k.startswith(_VARIABLES))
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()


def other_types(cluster: Cluster) -> list[str]:
    """The types that are not this machine's processor."""
    return [name for name in cluster.type_names if not name.upper().startswith(PROCESSOR)]


def check_device_types(cluster: Cluster, file: str, field: str) -> None:
    """Refuse types that this machine lacks, unless they are played.

    Raises
    ------
    SpecError
        With the types, and the way out.
    """
    absent = other_types(cluster)
    if absent and cluster.emulate is None:
        message = (
            f"this machine has no {', '.join(absent)}; allowed: {PROCESSOR}, a name that begins "
            "with it, or `emulate: {time_scale: 1}`, which plays other types on the processor "
            "(a job with a `model` needs a row of profiles that has them)"
        )
        raise SpecError(Problem(file=file, field=field, message=message))
