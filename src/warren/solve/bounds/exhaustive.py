"""Exact optima of tiny instances by exhaustive search: the yardstick of bounds and policies.

Every schedule, written in order of start times, is a sequence of (job, device) choices in which
each task starts as soon as its device and its barrier allow; so the search appends one task after
another, never before the last start. Network ``constant``. About ten tasks are the limit.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class TinyInstance:
    """An instance; times in ns (any integers), shapes (J,), (J, T), (D,)."""

    arrival_ns_J: Ints
    weight_J: npt.NDArray[np.float64]
    scale_J: Ints
    rounds_J: Ints
    comp_ns_JT: Ints
    sync_ns_JT: Ints
    fits_JT: npt.NDArray[np.bool_]
    type_D: Ints


def least_weighted_jct(tiny: TinyInstance) -> float:
    """The least sum of w_j (C_j - a_j), in ns."""
    return _Search(tiny, weighted=True).run()


def least_makespan(tiny: TinyInstance) -> float:
    """The least last end minus first arrival, in ns."""
    return _Search(tiny, weighted=False).run()


@dataclass(slots=True)
class _Node:
    """A partial schedule: per job round, tasks left in it, when it may start, its barrier."""

    free: list[int]
    round_: list[int]
    left: list[int]
    ready: list[int]
    barrier: list[int]
    last_start: int = 0

    def copy(self) -> _Node:
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
    tiny: TinyInstance
    weighted: bool
    best: float = float("inf")
    least: list[int] = field(default_factory=list)

    def run(self) -> float:
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
        """Of the schedule if complete, else a lower bound: each job goes on undisturbed."""
        tiny = self.tiny
        ends = [
            max(node.barrier[j], node.ready[j] + (self.least[j] if node.left[j] else 0))
            + self.least[j] * max(0, int(tiny.rounds_J[j]) - node.round_[j] - 1)
            if node.round_[j] < tiny.rounds_J[j]
            else node.ready[j]
            for j in range(len(node.left))
        ]
        if self.weighted:
            return float(tiny.weight_J @ (np.array(ends) - tiny.arrival_ns_J))
        return float(max(ends) - tiny.arrival_ns_J.min())

    def _extend(self, node: _Node) -> None:
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
                alike = (kind, node.free[device])
                start = max(node.ready[job], node.free[device])
                if alike in tried or not self.tiny.fits_JT[job, kind] or start < node.last_start:
                    continue
                tried.add(alike)
                self._extend(self._with(node, job, device, kind, start))

    def _with(self, node: _Node, job: int, device: int, kind: int, start: int) -> _Node:
        child, tiny = node.copy(), self.tiny
        comp_end = start + int(tiny.comp_ns_JT[job, kind])
        child.free[device], child.last_start = comp_end, start
        child.barrier[job] = max(child.barrier[job], comp_end + int(tiny.sync_ns_JT[job, kind]))
        child.left[job] -= 1
        if child.left[job] == 0:
            child.round_[job] += 1
            child.left[job] = int(tiny.scale_J[job])
            child.ready[job], child.barrier[job] = child.barrier[job], 0
        return child
