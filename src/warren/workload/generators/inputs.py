"""Give a generator its inputs from the run: cluster, costs, seed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from warren.model.cluster import Cluster
from warren.model.costs import ProfileRow


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratorInputs:
    """The inputs of a generator from a run.

    ``rows`` are costs by model, the run file's before the shipped; ``file`` and ``field`` name the
    place in messages.
    """

    cluster: Cluster
    rows: Mapping[str, ProfileRow]
    run_seed: int
    file: str
    field: str = "workload"

    def devices(self, memory_bytes: int = 0) -> Mapping[str, int]:
        """Return the number of devices by type, without types of less memory."""
        # A type that states no memory fits every task.
        small = [
            kind.name
            for kind in self.cluster.types
            if kind.memory_bytes is not None and kind.memory_bytes < memory_bytes
        ]
        counts = Counter(device.type for device in self.cluster.devices)
        return {kind: count for kind, count in counts.items() if kind not in small}
