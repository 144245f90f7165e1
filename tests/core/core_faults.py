"""A small world that loses jobs: rounds one by one, checkpoints, roll-backs, and a cut at any step.

It stands in for live processes: virtual time, but a barrier a round, stretches that a checkpoint
may cut, and a "disk" that outlives it.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import Any

from warren.core.ports import Restart
from warren.model.costs import CostTable
from warren.model.decision import Assignment, Plan
from warren.model.events import (
    RANK,
    AnyEvent,
    CompDone,
    JobArrived,
    JobFailed,
    ParamsSaved,
    RolledBack,
    RoundsDone,
    TasksDone,
    TasksLost,
    Woken,
)
from warren.model.link_use import LinkUse
from warren.model.run import Run

Kept = tuple[TasksDone, ...]


class Cut(Exception):
    """The controller is gone."""


@dataclass(frozen=True)
class Trouble:
    """How often what goes wrong, how often a checkpoint is made (rounds), or an older one taken."""

    seed: int = 0
    rate: float = 0.15
    most: int = 15
    every: int = 2
    older: float = 0.3
    failing: bool = False


@dataclass(eq=False)
class Entry:
    """An assignment in a queue."""

    one: Assignment
    round: int
    gone: bool = False
    start_ns: int = -1
    comp_end_ns: int = 0
    busy_ns: int = 0
    end_ns: int = 0

    @property
    def last(self) -> int:
        return self.one.round + self.one.rounds

    def comp_done(self, now_ns: int, end: int) -> CompDone:
        one = self.one
        return CompDone(now_ns, one.job, one.round, end - one.round, one.shards, one.device)

    def row(self, now_ns: int, end: int) -> TasksDone:
        """What has run of it until the barrier before round ``end``."""
        one, times = self.one, (self.start_ns, self.comp_end_ns, self.busy_ns, self.end_ns)
        what = one.job, one.round, end - one.round, one.shards, one.device
        return TasksDone(now_ns, *what, *times)


@dataclass
class Disk:
    """What outlives the world: of each job the checkpoints, by round, with the rows they cut."""

    saved: dict[int, dict[int, Kept]] = field(default_factory=dict)

    def of(self, job: int) -> dict[int, Kept]:
        return self.saved.setdefault(job, {0: ()})

    def forget_after(self, job: int, round_no: int) -> None:
        self.saved[job] = {r: kept for r, kept in self.of(job).items() if r <= round_no}


class FaultyPort:
    """``Port`` with faults; ``cut_at``: the call of ``next_events`` that raises ``Cut``."""

    def __init__(
        self,
        run: Run,
        costs: CostTable,
        trouble: Trouble,
        disk: Disk | None = None,
        cut_at: int | None = None,
    ) -> None:
        self._run, self._costs, self._trouble = run, costs, trouble
        self._disk, self._cut_at = disk or Disk(), cut_at
        self._random = random.Random(trouble.seed)
        jobs = run.workload.jobs
        self._queues: list[deque[Entry]] = [deque() for _ in run.cluster.devices]
        self._busy: list[Entry | None] = [None for _ in run.cluster.devices]
        self._entries: list[list[Entry]] = [[] for _ in jobs]
        self._passed, self._arrived = [0 for _ in jobs], [False for _ in jobs]
        self._ended = [False for _ in jobs]
        self._left = [job.scale for job in jobs]
        self._heap: list[tuple[int, int, int, Any]] = []
        self._number, self._now, self._calls, self._troubles = count(), 0, 0, 0
        self._first: tuple[AnyEvent, ...] = ()
        self._known: set[tuple[int, int]] = set()
        self.restart: Restart | None = None
        for job in jobs:
            self._push(job.arrival_ns, JobArrived(job.arrival_ns, job.index))

    def resume(self, restart: Restart) -> None:
        self.restart, self._now = restart, restart.now_ns
        self._passed, self._arrived = list(restart.rounds_J), list(restart.arrived_J)
        self._ended = list(restart.ended_J)
        self._heap = [
            item
            for item in self._heap
            if not self._arrived[item[3].job] and not self._ended[item[3].job]
        ]
        for wake_ns in restart.wakes_ns:
            self.wake_at(wake_ns)
        for job, passed in enumerate(self._passed):
            self._disk.forget_after(job, passed)
        self._first = tuple(
            self._roll_back(job, "the controller was lost") for job in self._active()
        )

    # The port.

    def submit(self, assignments: tuple[Assignment, ...]) -> None:
        for one in assignments:
            assert not self._ended[one.job]
            entry = Entry(one, one.round)
            self._queues[one.device].append(entry)
            self._entries[one.job].append(entry)
        self._start_all()

    def wake_at(self, time_ns: int) -> None:
        time_ns = max(time_ns, self._now)
        self._push(time_ns, Woken(time_ns))

    def run_plan(self, plan: Plan) -> None:
        return None

    def link_use(self) -> LinkUse | None:
        return None

    def next_events(self) -> tuple[AnyEvent, ...]:
        self._calls += 1
        if self._calls == self._cut_at:
            raise Cut
        if self._first:
            first, self._first = self._first, ()
            return first
        if trouble := self._some_trouble():
            return trouble
        events: list[AnyEvent] = []
        while self._heap and not events:
            self._now = self._heap[0][0]
            while self._heap and self._heap[0][0] == self._now:
                self._happen(heappop(self._heap)[3], events)
        return tuple(sorted(events, key=lambda event: RANK[type(event)]))

    # What happens.

    def _push(self, time_ns: int, what: Any) -> None:
        rank = {"comp": 2, "sync": 3}.get(what[0], 0) if isinstance(what, tuple) else 7
        heappush(self._heap, (time_ns, rank, next(self._number), what))

    def _happen(self, what: Any, events: list[AnyEvent]) -> None:
        if isinstance(what, JobArrived):
            if not self._ended[what.job]:
                self._arrived[what.job] = True
                events.append(what)
        elif isinstance(what, Woken):
            events.append(what)
        elif what[1].gone:
            return
        elif what[0] == "comp":
            self._comp_ended(what[1], events)
        else:
            self._synced(what[1], what[2], events)
        self._start_all()

    def _start_all(self) -> None:
        for device, queue in enumerate(self._queues):
            if self._busy[device] is None and queue:
                head = queue[0]
                job = head.one.job
                if self._arrived[job] and self._passed[job] == head.round:
                    self._start(device, head)

    def _start(self, device: int, head: Entry) -> None:
        self._busy[device] = head
        at = head.one.job, self._run.cluster.type_of_device[device]
        took_ns = int(self._costs.comp_ns_JT[at]) * len(head.one.shards)
        head.start_ns = self._now if head.start_ns < 0 else head.start_ns
        head.busy_ns += took_ns
        self._push(self._now + took_ns, ("comp", head))

    def _comp_ended(self, entry: Entry, events: list[AnyEvent]) -> None:
        one = entry.one
        self._busy[one.device] = None
        entry.comp_end_ns = self._now
        sync_ns = self._costs.sync_ns_JT[one.job, self._run.cluster.type_of_device[one.device]]
        self._push(self._now + int(sync_ns), ("sync", entry, entry.round))
        entry.round += 1
        if entry.round == entry.last:
            self._queues[one.device].popleft()
            events.append(entry.comp_done(self._now, entry.last))

    def _synced(self, entry: Entry, round_no: int, events: list[AnyEvent]) -> None:
        job = entry.one.job
        entry.end_ns = self._now
        if round_no + 1 == entry.last:
            self._entries[job].remove(entry)
            events.append(entry.row(self._now, entry.last))
        self._left[job] -= len(entry.one.shards)
        if self._left[job] == 0:
            self._barrier(job, events)

    def _barrier(self, job: int, events: list[AnyEvent]) -> None:
        self._passed[job] = passed = self._passed[job] + 1
        self._left[job] = self._run.workload.jobs[job].scale
        finished = passed == self._run.workload.jobs[job].rounds
        told = self._disk.of(job).get(passed - 1, ())
        events.append(RoundsDone(self._now, job, passed - 1, 1, finished, 1.0 / passed, cut=told))
        if passed % self._trouble.every == 0:
            cut = (one for one in self._entries[job] if one.one.round < passed < one.last)
            self._known.add((job, passed))
            self._disk.of(job)[passed] = tuple(one.row(self._now, passed) for one in cut)
        if finished:
            self._ended[job] = True
            for one in (one for one in self._entries[job] if one.one.round < passed):
                events += [one.comp_done(self._now, passed), one.row(self._now, passed)]
            self._clear(job)
            events.append(ParamsSaved(self._now, job, f"{job:064x}", "test"))

    # What goes wrong.

    def _active(self) -> list[int]:
        rows = zip(self._arrived, self._ended, strict=True)
        return [job for job, (arrived, ended) in enumerate(rows) if arrived and not ended]

    def _some_trouble(self) -> tuple[AnyEvent, ...]:
        draw, trouble, active = self._random, self._trouble, self._active()
        if not active or self._troubles >= trouble.most or draw.random() >= trouble.rate:
            return ()
        self._troubles += 1
        chosen = active if draw.random() < 0.2 else [draw.choice(active)]
        if trouble.failing and draw.random() < 0.2:
            return (self._fail(chosen[0]),)
        busy = [entry for entry in self._busy if entry is not None]
        if busy and draw.random() < 0.2:
            one = draw.choice(busy).one
            return (TasksLost(self._now, one.job, one.round, one.shards, one.device, "gone"),)
        return tuple(self._roll_back(job, "its server was lost") for job in chosen)

    def _fail(self, job: int) -> JobFailed:
        self._clear(job)
        self._ended[job] = True
        self._start_all()
        return JobFailed(self._now, job, "it broke")

    def _roll_back(self, job: int, reason: str) -> RolledBack:
        """To the newest checkpoint, now and then to an older one.

        A world that goes on has forgotten what a checkpoint cut; the journal knows.
        """
        known = sorted(r for r in self._disk.of(job) if r <= self._passed[job])
        older = self._random.random() < self._trouble.older
        back = self._random.choice(known) if older else known[-1]
        self._disk.forget_after(job, back)
        self._clear(job)
        self._passed[job] = back
        self._start_all()
        kept = self._disk.of(job)[back] if (job, back) in self._known else ()
        return RolledBack(self._now, job, back, reason, kept)

    def _clear(self, job: int) -> None:
        for device, queue in enumerate(self._queues):
            kept = [entry for entry in queue if entry.one.job != job]
            self._queues[device] = deque(kept)
            head = self._busy[device]
            if head is not None and head.one.job == job:
                self._busy[device] = None
        for entry in self._entries[job]:
            entry.gone = True
        self._entries[job] = []
        self._left[job] = self._run.workload.jobs[job].scale
