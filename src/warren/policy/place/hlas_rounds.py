"""One decision of HLAS that gives a group whole rounds: which tasks go to which of its devices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final, NamedTuple

import numpy as np

from warren.model.costs import BoolArray, IntArray
from warren.model.plan import ENDLESS, Assignment
from warren.policy.place.hlas_step import Spot, Step
from warren.policy.place.line import put, take
from warren.solve.group_rounds import Desk, Front, open_desk, walk

DECLINED: Final = 16
"""So many jobs may leave idle devices of a group for better ones before nobody else is asked."""
_BATCH: Final = 16
"""Jobs that are walked in one go, at most."""
_FAR_NS: Final = 2**61
"""No stretch is expected to last longer: 73 years."""


class _Open(NamedTuple):
    """A group with idle devices: its ``devices`` (D,), and types of those that are idle."""

    group: int
    devices: IntArray
    idle_T: BoolArray
    desk: Desk


@dataclass(slots=True, kw_only=True)
class RoundStep(Step):
    """One decision in the making.

    ``by_completion``: a task goes to the device of its group on which it completes first, else to
    the one that is available first. ``free_ns_D``: when the COMP lane of each device is expected to
    be free. ``group_of``: where the rounds of ``partly`` have begun.
    """

    by_completion: bool
    free_ns_D: IntArray
    group_of: dict[int, int]

    def serve(self) -> None:
        """Every group with an idle device takes what it can, the fastest group first."""
        self.group_of = {one.job: self.group_of[one.job] for one in self.partly}
        if self.line is None and not self.partly:
            return
        idle_D = self.view.queued_D == 0
        idle_G = np.bincount(self.groups.group_D, weights=idle_D)
        begun = set(self.group_of.values())
        for group in idle_G.nonzero()[0].tolist():
            if self.line is not None or group in begun:
                self._fill(group, idle_D)

    def _fill(self, group: int, idle_D: BoolArray) -> None:
        """Let the jobs in line take devices of a group, and note when these are free again."""
        view, (devices, kind_D, pool) = self.view, self.groups.parts[group]
        idle_D = idle_D[devices]
        idle_T = np.zeros(view.costs.fits_JT.shape[1], np.bool_)
        idle_T[kind_D[idle_D]] = True
        later_ns_D = np.maximum(self.free_ns_D[devices], view.now_ns + 1)
        free_ns_D = np.where(idle_D, view.now_ns, later_ns_D)
        load_D = np.zeros(len(devices), np.int64)
        desk = Desk(pool, kind_D, free_ns_D, load_D)
        open_desk(desk)
        self._walk(_Open(group, devices, idle_T, desk), int(idle_D.sum()))
        self.free_ns_D = self.free_ns_D.copy()
        self.free_ns_D[devices] = free_ns_D

    def _walk(self, at: _Open, takeable: int) -> None:
        """Ask jobs until no device is idle or too many have declined."""
        passed: list[Spot] = []
        waiting = self._waiting(at, passed)
        declined, batch = 0, 1
        while takeable and declined < DECLINED:
            spots = list(islice(waiting, batch))
            if not spots:
                break
            left, takeable = self._place(at, spots, takeable)
            declined += len(left)
            passed += left
            batch = min(2 * batch, _BATCH)
        for one in passed:
            self.line = put(self.line, one)

    def _waiting(self, at: _Open, passed: list[Spot]) -> Iterator[Spot]:
        """Who may take of a group, first to last: of a queue, rounds begun there before others.

        Who fits no idle device of it is ``passed`` over.
        """
        begun = [one for one in self.partly if self.group_of[one.job] == at.group]
        seen: set[int] = set()
        fits_JT = self.view.costs.fits_JT
        while begun or self.line is not None:
            if begun and (self.line is None or begun[0].queue <= self.line.first.queue):
                entry = begun.pop(0)
                if fits_JT[entry.job][at.idle_T].any():
                    yield entry
                continue
            assert self.line is not None, "else somebody has begun"
            entry, self.line = take(self.line)
            job = entry.job
            if job in seen or job in self.group_of or not self._stands(entry):
                continue
            seen.add(job)
            if fits_JT[job][at.idle_T].any():
                yield entry
            else:
                passed.append(entry)

    def _place(self, at: _Open, spots: list[Spot], takeable: int) -> tuple[list[Spot], int]:
        """Place what jobs can start; who of the line started nothing, and what is left to take."""
        front = self._front(at, [one.job for one in spots])
        rows = np.zeros((4, int(front.scale_N.sum())), np.int64)
        chosen_K = np.zeros(int(front.scale_N.max()), np.int64)
        view = self.view
        count, takeable = walk(
            front, at.desk, view.now_ns, view.grain.time_ns or 0, self.by_completion, takeable,
            rows, chosen_K,
        )  # fmt: skip
        started: dict[int, Counter[tuple[int, int]]] = {}
        for place, _, device, rounds in rows[:, :count].T.tolist():
            started.setdefault(place, Counter())[at.devices.item(device), rounds] += 1
        for place, tasks_of in started.items():
            self._start(at.group, spots[place], tasks_of)
        left = [
            one
            for place, one in enumerate(spots)
            if place not in started and one.job not in self.group_of
        ]
        return left, int(takeable)

    def _start(self, group: int, entry: Spot, tasks_of: Counter[tuple[int, int]]) -> None:
        """Hand out so many tasks to each device, for so many rounds; shards in their order."""
        view, job = self.view, entry.job
        first, scale = view.next_round_J.item(job), view.scale_J.item(job)
        shard = self.shard.get(job, view.next_shard_J.item(job))
        for (device, rounds), tasks in tasks_of.items():
            shards = tuple(range(shard, shard + tasks))
            self.assign.append(Assignment(device, job, first, rounds, shards))
            shard += tasks
        self.shard[job] = shard
        if shard < scale and job not in self.group_of:
            self.partly = sorted([*self.partly, entry])
            self.group_of[job] = group
        elif shard == scale and self.group_of.pop(job, None) is not None:
            self.partly = [one for one in self.partly if one.job != job]

    def _front(self, at: _Open, jobs: list[int]) -> Front:
        """The jobs as the kernel walks them."""
        costs, view = self.view.costs, self.view
        job_N = np.array(jobs)
        first_T = at.desk.pool.first_T
        usable_NT = costs.fits_JT[job_N] & (first_T[1:] > first_T[:-1])
        comp_ns_NT = np.where(usable_NT, costs.comp_ns_JT[job_N], 0)
        turn_ns_NT = np.where(usable_NT, comp_ns_NT + costs.sync_ns_JT[job_N], 0)
        shard_N = [self.shard.get(job, view.next_shard_J.item(job)) for job in jobs]
        front = Front(
            scale_N=view.scale_J[job_N],
            shard_N=np.array(shard_N),
            rounds_N=np.ones(len(jobs), np.int64),
            comp_ns_NT=comp_ns_NT,
            turn_ns_NT=turn_ns_NT,
            usable_NT=usable_NT,
        )
        if view.grain.rounds != 1:
            self._stretches(front, len(at.devices))
        return front

    def _stretches(self, front: Front, devices: int) -> None:
        """Rounds of a stretch of each job, if all its tasks were on devices of its fastest type."""
        tasks_N = -(-front.scale_N // devices)[:, None]
        round_ns_NT = (tasks_N - 1) * front.comp_ns_NT + front.turn_ns_NT
        least_ns_N = np.where(front.usable_NT, round_ns_NT, _FAR_NS).min(axis=1)
        longest_ns_N = np.maximum(1, (tasks_N * front.turn_ns_NT).max(axis=1)) * front.scale_N
        for place, (least_ns, longest_ns) in enumerate(
            zip(least_ns_N.tolist(), longest_ns_N.tolist(), strict=True)
        ):
            if front.shard_N[place] == 0:
                rounds = self.view.grain.rounds_for(least_ns, ENDLESS)
                front.rounds_N[place] = max(1, min(rounds, _FAR_NS // longest_ns))
