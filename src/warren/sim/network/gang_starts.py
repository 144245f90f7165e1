"""The starts of gangs: the processes of a ring take time to start, which no profile states.

As the live engine does it (``warren.live.control.ring_gangs``): a gang is formed when all ranks of
a stretch have devices. It is formed at once if these wait for nothing else and its job has arrived.
Other gangs are formed one after another, in order of arrival, at the latest when their devices have
come to them. A gang stays while stretches follow each other on the same devices in the same order.
For other stretches the gang is formed again, once the barrier before has passed and its state is on
disk. A rank takes the processor for ``rank`` and for the time to build its app (``build`` of the
job's profile). On P cores, with all ranks that start at one instant::

    there = formed + (move, if it was elsewhere) + start + max(own rank, sum of ranks / P)

If several begin later at one instant, or move, each is charged as if alone. ``start``, ``rank`` and
``move`` are measured, in real time (decision 0026). It counts where devices would wait for
the gang: behind other jobs and before an arrival it is hidden. An emulated rank's pad begins when
its devices are free, as any does, and ends no sooner than the gang is there.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

import numpy as np

from warren.model.costs import CostTable
from warren.model.decision import Assignment
from warren.model.run import Run


class GangStarts:
    """The gang of each ring: its devices in the order of ranks, and since when it is there."""

    __slots__ = (
        "_cores",
        "_events",
        "_gang_of",
        "_instant_ns",
        "_jobs",
        "_move_ns",
        "_passed_ns",
        "_rank_ns_JT",
        "_start_ns",
        "_there_ns",
        "_together_ns",
        "_type_D",
        "_waiting",
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
        self._jobs = run.workload.jobs
        self._events: dict[tuple[int, int], dict[int, int]] = {}
        self._whole_ns: dict[tuple[int, int], int] = {}
        self._passed_ns: dict[int, int] = {}
        self._gang_of: dict[int, tuple[tuple[int, ...], int]] = {}
        # Gangs that are not formed yet, by job: their devices, and since when these are known.
        self._waiting: dict[int, tuple[tuple[int, ...], int]] = {}
        # When all gangs that have been formed are there.
        self._there_ns = 0
        # The processor time of all ranks that start at this one instant.
        self._instant_ns, self._together_ns = -1, 0.0

    def assign(self, ranks: Iterable[Assignment], begins: Container[Assignment], now: int) -> None:
        """Note that ranks have devices, and form gangs that are whole, if their job has none.

        Ranks in ``begins`` wait for nothing else.
        """
        # Gangs whose turn came since the last call are formed before those that begin now.
        self._form_in_turn(now)
        # The stretches, by job and round, some of whose ranks wait for something.
        later: set[tuple[int, int]] = set()
        at_once: list[int] = []
        for one in ranks:
            what = one.job, one.round
            devices = self._events.setdefault(what, {})
            devices[one.shards[0]] = one.device
            if one not in begins:
                later.add(what)
            if len(devices) == self._jobs[one.job].scale:
                del self._events[what]
                self._whole_ns[what] = now
                if one.job not in self._gang_of and one.job not in self._waiting:
                    self._waiting[one.job] = tuple(devices[r] for r in range(len(devices))), now
                    if what not in later:
                        at_once.append(one.job)
        # Ranks of all gangs that start at one instant share the cores: their processor time adds
        # up, also over several calls at that instant.
        if now != self._instant_ns:
            self._instant_ns, self._together_ns = now, 0.0
        self._together_ns += sum(self._cpu_ns(job, self._waiting[job][0]) for job in at_once)
        for job in at_once:
            self._form(job, now, self._together_ns)
        self._form_in_turn(now)

    def pass_barrier(self, job: int, now: int) -> None:
        """Note that a gang that has to be elsewhere may go now."""
        self._passed_ns[job] = now

    def there_ns(self, job: int, round_: int, devices: Sequence[int], now: int) -> int:
        """Return when the gang of a stretch is ready, if all its devices have reached it now."""
        self._form_in_turn(now)
        if job in self._waiting:
            self._form(job, now)
        whole_ns, where = self._whole_ns.pop((job, round_)), tuple(devices)
        before, there_ns = self._gang_of[job]
        # On other devices, or in another order of ranks, the gang is formed again: not before all
        # ranks of the stretch have devices and the barrier before has passed.
        if where != before:
            left_ns = max(whole_ns, self._passed_ns[job]) + round(self._move_ns)
            there_ns = left_ns + self._took_ns(job, where)
            self._gang_of[job] = where, there_ns
        return there_ns

    def _form_in_turn(self, now: int) -> None:
        """Form gangs that wait, one after another, each when all formed before are there."""
        while self._waiting and self._there_ns <= now:
            job = min(self._waiting, key=self._turn)
            self._form(job, max(self._there_ns, self._waiting[job][1]))

    def _turn(self, job: int) -> tuple[int, int]:
        """Return the order in which gangs are formed: by arrival."""
        return self._jobs[job].arrival_ns, job

    def _form(self, job: int, now: int, together_ns: float = 0.0) -> None:
        """Form the gang of a job that waits; ``together_ns`` as in ``_took_ns``."""
        where, _ = self._waiting.pop(job)
        there_ns = now + self._took_ns(job, where, together_ns)
        self._gang_of[job] = where, there_ns
        self._there_ns = max(self._there_ns, there_ns)

    def _took_ns(self, job: int, where: Sequence[int], together_ns: float = 0.0) -> int:
        """Return how long a gang takes to start; ``together_ns`` is the CPU time of all with it."""
        # start + max(own rank, sum of ranks / P): no rank is quicker than alone on a core, and P
        # cores do not do more than P seconds of work a second.
        together_ns = max(together_ns, self._cpu_ns(job, where))
        longest_ns = max(self._rank_ns_JT[job][self._type_D[device]] for device in where)
        took_ns: float = self._start_ns + max(longest_ns, together_ns / self._cores)
        return round(took_ns)

    def _cpu_ns(self, job: int, where: Sequence[int]) -> float:
        """Return the processor time of all its ranks until it is there, ns."""
        return float(sum(self._rank_ns_JT[job][self._type_D[device]] for device in where))
