"""When gangs are there: the processes of a ring take time to start, which no profile tells.

As the live engine does it (``warren.live.rings.gangs``): a gang is formed as soon as all ranks of a
stretch have a device, whether these are free or not, and stays while stretches follow each other on
the same devices in the same order. For others it is formed anew, once the barrier before has passed
and its state is on disk. With N ranks that start at one instant, on P cores::

    there = formed + (move, if it was elsewhere) + start + rank max(1, N / P)

``start``, ``rank`` and ``move`` are measured, in real time (docs/decisions/0026). It counts where
devices would wait for the gang: behind other jobs and before an arrival it is hidden. An emulated
rank's pad begins when its devices are free, as any does, and ends no sooner than the gang is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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
        "_rank_ns",
        "_ranks",
        "_scale_J",
        "_start_ns",
        "_whole_ns",
        "padded",
    )

    def __init__(self, run: Run) -> None:
        overheads, emulate = run.cluster.overheads, run.cluster.emulate
        assert overheads is not None, "without them no gang takes time"
        self.padded = emulate is not None
        scale = 1.0 if emulate is None else emulate.time_scale
        self._start_ns = overheads.ring_start_ns / scale
        self._rank_ns = overheads.ring_rank_ns / scale
        self._move_ns = overheads.ring_move_ns / scale
        self._cores = overheads.cores
        self._scale_J = [job.scale for job in run.workload.jobs]
        self._coming: dict[tuple[int, int], dict[int, int]] = {}
        self._whole_ns: dict[tuple[int, int], int] = {}
        self._passed_ns: dict[int, int] = {}
        self._gang_of: dict[int, tuple[tuple[int, ...], int]] = {}
        self._instant_ns, self._ranks = -1, 0  # what starts at this instant

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
            self._instant_ns, self._ranks = now, 0
        self._ranks += sum(map(len, formed.values()))
        there_ns = now + self._took_ns(self._ranks)
        for job, where in formed.items():
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
            there_ns = left_ns + self._took_ns(len(where)) + round(self._move_ns)
            self._gang_of[job] = where, there_ns
        return there_ns

    def _took_ns(self, ranks: int) -> int:
        return round(self._start_ns + self._rank_ns * max(1.0, ranks / self._cores))
