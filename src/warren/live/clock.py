"""Cluster time, which files and events count in, against the clock of the host."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClusterClock:
    """Converts between cluster time and readings of the host's monotonic clock.

    Attributes
    ----------
    zero_ns : int
        The host's reading at time zero.
    scale : float
        How many real seconds a cluster second lasts; 1 unless times are emulated.
    """

    zero_ns: int
    scale: float = 1.0

    def cluster_ns(self, host_ns: int) -> int:
        """Return the cluster time of a host reading."""
        elapsed = host_ns - self.zero_ns
        # Without a scale no float is involved: its 53 bits are exact for some 104 days of ns only.
        return elapsed if self.scale == 1.0 else round(elapsed / self.scale)

    def host_ns(self, cluster_ns: int) -> int:
        """Return the host reading at a cluster time."""
        return self.zero_ns + self.pad_ns(cluster_ns)

    def pad_ns(self, cluster_ns: int) -> int:
        """Return the host's length of a cluster duration."""
        return cluster_ns if self.scale == 1.0 else round(cluster_ns * self.scale)
