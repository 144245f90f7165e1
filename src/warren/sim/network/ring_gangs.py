"""Rings in virtual time: gangs that start together, hold their devices, and share links.

A ring starts when all its devices have come to it, and holds them to the end of its stretch: while
gradients go round, nobody computes. A round takes the longest COMP of its devices and then the
exchange: T^s, or under ``network: contention`` what (6)-(8) of SJF-BCO give for the rings that are
at work (``warren.cost.ring``). Whenever one starts or ends, the others are priced again: rounds
that have begun keep their pace, so a change counts from the next round on. The paper counts whole
rounds a time slot, which is none if a round is longer than a slot; here time has no slots. Under
``network: fluid`` the same gangs share links within a round: ``warren.sim.network.max_min``. Where
it was measured what a gang takes to start, the first round waits for it:
``warren.sim.network.gang_starts``.

Jobs with parameter servers run as in ``SimPort``: their traffic is in their T^s and slows no ring.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from warren.model.costs import CostTable, IntArray
from warren.model.decision import Assignment, Plan
from warren.model.events import AnyEvent, CompDone, TasksDone
from warren.model.run import Run
from warren.sim.network.contention import ContentionLinks
from warren.sim.network.gang_starts import GangStarts
from warren.sim.port import SimPort


@dataclass(slots=True)
class RingGang:
    """A ring at work. From ``begin_ns`` on come ``count`` equal rounds, the first the ``done``-th.

    ``busy``: COMP time of each device before them; ``comp``: in each of them. ``late_ns``: the
    first COMP of all lasts as long at least, since the processes are not there before.
    """

    heads: list[Assignment]
    workers_S: IntArray
    start_ns: int
    begin_ns: int
    busy: list[int]
    comp: list[int]
    late_ns: int = 0
    done: int = 0
    count: int = 0
    round_ns: int = 0
    exchange_ns: int = -1

    @property
    def left(self) -> int:
        """Rounds that have not been passed yet."""
        return self.heads[0].rounds - self.done

    @property
    def end_ns(self) -> int:
        """The barrier of the last of the equal rounds."""
        return self.begin_ns + self.count * self.round_ns

    def stop(self, now: int) -> None:
        """Stand at the end of the last round that has begun before ``now``."""
        if self.count:
            self.count = min(self.count, -(-max(0, now - self.begin_ns) // self.round_ns))
            self.pass_on()

    def pass_on(self) -> None:
        """Stand where the equal rounds end."""
        self.begin_ns = self.end_ns
        self.done += self.count
        self.busy = [b + self.count * c for b, c in zip(self.busy, self.comp, strict=True)]
        self.count = 0


class RingPort(SimPort):
    """A ``SimPort`` for a run with rings."""

    __slots__ = ("_forming", "_gangs", "_links", "_ring_J", "_starts")

    def __init__(self, run: Run, costs: CostTable) -> None:
        super().__init__(run, costs)
        self._links = ContentionLinks(run, costs)
        self._ring_J = [job.sync == "ring" for job in run.workload.jobs]
        self._forming: dict[int, list[Assignment]] = {}
        self._gangs: dict[int, RingGang] = {}
        self._starts = GangStarts(run, costs) if run.cluster.delays_gangs else None

    def submit(self, assignments: tuple[Assignment, ...]) -> None:
        """Append to device queues, in order; see ``SimPort``."""
        if self._starts is not None:
            ranks = [one for one in assignments if self._ring_J[one.job]]
            self._starts.assign(ranks, self._begins(assignments), self._now)
        super().submit(assignments)

    def _begins(self, assignments: Sequence[Assignment]) -> set[Assignment]:
        """Those of jobs that have arrived, on devices that have nothing before."""
        busy = {device for device, queue in enumerate(self._queue_D) if queue}
        jobs, begins = self._run.workload.jobs, set[Assignment]()
        for one in assignments:
            if one.device not in busy and jobs[one.job].arrival_ns <= self._now:
                begins.add(one)
            busy.add(one.device)
        return begins

    def run_plan(self, plan: Plan) -> None:
        """A plan goes through events: compiled code knows no rings."""

    def next_events(self) -> tuple[AnyEvent, ...]:
        """All events of the next instant; see ``SimPort``."""
        self._go_on()
        return super().next_events()

    def _go_on(self) -> None:
        """Rounds pass until something else happens, which may be that a ring ends."""
        self._price()
        while self._gangs:
            job, gang = min(self._gangs.items(), key=lambda one: (one[1].end_ns, one[0]))
            if self._events and self._events.first_ns < gang.end_ns:
                break
            gang.pass_on()
            if gang.left:
                self._pace(job, gang)
            else:
                del self._gangs[job]
                self._end(gang)

    def _begin(self, head: Assignment) -> None:
        """Of a ring the last device to come starts all."""
        job = head.job
        if not self._ring_J[job]:
            super()._begin(head)
            return
        forming = self._forming.setdefault(job, [])
        forming.append(head)
        if len(forming) < self._scale_J[job]:
            return
        heads = sorted(self._forming.pop(job), key=lambda one: one.shards)
        devices = [one.device for one in heads]
        switch = [self._switch_ns(job, device) for device in devices] if self._switch_JT else [0]
        start, late_ns = self._now + max(switch), 0
        if self._starts is not None:
            late_ns = max(0, self._starts.there_ns(job, head.round, devices, self._now) - start)
            if not self._starts.padded:
                start, late_ns = start + late_ns, 0
        self._gangs[job] = RingGang(
            heads=heads,
            workers_S=self._links.workers_S(devices),
            start_ns=start,
            begin_ns=start,
            busy=[0] * len(heads),
            comp=[0] * len(heads),
            late_ns=late_ns,
        )

    def _pass_barrier(self, job: int, rounds: int) -> None:
        if self._starts is not None:
            self._starts.pass_barrier(job, self._now)
        super()._pass_barrier(job, rounds)

    def _price(self) -> None:
        """Who is at work now sets the pace of all, from their next round on."""
        gangs = list(self._gangs.items())
        if not gangs:
            return
        workers_JS = np.stack([gang.workers_S for _, gang in gangs])
        exchange_ns_J = self._links.exchange_ns_J([job for job, _ in gangs], workers_JS)
        for (job, gang), exchange_ns in zip(gangs, exchange_ns_J, strict=True):
            if exchange_ns != gang.exchange_ns:
                gang.exchange_ns = exchange_ns
                gang.stop(self._now)
                if gang.left:
                    self._pace(job, gang)

    def _compute(self, job: int, gang: RingGang) -> list[tuple[int, int]]:
        """The next round's ``comp``, from what each device ends at: its COMP, and its T^s."""
        begin, first = gang.begin_ns, gang.heads[0].round + gang.done
        ends = [
            self._lanes.run_round(job, first, one.shards, self._type_D[one.device], begin, begin)
            for one in gang.heads
        ]
        if gang.late_ns and not gang.done:
            there = begin + gang.late_ns
            ends = [
                (max(comp_end, there), end + max(0, there - comp_end)) for comp_end, end in ends
            ]
        gang.comp = [comp_end - begin for comp_end, _ in ends]
        return ends

    def _alike(self, gang: RingGang) -> int:
        """How many of the next rounds take the same."""
        first_is_late = gang.late_ns > 0 and not gang.done
        return 1 if self._lanes.noisy or first_is_late else gang.left

    def _pace(self, job: int, gang: RingGang) -> None:
        """How long the next rounds take."""
        ends = self._compute(job, gang)
        exchange_ns = gang.exchange_ns
        if self._links.from_profile:
            exchange_ns = max(end - comp_end for comp_end, end in ends)
        gang.round_ns = max(1, max(gang.comp) + exchange_ns)
        gang.count = self._alike(gang)

    def _end(self, gang: RingGang) -> None:
        end = gang.begin_ns
        comp_end = end - gang.round_ns + max(gang.comp)
        for one, busy in zip(gang.heads, gang.busy, strict=True):
            what = one.job, one.round, one.rounds, one.shards, one.device
            self._comm_free_D[one.device] = end
            self._emit(CompDone(end, *what))
            self._emit(TasksDone(end, *what, gang.start_ns, comp_end, busy))
        self._finish_rounds(gang.heads[0], end)
