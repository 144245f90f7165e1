"""One decision of HLAS that gives a group whole rounds: which tasks go to which of its devices."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from warren.model.costs import BoolArray, IntArray
from warren.model.plan import ENDLESS, Assignment
from warren.policy.place.hlas_step import Spot, Step
from warren.solve.group_rounds import Desk, Front, asked, open_desk, walk

DECLINED: Final = 512
"""So many jobs may leave idle devices of a group for better ones before nobody else is asked."""
_AT_ONCE: Final = 32
"""Jobs that are looked at in one go."""
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
        """Every group with an idle device takes what it can: the fastest first, of groups that are
        as fast the one with most idle devices."""
        self.group_of = {one.job: self.group_of[one.job] for one in self.partly}
        if not (self.line or self.partly):
            return
        idle_D = self.view.queued_D == 0
        idle_G = np.bincount(self.groups.group_D, weights=idle_D)
        begun = set(self.group_of.values())
        self.free_ns_D = self.free_ns_D.copy()
        order_G = np.lexsort((-idle_G, self.groups.rank_G))
        for group in order_G[idle_G[order_G] > 0].tolist():
            if self.line or group in begun:
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
        self._walk(_Open(group, devices, idle_T, desk), asked(int(idle_D.sum())))
        self.free_ns_D[devices] = free_ns_D

    def _walk(self, at: _Open, so_far: IntArray) -> None:
        """Ask jobs until no device is idle or too many have declined."""
        order, has_ended = self._order(at), False
        for first in range(0, len(order), _AT_ONCE):
            spots = order[first : first + _AT_ONCE]
            job_N = np.array([one.job for one in spots])
            asked_N = self._asked(at, spots, job_N).nonzero()[0]
            if len(asked_N):
                has_ended = self._place(at, spots, job_N, asked_N, so_far)
            if has_ended:
                break

    def _order(self, at: _Open) -> list[Spot]:
        """Who may take of a group, first to last: of a queue, rounds begun there before others."""
        order = self.line.copy()
        for one in reversed(self.partly):
            if self.group_of[one.job] == at.group:
                order.insert(bisect_left(self.line, (one.queue,)), one)
        return order

    def _asked(self, at: _Open, spots: list[Spot], job_N: IntArray) -> BoolArray:
        """Who of them waits there still and fits an idle device; who waits no more leaves."""
        view, fits_JT = self.view, self.view.costs.fits_JT
        waits_N: BoolArray = view.open_J[job_N] & (view.next_round_J[job_N] == view.round_J[job_N])
        if not self.fixed:
            waits_N &= np.array([self._stands(one) for one in spots])
        waits_N |= self._begun(job_N)
        for place in (~waits_N).nonzero()[0].tolist():
            self._leave(spots[place])
        if not fits_JT.all():
            waits_N &= fits_JT[job_N][:, at.idle_T].any(axis=1)
        return waits_N

    def _begun(self, job_N: IntArray) -> BoolArray:
        if not self.group_of:
            return np.zeros(len(job_N), np.bool_)
        return np.array([job in self.group_of for job in job_N.tolist()])

    def _leave(self, entry: Spot) -> None:
        """Take an entry out of the line, if it stands there."""
        place = bisect_left(self.line, entry)
        if place < len(self.line) and self.line[place] == entry:
            del self.line[place]

    def _place(
        self, at: _Open, spots: list[Spot], job_N: IntArray, asked_N: IntArray, so_far: IntArray
    ) -> bool:
        """Place what jobs can start; whether nobody else is to be asked."""
        view, front = self.view, self._front(at, job_N[asked_N])
        scale_N = front.scale_J[front.job_N]
        rows = np.zeros((4, scale_N.sum()), np.int64)
        chosen_K = np.zeros(scale_N.max(), np.int64)
        count, has_ended = walk(
            front, at.desk, view.now_ns, view.grain.time_ns or 0, self.by_completion, DECLINED,
            so_far, rows, chosen_K,
        )  # fmt: skip
        started: dict[int, Counter[tuple[int, int]]] = {}
        for place, _, device, rounds in rows[:, :count].T.tolist():
            started.setdefault(place, Counter())[at.devices.item(device), rounds] += 1
        for place, tasks_of in started.items():
            entry = spots[asked_N.item(place)]
            self._leave(entry)
            self._start(at.group, entry, tasks_of)
        return bool(has_ended)

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

    def _front(self, at: _Open, job_N: IntArray) -> Front:
        """The jobs as the kernel walks them."""
        costs, view = self.view.costs, self.view
        shard_N = view.next_shard_J[job_N]
        if self.shard:
            pairs = zip(job_N.tolist(), shard_N.tolist(), strict=True)
            shard_N = np.array([self.shard.get(job, shard) for job, shard in pairs])
        return Front(
            job_N=job_N,
            shard_N=shard_N,
            rounds_N=self._rounds(at, job_N, shard_N),
            begun_N=self._begun(job_N),
            scale_J=view.scale_J,
            comp_ns_JT=costs.comp_ns_JT,
            turn_ns_JT=self.groups.known.turns(costs),
            fits_JT=costs.fits_JT,
        )

    def _rounds(self, at: _Open, job_N: IntArray, shard_N: IntArray) -> IntArray:
        """Rounds of a stretch of each job; those found are kept, as they follow from costs."""
        if self.view.grain.rounds == 1:
            return np.ones(len(job_N), np.int64)
        rounds_J = self.groups.known.rounds_in(at.group, len(self.view.jobs))
        rounds_N = rounds_J[job_N]
        if not rounds_N.all():
            for job in job_N[rounds_N == 0].tolist():
                rounds_J[job] = self._rounds_on(at, job)
            rounds_N = rounds_J[job_N]
        rounds_N[shard_N > 0] = 1
        return rounds_N

    def _rounds_on(self, at: _Open, job: int) -> int:
        """Rounds of a stretch of a job, if all its tasks were on devices of its fastest type."""
        view, costs = self.view, self.view.costs
        first_T = at.desk.pool.first_T
        usable_T = costs.fits_JT[job] & (first_T[1:] > first_T[:-1])
        if not usable_T.any():
            return 1
        comp_ns_T = costs.comp_ns_JT[job][usable_T]
        turn_ns_T = comp_ns_T + costs.sync_ns_JT[job][usable_T]
        scale = view.scale_J.item(job)
        tasks = -(-scale // len(at.devices))
        least_ns = int(((tasks - 1) * comp_ns_T + turn_ns_T).min())
        longest_ns = max(1, int((tasks * turn_ns_T).max())) * scale
        rounds = view.grain.rounds_for(least_ns, ENDLESS)
        return max(1, min(rounds, _FAR_NS // longest_ns))
