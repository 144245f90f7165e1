"""Cluster time: what files and events count, against the clock of the host."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClusterClock:
    """``zero_ns`` is the host's reading at time zero; an emulated second lasts ``scale`` s."""

    zero_ns: int
    scale: float = 1.0

    def cluster_ns(self, host_ns: int) -> int:
        """Cluster time of a host reading."""
        elapsed = host_ns - self.zero_ns
        return elapsed if self.scale == 1.0 else round(elapsed / self.scale)

    def host_ns(self, cluster_ns: int) -> int:
        """Host reading at a cluster time."""
        return self.zero_ns + self.pad_ns(cluster_ns)

    def pad_ns(self, cluster_ns: int) -> int:
        """How long a cluster duration lasts on the host."""
        return cluster_ns if self.scale == 1.0 else round(cluster_ns * self.scale)
