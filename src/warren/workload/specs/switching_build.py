"""What a cluster charges for switching between jobs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from warren.model.switching import PCIE3_X16_BYTES_PER_S, Switching
from warren.workload.specs.cluster import ClusterSpec
from warren.workload.text import hint, shown
from warren.workload.yaml_document import Path


def wrong_switching(spec: ClusterSpec, types: Sequence[str]) -> Iterator[tuple[Path, str]]:
    """Types that have no time or do not exist, and what would be counted twice."""
    if spec.switching is None:
        return
    if spec.overheads is not None and spec.emulate is None and spec.engine == "local":
        yield ("switching",), "rows measured with overheads tell it; allowed: one of the two"
    stated = spec.switching.times
    if stated is None:
        return
    for kind in stated:
        if kind not in types and kind not in spec.device_types:
            message = f"{shown(kind)} is no type of this cluster; {hint(kind, list(types))}"
            yield ("switching", "times", kind), f"{message}allowed: {', '.join(types)}"
    missing = [kind for kind in types if kind not in stated]
    if missing:
        yield ("switching", "times"), f"has no time for {', '.join(missing)}"


def switching_of(spec: ClusterSpec, types: Sequence[str]) -> Switching | None:
    """The switching of a cluster that has these types and nothing wrong; None: not charged."""
    stated = spec.switching
    if stated is None:
        return None
    if stated.scheme is not None:
        bus = PCIE3_X16_BYTES_PER_S if stated.bus is None else stated.bus
        return Switching(scheme=stated.scheme, bus_bytes_per_s=bus)
    times_ns = stated.times or dict.fromkeys(types, stated.time or 0)
    return Switching(time_ns={kind: times_ns[kind] for kind in types})
