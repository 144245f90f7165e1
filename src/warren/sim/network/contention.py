"""What an exchange of each ring takes, given all rings that are at work."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from warren.cost.ring import RingJobs, round_s_J
from warren.cost.run_rings import host_of_D, ring_exchanges, ring_network
from warren.model.costs import CostTable, IntArray
from warren.model.run import Run
from warren.model.units import seconds_to_ns


class ContentionLinks:
    """Exchange times under ``network: contention``; else they are T^s, which is not asked here."""

    __slots__ = ("_host_D", "_hosts", "_jobs", "_network", "from_profile")

    def __init__(self, run: Run, costs: CostTable) -> None:
        self.from_profile = run.cluster.network.model != "contention"
        self._network = ring_network(run.cluster)
        self._jobs = ring_exchanges(run.workload.jobs, costs)
        self._host_D = host_of_D(run.cluster)
        self._hosts = len(run.cluster.hosts)

    def workers_S(self, devices: Sequence[int]) -> IntArray:
        """y_js: so many of these devices are on each host."""
        return np.bincount(self._host_D[list(devices)], minlength=self._hosts)

    def exchange_ns_J(self, jobs: Sequence[int], workers_JS: IntArray) -> list[int]:
        """(8) without compute time, for these jobs where they and no others are at work."""
        if self.from_profile:
            return [0] * len(jobs)
        rows = list(jobs)
        rings = RingJobs(
            model_bytes_J=self._jobs.model_bytes_J[rows],
            workers_J=self._jobs.workers_J[rows],
            comp_s_J=self._jobs.comp_s_J[rows],
        )
        return [seconds_to_ns(one) for one in round_s_J(self._network, rings, workers_JS).tolist()]
