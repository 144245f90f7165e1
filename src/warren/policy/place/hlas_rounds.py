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
from warren.solve.group_rounds import Asked, Desk, Front, asked, open_desk, walk

DECLINED: Final = 16
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
        """Every group with an idle device takes what it can, the fastest group first."""
        self.group_of = {one.job: self.group_of[one.job] for one in self.partly}
        if not (self.line or self.partly):
            return
        idle_D = self.view.queued_D == 0
        idle_G = np.bincount(self.groups.group_D, weights=idle_D)
        begun = set(self.group_of.values())
        self.free_ns_D = self.free_ns_D.copy()
        for group in idle_G.nonzero()[0].tolist():
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

    def _walk(self, at: _Open, so_far: Asked) -> None:
        """Ask jobs until no device is idle or too many have declined."""
        order, has_ended = self._order(at), False
        for first in range(0, len(order), _AT_ONCE):
            spots = self._asked(at, order[first : first + _AT_ONCE])
            if spots:
                has_ended = self._place(at, spots, so_far)
            if has_ended:
                break

    def _order(self, at: _Open) -> list[Spot]:
        """Who may take of a group, first to last: of a queue, rounds begun there before others."""
        order = self.line.copy()
        for one in reversed(self.partly):
            if self.group_of[one.job] == at.group:
                order.insert(bisect_left(self.line, (one.queue,)), one)
        return order

    def _asked(self, at: _Open, order: list[Spot]) -> list[Spot]:
        """Those of them that wait there still and fit an idle device; who waits no more leaves."""
        view, fits_JT = self.view, self.view.costs.fits_JT
        job_N = np.array([one.job for one in order])
        waits_N = view.open_J[job_N] & (view.next_round_J[job_N] == view.round_J[job_N])
        fits_N = fits_JT[job_N][:, at.idle_T].any(axis=1)
        found: list[Spot] = []
        for one, waits, fits in zip(order, waits_N.tolist(), fits_N.tolist(), strict=True):
            has_begun = one.job in self.group_of
            if not (has_begun or (waits and (self.fixed or self._stands(one)))):
                self._leave(one)
            elif fits:
                found.append(one)
        return found

    def _leave(self, entry: Spot) -> None:
        """Take an entry out of the line, if it stands there."""
        place = bisect_left(self.line, entry)
        if place < len(self.line) and self.line[place] == entry:
            del self.line[place]

    def _place(self, at: _Open, spots: list[Spot], so_far: Asked) -> bool:
        """Place what jobs can start; whether nobody else is to be asked."""
        view, front = self.view, self._front(at, [one.job for one in spots])
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
            self._leave(spots[place])
            self._start(at.group, spots[place], tasks_of)
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

    def _front(self, at: _Open, jobs: list[int]) -> Front:
        """The jobs as the kernel walks them."""
        costs, view = self.view.costs, self.view
        shard_N = [self.shard.get(job, view.next_shard_J.item(job)) for job in jobs]
        rounds_N = [1] * len(jobs)
        if view.grain.rounds != 1:
            pairs = zip(jobs, shard_N, strict=True)
            rounds_N = [1 if shard else self._rounds(at, job) for job, shard in pairs]
        return Front(
            job_N=np.array(jobs),
            shard_N=np.array(shard_N),
            rounds_N=np.array(rounds_N),
            begun_N=np.array([job in self.group_of for job in jobs]),
            scale_J=view.scale_J,
            comp_ns_JT=costs.comp_ns_JT,
            turn_ns_JT=self.groups.known.turns(costs),
            fits_JT=costs.fits_JT,
        )

    def _rounds(self, at: _Open, job: int) -> int:
        """Rounds of a stretch of a job, if all its tasks were on devices of its fastest type.

        Kept: it follows from costs alone.
        """
        known, key = self.groups.known.rounds, (at.group, job)
        if key not in known:
            known[key] = self._rounds_on(at, job)
        return known[key]

    def _rounds_on(self, at: _Open, job: int) -> int:
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
