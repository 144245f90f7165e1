"""Rings in virtual time: gangs that start together, hold their devices, and share links.

A ring starts when all its devices have come to it, and holds them to the end of its stretch: while
gradients go round, no device computes. A round takes the longest COMP of its devices and then the
exchange: T^s, or under ``network: contention`` the exchange of (6)-(8) of SJF-BCO for the rings
that are at work (``warren.cost.ring``). Whenever one starts or ends, the others are priced again:
rounds that have begun keep their pace, so a change counts from the next round on. The paper counts
whole rounds a time slot, which gives none if a round is longer than a slot; here time has no slots.
Under ``network: fluid`` the same gangs share links within a round. One of three ``RoundEnds`` says
when a round is over: ``warren.sim.network.contention``, ``warren.sim.network.fluid``, or
``warren.sim.network.linked_rings`` beside the bytes of servers and in classes. If the start of a
gang was measured, the first round waits for it: ``warren.sim.network.gang_starts``.

Except there, the traffic of jobs with parameter servers is in their T^s and slows no ring.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from warren.cost.run_rings import host_of_D
from warren.model.costs import IntArray
from warren.model.decision import Assignment
from warren.model.events import CompDone, TasksDone
from warren.model.run import Run
from warren.sim.lanes import Lanes
from warren.sim.network.gang_starts import GangStarts


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
        """Count the rounds that have not been passed yet."""
        return self.heads[0].rounds - self.done

    @property
    def end_ns(self) -> int:
        """Return the barrier of the last of the equal rounds."""
        return self.begin_ns + self.count * self.round_ns

    def stop(self, now: int) -> None:
        """Move to the end of the last round that has begun before ``now``."""
        # Rounded up: rounds that have begun keep their pace.
        if self.count:
            self.count = min(self.count, -(-max(0, now - self.begin_ns) // self.round_ns))
            self.pass_on()

    def pass_on(self) -> None:
        """Move to where the equal rounds end."""
        self.begin_ns = self.end_ns
        self.done += self.count
        self.busy = [b + self.count * c for b, c in zip(self.busy, self.comp, strict=True)]
        self.count = 0

    def compute(self, lanes: Lanes) -> list[tuple[int, int]]:
        """Set the next round's ``comp``; return each device's end of COMP and of T^s."""
        begin, first = self.begin_ns, self.heads[0].round + self.done
        run_round, type_D = lanes.durations.run_round, lanes.type_D
        ends = [
            run_round(one.job, first, one.shards, type_D[one.device], begin, begin)
            for one in self.heads
        ]
        # The first round: no rank's COMP ends before the gang is there, and all later times move as
        # much.
        if self.late_ns and not self.done:
            there = begin + self.late_ns
            ends = [
                (max(comp_end, there), end + max(0, there - comp_end)) for comp_end, end in ends
            ]
        self.comp = [comp_end - begin for comp_end, _ in ends]
        return ends

    def alike(self, noisy: bool) -> int:
        """Return how many of the next rounds take the same, where tasks differ or do not."""
        first_is_late = self.late_ns > 0 and not self.done
        return 1 if noisy or first_is_late else self.left


class RoundEnds(Protocol):
    """When rounds of the gangs at work are over, given all of them and the links they cross."""

    def settle(self, gangs: dict[int, RingGang], changed: bool) -> None:
        """Note the gangs, by job, that are at work now.

        ``changed``: tasks take another time from now on; rounds that begin now are timed again.
        """
        ...

    def next_ns(self, gangs: dict[int, RingGang]) -> int:
        """Return the next instant at which a round begins or ends, or a rate changes."""
        ...

    def step(self, gangs: dict[int, RingGang]) -> list[RingGang]:
        """Pass that instant, and return the gangs whose last round ends with it."""
        ...


class GangsAtWork:
    """The part of a simulation that runs rings.

    Parameters
    ----------
    run
        Cluster and workload.
    lanes
        The devices that gangs hold.
    round_ends
        The network: when a round is over.
    starts
        Starting times of gangs; None: nothing.
    """

    __slots__ = (
        "_arrival_J",
        "_forming",
        "_gangs",
        "_host_D",
        "_hosts",
        "_lanes",
        "_ring_J",
        "_round_ends",
        "_starts",
    )

    def __init__(
        self, run: Run, lanes: Lanes, round_ends: RoundEnds, starts: GangStarts | None
    ) -> None:
        self._lanes = lanes
        self._round_ends = round_ends
        self._starts = starts
        self._ring_J = [job.sync == "ring" for job in run.workload.jobs]
        self._arrival_J = [job.arrival_ns for job in run.workload.jobs]
        self._host_D = host_of_D(run.cluster)
        self._hosts = len(run.cluster.hosts)
        self._forming: dict[int, list[Assignment]] = {}
        self._gangs: dict[int, RingGang] = {}

    def assigned(self, assignments: Sequence[Assignment]) -> None:
        """Note that ranks have devices from now on; called before they are in the queues there."""
        if self._starts is not None:
            ranks = [one for one in assignments if self._ring_J[one.job]]
            self._starts.assign(ranks, self._begins(assignments), self._lanes.now_ns)

    def come(self, head: Assignment) -> list[Assignment]:
        """Note that a device has come to its ring; return the whole gang if it was the last."""
        job, lanes = head.job, self._lanes
        forming = self._forming.setdefault(job, [])
        forming.append(head)
        if len(forming) < lanes.scale_J[job]:
            return []
        heads = sorted(self._forming.pop(job), key=lambda one: one.shards)
        devices = [one.device for one in heads]
        # They start together, so the longest switch of a device counts for all.
        start = lanes.now_ns + max(lanes.switch_ns(job, device) for device in devices)
        late_ns = 0
        if self._starts is not None:
            there_ns = self._starts.there_ns(job, head.round, devices, lanes.now_ns)
            late_ns = max(0, there_ns - start)
            # Emulated, a pad begins when its devices are free and hides some of the wait, so that
            # the first COMP lasts longer; else the first round starts later.
            if not self._starts.padded:
                start, late_ns = start + late_ns, 0
        self._gangs[job] = RingGang(
            heads=heads,
            workers_S=np.bincount(self._host_D[devices], minlength=self._hosts),
            start_ns=start,
            begin_ns=start,
            busy=[0] * len(heads),
            comp=[0] * len(heads),
            late_ns=late_ns,
        )
        return heads

    def waits(self, device: int) -> bool:
        """Tell whether the device waits for the others of its ring."""
        return any(one.device == device for heads in self._forming.values() for one in heads)

    def pass_barrier(self, job: int) -> None:
        """Note that the job's rounds so far are over: a gang that has to be elsewhere may go."""
        if self._starts is not None:
            self._starts.pass_barrier(job, self._lanes.now_ns)

    def settle(self, changed: bool) -> None:
        """Note the gangs, as all of an instant is known; see ``RoundEnds.settle``."""
        self._round_ends.settle(self._gangs, changed)

    def next_ns(self) -> int:
        """Return the next instant of a ring; see ``RoundEnds.next_ns``."""
        return self._round_ends.next_ns(self._gangs)

    def step(self) -> None:
        """Pass the next instant of a ring; events report the end of a gang's last round."""
        for gang in self._round_ends.step(self._gangs):
            self._end(gang)

    def _begins(self, assignments: Sequence[Assignment]) -> set[Assignment]:
        """Return those of jobs that have arrived, on devices that have nothing before."""
        lanes = self._lanes
        busy = {device for device, queue in enumerate(lanes.queue_D) if queue}
        begins = set[Assignment]()
        for one in assignments:
            if one.device not in busy and self._arrival_J[one.job] <= lanes.now_ns:
                begins.add(one)
            busy.add(one.device)
        return begins

    def _end(self, gang: RingGang) -> None:
        """Emit the events of a gang whose last round is over; its devices are free only now."""
        end, lanes = gang.begin_ns, self._lanes
        # The last round began at ``end - round_ns``, and its COMP lasted as on the slowest rank.
        comp_end = end - gang.round_ns + max(gang.comp)
        for one, busy in zip(gang.heads, gang.busy, strict=True):
            lanes.comm_free_D[one.device] = end
            lanes.emit(CompDone(end, one.job, one.round, one.rounds, one.shards, one.device))
            lanes.emit(
                TasksDone(
                    end,
                    one.job,
                    one.round,
                    one.rounds,
                    one.shards,
                    one.device,
                    gang.start_ns,
                    comp_end,
                    busy,
                )
            )
        lanes.finish_rounds(gang.heads[0], end)
