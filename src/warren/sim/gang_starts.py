"""When gangs are there: the processes of a ring take time to start, which no profile tells.

As the live engine does it (``warren.live.rings.gangs``): a gang is formed as soon as all ranks of a
stretch have a device, whether these are free or not, and stays while stretches follow each other on
the same devices in the same order. For others it is formed anew, once the barrier before has passed
and its state is on disk. A rank takes the processor for ``rank`` and for what its app takes to be
built (``build`` of the job's profile). On P cores, with all ranks that start at one instant::

    there = formed + (move, if it was elsewhere) + start + max(own rank, sum of ranks / P)

``start``, ``rank`` and ``move`` are measured, in real time (docs/decisions/0026). It counts where
devices would wait for the gang: behind other jobs and before an arrival it is hidden. An emulated
rank's pad begins when its devices are free, as any does, and ends no sooner than the gang is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from warren.model.costs import CostTable
from warren.model.plan import Assignment
from warren.model.run import Run


class GangStarts:
    """Of each ring, the devices of its gang in the order of ranks, and since when it is there."""

    __slots__ = (
        "_coming",
        "_cores",
        "_gang_of",
        "_instant_ns",
        "_move_ns",
        "_passed_ns",
        "_rank_ns_JT",
        "_scale_J",
        "_start_ns",
        "_together_ns",
        "_type_D",
        "_whole_ns",
        "padded",
    )

    def __init__(self, run: Run, costs: CostTable) -> None:
        overheads, emulate = run.cluster.overheads, run.cluster.emulate
        assert overheads is not None, "without them no gang takes time"
        self.padded = emulate is not None
        scale = 1.0 if emulate is None else emulate.time_scale
        self._start_ns = overheads.ring_start_ns / scale
        build_ns_JT = costs.build_ns_JT
        if build_ns_JT is None:
            build_ns_JT = np.zeros_like(costs.comp_ns_JT)
        self._rank_ns_JT = (overheads.ring_rank_ns / scale + build_ns_JT).tolist()
        self._type_D = run.cluster.type_of_device
        self._move_ns = overheads.ring_move_ns / scale
        self._cores = overheads.cores
        self._scale_J = [job.scale for job in run.workload.jobs]
        self._coming: dict[tuple[int, int], dict[int, int]] = {}
        self._whole_ns: dict[tuple[int, int], int] = {}
        self._passed_ns: dict[int, int] = {}
        self._gang_of: dict[int, tuple[tuple[int, ...], int]] = {}
        self._instant_ns, self._together_ns = -1, 0.0  # what starts at this instant

    def assign(self, ranks: Iterable[Assignment], now: int) -> None:
        """Ranks have devices. Gangs that are whole are formed, if their job has none."""
        formed: dict[int, tuple[int, ...]] = {}
        for one in ranks:
            what = one.job, one.round
            devices = self._coming.setdefault(what, {})
            devices[one.shards[0]] = one.device
            if len(devices) == self._scale_J[one.job]:
                del self._coming[what]
                self._whole_ns[what] = now
                if one.job not in self._gang_of and one.job not in formed:
                    formed[one.job] = tuple(devices[rank] for rank in range(len(devices)))
        if now != self._instant_ns:
            self._instant_ns, self._together_ns = now, 0.0
        self._together_ns += sum(sum(self._ranks_ns(*one)) for one in formed.items())
        for job, where in formed.items():
            there_ns = now + self._took_ns(self._ranks_ns(job, where), self._together_ns)
            self._gang_of[job] = where, there_ns

    def pass_barrier(self, job: int, now: int) -> None:
        """A gang that has to be elsewhere may go now."""
        self._passed_ns[job] = now

    def there_ns(self, job: int, round_: int, devices: Sequence[int]) -> int:
        """When the gang of a stretch is there, whose devices have all come to it."""
        whole_ns, where = self._whole_ns.pop((job, round_)), tuple(devices)
        before, there_ns = self._gang_of[job]
        if where != before:
            left_ns = max(whole_ns, self._passed_ns[job])
            ranks_ns = self._ranks_ns(job, where)
            there_ns = left_ns + self._took_ns(ranks_ns, sum(ranks_ns)) + round(self._move_ns)
            self._gang_of[job] = where, there_ns
        return there_ns

    def _ranks_ns(self, job: int, where: Sequence[int]) -> list[float]:
        """Processor time of each of its ranks until it is there."""
        return [self._rank_ns_JT[job][self._type_D[device]] for device in where]

    def _took_ns(self, ranks_ns: Sequence[float], together_ns: float) -> int:
        """A gang's ranks, among all that share the cores."""
        return round(self._start_ns + max(*ranks_ns, together_ns / self._cores))
