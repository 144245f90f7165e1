"""One decision of HLAS that gives a group whole rounds: which tasks go to which of its devices.

The walk over queues and devices, Algorithms 1 and 3, is in ``warren.solve.gpu_groups``.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Final

import numpy as np

from warren.model.costs import IntArray
from warren.model.decision import Assignment
from warren.policy.place.hlas.dispatch import HlasDispatch
from warren.policy.place.hlas.waiting_jobs import QueuePosition
from warren.solve.gpu_groups.round_dispatch import DispatchRules, JobColumns
from warren.solve.gpu_groups.waiting_walk import WaitingColumns, serve

DECLINED: Final = 512
"""Most jobs that may leave idle devices of a group for better ones before no other job is asked."""


@dataclass(slots=True, kw_only=True)
class RoundStep(HlasDispatch):
    """One decision in the making, in which a group takes all tasks of a round.

    ``by_completion``: a task goes to the device of its group on which it completes first, else to
    the device that is available first. ``free_ns_D``: when the COMP lane of each device is expected
    to be free. ``group_of``: where the rounds of ``partly`` have begun.
    """

    by_completion: bool
    free_ns_D: IntArray
    group_of: dict[int, int]

    def serve(self) -> None:
        """Start tasks on every group with an idle device: Algorithm 1, lines 6-11."""
        self.group_of = {one.job: self.group_of[one.job] for one in self.partly}
        queued_D, known = self.view.queued_D, self.groups.known
        idle = len(queued_D) - int(np.count_nonzero(queued_D))
        if not idle or not (self.line or self.partly):
            return
        # The kernel writes into ``free_ns_D``, so it gets a copy and the memory's array does not
        # change. Each row that it returns uses an idle device, so there are no more rows than
        # these.
        known.look(self.view)
        self.free_ns_D = self.free_ns_D.copy()
        rows = np.empty((4, idle), np.int64)
        count = serve(
            self._waiting(),
            self._jobs(),
            known.grouped_devices,
            self._rules(),
            self._order(),
            queued_D,
            self.free_ns_D,
            rows,
        )
        self._start(rows[:, :count].T.tolist())

    def _order(self) -> IntArray:
        """Order the groups: the fastest first, of equally fast ones that with most idle devices.

        Ours: the paper says "when a group is idle" and not which. Groups without an idle device
        are left out.
        """
        if len(self.groups.devices) == 1:
            return self.groups.rank_G
        idle_G = np.bincount(self.groups.group_D, weights=self.view.queued_D == 0)
        order_G = np.lexsort((-idle_G, self.groups.rank_G))
        return order_G[idle_G[order_G] > 0]

    def _waiting(self) -> WaitingColumns:
        """Return the columns of the jobs that wait: in each queue rounds begun go before others.

        Algorithm 3, lines 5-7.
        """
        job_N = np.array(self.line.jobs)
        begun = [
            (one.job, self.group_of[one.job], self.line.first_of(one.queue)) for one in self.partly
        ]
        begun_P = np.array(begun, np.int64).reshape(-1, 3)
        return WaitingColumns(job_N, np.zeros(len(job_N), np.bool_), begun_P)

    def _jobs(self) -> JobColumns:
        """Return the columns of all jobs as the kernel takes them."""
        view, costs = self.view, self.view.costs
        return JobColumns(
            view.scale_J,
            view.next_shard_J,
            costs.comp_ns_JT,
            self.groups.known.turn_ns_JT,
            costs.fits_JT,
        )

    def _rules(self) -> DispatchRules:
        """Return how tasks choose devices, and how long a stretch may be."""
        grain = self.view.grain
        in_time = grain.rounds or 0, grain.time_ns or 0
        return DispatchRules(self.view.now_ns, *in_time, self.by_completion, DECLINED)

    def _start(self, rows: list[list[int]]) -> None:
        """Hand out tasks as the kernel's rows say; jobs that have started leave the queues.

        A row is (place, device, tasks, rounds): a place in the line, or -1 - i for the i-th round
        that is partly placed.
        """
        gone = list[int]()
        begun = self.partly.copy()
        for place, tasks_of in groupby(rows, key=itemgetter(0)):
            entry = begun[-1 - place] if place < 0 else self.line.spots[place]
            self._hand_out(entry, [row[1:] for row in tasks_of])
            if place >= 0:
                gone.append(place)
        # From the last place on, so that the places before it still hold.
        for place in sorted(gone, reverse=True):
            self.line.drop(place)

    def _hand_out(self, entry: QueuePosition, tasks_of: list[list[int]]) -> None:
        """Assign a job's next shards in their order, given as (device, tasks, rounds) each."""
        view, job = self.view, entry.job
        first, scale = view.next_round_J.item(job), view.scale_J.item(job)
        shard = view.next_shard_J.item(job)
        for device, tasks, rounds in tasks_of:
            shards = tuple(range(shard, shard + tasks))
            self.assign.append(Assignment(device, job, first, rounds, shards))
            shard += tasks
        # A partly placed round goes on in its own group; a placed round leaves it.
        if shard < scale and job not in self.group_of:
            self.partly = sorted([*self.partly, entry])
            self.group_of[job] = self.groups.group_D.item(self.assign[-1].device)
        elif shard == scale and self.group_of.pop(job, None) is not None:
            self.partly = [one for one in self.partly if one.job != job]
