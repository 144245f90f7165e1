"""Exact optima of tiny instances by exhaustive search: the yardstick of bounds and policies.

Every schedule, written in order of start times, is a sequence of (job, device) choices in which
each task starts as soon as its device and its barrier allow; so the search appends one task after
another, never before the last start. Network ``constant``. About ten tasks are the limit.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from warren.solve.common.arrays import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class TinyInstance:
    """An instance small enough for this; times in ns (any integers), shapes (J,), (J, T), (D,)."""

    arrival_ns_J: IntArray
    weight_J: FloatArray
    scale_J: IntArray
    rounds_J: IntArray
    comp_ns_JT: IntArray
    sync_ns_JT: IntArray
    fits_JT: BoolArray
    type_D: IntArray


def least_weighted_jct(tiny: TinyInstance) -> float:
    """Compute the least sum of w_j (C_j - a_j) of any schedule, in ns."""
    return _Search(tiny, weighted=True).run()


def least_makespan(tiny: TinyInstance) -> float:
    """Compute the least last end minus first arrival of any schedule, in ns."""
    return _Search(tiny, weighted=False).run()


@dataclass(slots=True)
class _Node:
    """A partial schedule.

    ``free``: when each device has computed. Of each job: the round of which tasks start next, the
    tasks left in it, when it may start, and when those of its tasks that have started have all
    synchronized, which is its barrier.
    """

    free: list[int]
    round_: list[int]
    left: list[int]
    ready: list[int]
    barrier: list[int]
    last_start: int = 0

    def copy(self) -> _Node:
        """Return the same with lists of its own."""
        return _Node(
            self.free[:],
            self.round_[:],
            self.left[:],
            self.ready[:],
            self.barrier[:],
            self.last_start,
        )


@dataclass(slots=True)
class _Search:
    """Depth first, with the value of the best schedule found and each job's least T^c + T^s."""

    tiny: TinyInstance
    weighted: bool
    best: float = float("inf")
    least: list[int] = field(default_factory=list)

    def run(self) -> float:
        """Look at all schedules that can be better; return the least value."""
        tiny = self.tiny
        types = sorted(set(tiny.type_D.tolist()))
        turn_JT = np.where(tiny.fits_JT, tiny.comp_ns_JT + tiny.sync_ns_JT, np.int64(2**61))
        self.least = turn_JT[:, types].min(axis=1).tolist()
        jobs = len(tiny.scale_J)
        self._extend(
            _Node(
                free=[0] * len(tiny.type_D),
                round_=[0] * jobs,
                left=tiny.scale_J.tolist(),
                ready=tiny.arrival_ns_J.tolist(),
                barrier=[0] * jobs,
            )
        )
        return self.best

    def _value(self, node: _Node) -> float:
        """Return the value of a schedule; of a partial one a lower bound.

        For the bound each job goes on undisturbed, a round in its least T^c + T^s.
        """
        tiny = self.tiny
        ends = []
        for job in range(len(node.left)):
            end = node.ready[job]
            if node.round_[job] < tiny.rounds_J[job]:
                # One turn more for the tasks left of this round, and one for each round after it.
                turn = self.least[job] if node.left[job] else 0
                rounds = max(0, int(tiny.rounds_J[job]) - node.round_[job] - 1)
                end = max(node.barrier[job], end + turn) + self.least[job] * rounds
            ends.append(end)
        if self.weighted:
            return float(tiny.weight_J @ (np.array(ends) - tiny.arrival_ns_J))
        return float(max(ends) - tiny.arrival_ns_J.min())

    def _extend(self, node: _Node) -> None:
        """Try every next task of a partial schedule that may lead to a better one."""
        value = self._value(node)
        if value >= self.best:
            return
        open_jobs = [j for j in range(len(node.left)) if node.round_[j] < self.tiny.rounds_J[j]]
        if not open_jobs:
            self.best = value
            return
        for job in open_jobs:
            tried = set()
            for device, kind in enumerate(self.tiny.type_D.tolist()):
                # Devices of one type that are free at one time are alike: the first is enough.
                alike = (kind, node.free[device])
                start = max(node.ready[job], node.free[device])
                if alike in tried or not self.tiny.fits_JT[job, kind] or start < node.last_start:
                    continue
                tried.add(alike)
                self._extend(self._with(node, job, device, kind, start))

    def _with(self, node: _Node, job: int, device: int, kind: int, start: int) -> _Node:
        """Return the partial schedule with one task more, which starts at ``start``."""
        child, tiny = node.copy(), self.tiny
        comp_end = start + int(tiny.comp_ns_JT[job, kind])
        child.free[device], child.last_start = comp_end, start
        child.barrier[job] = max(child.barrier[job], comp_end + int(tiny.sync_ns_JT[job, kind]))
        child.left[job] -= 1
        # The round's last task has started: the next round may start when all have synchronized.
        if child.left[job] == 0:
            child.round_[job] += 1
            child.left[job] = int(tiny.scale_J[job])
            child.ready[job], child.barrier[job] = child.barrier[job], 0
        return child
