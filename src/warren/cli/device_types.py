"""Which device types this machine has: live, a task must run where its file says."""

from __future__ import annotations

from warren.model.cluster import Cluster
from warren.model.errors import Problem, SpecError
from warren.profile.measured import PROCESSOR


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
