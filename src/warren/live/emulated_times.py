"""How long an emulated task lasts: its profile times, and what only the live side knows of.

Hidden are ``emulate.slower``, which multiplies both times on a device type, and ``emulate.jitter``,
from whose measured times each task draws a factor of its COMP. What a task draws follows from
(run seed, job, round, shard), so it is the same on every device and in every order; a task that
runs again takes as long again.
"""

from __future__ import annotations

import os
from typing import TypeAlias

import msgspec

from warren.live.clock import ClusterClock
from warren.live.jitter import PPM, read_jitter
from warren.model.costs import CostTable
from warren.model.draws import JITTER, draw_bits, stream_key
from warren.model.run import Run
from warren.model.units import NEVER_NS

Pair: TypeAlias = tuple[int, int]
"""Real nanoseconds that COMP and synchronisation are padded to; both 0: not padded."""


class PadTable(msgspec.Struct, frozen=True, array_like=True):
    """The pads of one device, small enough for a message: what its executor computes them from.

    ``pads_J`` are those of each job without jitter; ``jitter_ppm`` the factors to draw from, in
    parts per million; empty: none.
    """

    pads_J: tuple[Pair, ...]
    seed: int = 0
    jitter_ppm: tuple[int, ...] = ()

    def constant(self, job: int) -> Pair:
        """The pads of a task of this job before it draws."""
        return self.pads_J[job]

    def pads(self, job: int, round_no: int, shard: int) -> Pair:
        """The pads of one task."""
        comp_ns, sync_ns = self.pads_J[job]
        if not self.jitter_ppm or not comp_ns:
            return comp_ns, sync_ns
        drawn = draw_bits(stream_key(self.seed, JITTER, job), round_no, shard)
        factor_ppm = self.jitter_ppm[drawn % len(self.jitter_ppm)]
        return max(1, comp_ns * factor_ppm // PPM), sync_ns


class Pads:
    """The pads of a run. Device types are positions on the type axis.

    Raises
    ------
    SpecError
        If the file of ``emulate.jitter`` cannot be used.
    """

    def __init__(self, run: Run, costs: CostTable) -> None:
        self._run, self._costs = run, costs
        jitter_ppm = check_jitter(run)
        kinds = range(len(run.cluster.types))
        self._tables = tuple(
            PadTable(pads_J=self._pads_J(kind), seed=run.seed, jitter_ppm=jitter_ppm)
            for kind in kinds
        )

    def table(self, device_type: int) -> PadTable:
        """What an executor of a device of this type needs."""
        return self._tables[device_type]

    def constant(self, job: int, device_type: int) -> Pair:
        """The pads of a task of this job before it draws."""
        return self._tables[device_type].constant(job)

    def of(self, job: int, device_type: int, round_no: int, shard: int) -> Pair:
        """The pads of one task."""
        return self._tables[device_type].pads(job, round_no, shard)

    def _pads_J(self, kind: int) -> tuple[Pair, ...]:
        emulate = self._run.cluster.emulate
        jobs = range(len(self._run.workload.jobs))
        if emulate is None:
            return tuple((0, 0) for _ in jobs)
        slower = emulate.slower.get(self._run.cluster.type_names[kind], 1.0)
        clock = ClusterClock(0, emulate.time_scale)

        def real(cluster_ns: int) -> int:
            pad_ns = clock.pad_ns(cluster_ns)
            return min(NEVER_NS, pad_ns if slower == 1.0 else round(pad_ns * slower))

        comp_ns_J = self._costs.comp_ns_JT[:, kind].tolist()
        sync_ns_J = self._costs.sync_ns_JT[:, kind].tolist()
        return tuple((max(1, real(comp_ns_J[job])), real(sync_ns_J[job])) for job in jobs)


def check_jitter(run: Run) -> tuple[int, ...]:
    """The factors that the run's tasks draw from; none where it states none or pads nothing.

    Raises
    ------
    SpecError
        If the file of ``emulate.jitter`` cannot be used.
    """
    emulate = run.cluster.emulate
    if emulate is None or not emulate.jitter or run.cluster.engine == "plain":
        return ()
    return read_jitter(os.path.join(run.base, emulate.jitter))
