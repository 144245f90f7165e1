"""Devices that share one machine: how long a task takes depends on how many are at work.

A device is at work from a task's start to the end of its synchronisation: it computes, then
Warren's own processes compute for it, and if its job goes on there the next task starts at once. It
is not at work while what is queued there waits longer, for other devices at a barrier or for a job
to arrive: nobody computes for it. A task's time follows from the number
of devices at work when it starts, counted once all else of that instant is known: who is done, what
a barrier let go, what was assigned. So no order among equals decides. Tasks of one round that a
device runs back to back count when the first of them starts.

A task that follows one of another job on its device finds its data in no cache. What that takes
was measured with its row, and is spent before it starts; a copy of a late task pays nothing.

A device that computes a task again (``warren.sim.verified_tasks``) is at work, and begins nothing
else before it is done.

A stretch of several rounds counts in every round, and its devices are at work until it ends. Its
rounds between two changes of the number are alike and are taken in one step, a leg. A leg that has
been taken too far is cut back: rounds that start at or after the change are taken again. Only the
last round's events are emitted, when it starts.

*What that costs.* A profile row measured alone says T^c, the time a task computes on an idle
machine, and T^s, what lies between its end and its job's next round: update out, barrier, next
state in. Two things are not in it. While a device has other work its COMP lane waits for the next
task to be handed over, or, when all cores are busy, for the processor time ``o`` of controller,
executors and servers; and a task computes more slowly when the other cores compute too. For b
devices at work on P cores::

    y    = T^c (1 + (slowdown - 1) (min(b, P) - 1) / (P - 1))
    o    = as measured with the row, or from the constants:
           task + bytes / task_rate + (round + bytes / round_rate) / scale
    x    = max(dispatch, (y + o) b / P - y)   where b >= P, else dispatch
    T^c' = y + x
    T^s' = max(0, T^s - dispatch)

Handing over was part of T^s when the job ran alone, so it is taken out there: with cores to spare a
job alone takes T^c + T^s as measured. The rest of x is not: what o takes from tasks on a full
machine comes on top of a barrier's latency. What this leaves
out stands in docs/decisions/0010.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from heapq import heappop, heappush

import numpy as np

from warren.model.costs import CostTable
from warren.model.decision import Assignment, Plan
from warren.model.errors import Problem, SpecError
from warren.model.events import AnyEvent
from warren.model.measured import Overheads
from warren.model.run import Run
from warren.model.units import NEVER_NS, NS_PER_S
from warren.sim.port import Part
from warren.sim.speculation import CopyingPort
from warren.sim.task_durations import DeviceLanes
from warren.sim.verified_tasks import VerifiedTasks


def raised_costs(run: Run, costs: CostTable, at_work: int) -> CostTable:
    """The costs of a run with measured overheads while ``at_work`` devices are, 1 or more.

    Raises
    ------
    SpecError
        If a job would then take longer than time can count.
    """
    overheads = run.cluster.overheads
    assert overheads is not None, "without them nothing is raised"
    comp_ns_JT, sync_ns_JT = np.array(costs.comp_ns_JT), np.array(costs.sync_ns_JT)
    for job, kind in zip(*np.nonzero(costs.fits_JT), strict=True):
        comp_ns, sync_ns = int(comp_ns_JT[job, kind]), int(sync_ns_JT[job, kind])
        cpu_ns = _cpu_ns(run, costs, overheads, int(job), int(kind))
        raised = raised_ns(overheads, at_work, comp_ns, sync_ns, cpu_ns)
        _check_length(run, int(job), sum(raised))
        comp_ns_JT[job, kind], sync_ns_JT[job, kind] = raised
    return CostTable(
        comp_ns_JT=comp_ns_JT,
        sync_ns_JT=sync_ns_JT,
        fits_JT=costs.fits_JT,
        model_bytes_J=costs.model_bytes_J,
        overhead_ns_JT=costs.overhead_ns_JT,
        build_ns_JT=costs.build_ns_JT,
    )


def _cpu_ns(run: Run, costs: CostTable, overheads: Overheads, job: int, kind: int) -> float:
    """``o`` as it was measured with the job's row, else from the constants."""
    if costs.overhead_ns_JT is not None and costs.overhead_ns_JT[job, kind] >= 0:
        return float(costs.overhead_ns_JT[job, kind])
    model_bytes = 0 if costs.model_bytes_J is None else int(costs.model_bytes_J[job])
    return processor_ns(overheads, model_bytes, run.workload.jobs[job].scale)


def processor_ns(overheads: Overheads, model_bytes: int, scale: int) -> float:
    """``o``: processor time that Warren's own processes spend on one task, nanoseconds."""
    task_s_per_byte = _inverse(overheads.task_cpu_bytes_per_s)
    round_s_per_byte = _inverse(overheads.round_cpu_bytes_per_s)
    task_ns = overheads.task_cpu_ns + model_bytes * task_s_per_byte * NS_PER_S
    round_ns = overheads.round_cpu_ns + model_bytes * round_s_per_byte * NS_PER_S
    return task_ns + round_ns / scale


def raised_ns(
    overheads: Overheads, at_work: int, comp_ns: int, sync_ns: int, cpu_ns: float
) -> tuple[int, int]:
    """T^c' and T^s' of a task with this T^c, T^s and ``o``; ``at_work`` is b."""
    cores, dispatch_ns = overheads.cores, overheads.dispatch_ns
    busy = (min(at_work, cores) - 1) / (cores - 1) if cores > 1 else 1.0
    computing_ns = comp_ns * (1 + (overheads.slowdown - 1) * busy)
    added_ns = float(dispatch_ns)
    if at_work >= cores:
        added_ns = max(added_ns, (computing_ns + cpu_ns) * at_work / cores - computing_ns)
    return round(computing_ns + added_ns), max(0, round(sync_ns - dispatch_ns))


def _check_length(run: Run, index: int, task_ns: int) -> None:
    job = run.workload.jobs[index]
    if (job.rounds or 1) * job.scale * task_ns + job.arrival_ns >= NEVER_NS:
        message = "with the overheads its tasks one after another would take more than 146 years"
        raise SpecError(Problem(file=run.name, field=f"job {job.name}", message=message))


def _inverse(bytes_per_s: float | None) -> float:
    return 0.0 if bytes_per_s is None else 1.0 / bytes_per_s


@dataclass(slots=True)
class _Leg:
    """``count`` equal rounds of a stretch, the first of them its round ``offset``.

    Per part of the stretch: ``busy`` is its COMP time before the leg, ``comp`` that of each round.
    """

    parts: list[Part]
    busy: list[int]
    comp: list[int]
    offset: int
    begin_ns: int
    round_ns: int = 0
    count: int = 0

    @property
    def end_ns(self) -> int:
        """The barrier of its last round."""
        return self.begin_ns + self.count * self.round_ns

    def cut(self, now: int) -> None:
        """Keep the rounds that start before ``now``."""
        if self.round_ns:
            self.count = min(self.count, -(-(now - self.begin_ns) // self.round_ns))

    def pass_on(self) -> None:
        """Stand where the leg ends."""
        self.begin_ns = self.end_ns
        self.offset += self.count
        self.busy = [b + self.count * c for b, c in zip(self.busy, self.comp, strict=True)]
        self.count = 0


class ContendedPort(CopyingPort):
    """A ``SimPort`` for a run that emulates nothing, on a machine with measured overheads.

    Raises
    ------
    SpecError
        Also if a task would take longer than time can count.
    """

    __slots__ = ("_again", "_blocked", "_copies", "_due", "_lanes_of", "_legs", "_over", "_until_D")

    def __init__(self, run: Run, costs: CostTable) -> None:
        super().__init__(run, replace(costs, switch_ns_JT=costs.turn_ns_JT))
        self._lanes_of: dict[int, DeviceLanes] = {}
        self._lanes = self._lanes_for(len(run.cluster.devices))  # the longest times come first
        self._due: list[Assignment] = []  # they start at this instant
        self._copies: tuple[Assignment, ...] = ()  # and so do these, after them
        self._legs: list[_Leg] = []
        self._again = VerifiedTasks(run)
        self._until_D = [0 for _ in run.cluster.devices]  # when it has computed a task again
        self._over: list[int] = []  # heap of such times to come
        self._blocked: list[Assignment] = []  # nothing but that keeps them from starting

    def run_plan(self, plan: Plan) -> None:
        """A plan goes through events: compiled code does not take its rows in order of time."""

    def submit(self, assignments: tuple[Assignment, ...]) -> None:
        """See ``SimPort``."""
        for one in assignments:
            self._again.assigned(one)
        super().submit(assignments)

    def copy(self, copies: tuple[Assignment, ...]) -> None:
        """See ``CopyingPort``; they start when all of this instant is known."""
        self._copies += copies

    def next_events(self) -> tuple[AnyEvent, ...]:
        """All events of the next instant; see ``SimPort``."""
        self._start_due()
        while self._legs or self._over:
            leg = min(self._legs, key=lambda leg: leg.end_ns, default=None)
            over_ns = self._over[0] if self._over else NEVER_NS
            next_ns = over_ns if leg is None else min(leg.end_ns, over_ns)
            if self._events and self._events.first_ns <= next_ns:
                break
            if leg is not None and leg.end_ns == next_ns:
                self._go_on(leg)
            else:
                self._now = over_ns
                self._start_due()
        return super().next_events()

    def _lanes_for(self, at_work: int) -> DeviceLanes:
        if at_work not in self._lanes_of:
            raised = raised_costs(self._run, self._costs, at_work)
            self._lanes_of[at_work] = DeviceLanes(self._run, raised)
        return self._lanes_of[at_work]

    def _start_due(self) -> None:
        """Count, then start what this instant has let go."""
        while self._over and self._over[0] <= self._now:
            heappop(self._over)
        blocked, self._blocked = self._blocked, []
        for head in blocked:
            queue = self._queue_D[head.device]
            if queue and queue[0] is head:
                self._begin(head)
        busy = {device for device in range(len(self._queue_D)) if self._is_at_work(device)}
        at_work = len(busy.union(one.device for one in self._copies))
        lanes = self._lanes_for(max(1, at_work))
        if lanes is not self._lanes:
            self._lanes = lanes
            for leg in self._legs:
                leg.cut(self._now)
        due, self._due = self._due, []
        for head in due:
            self._start(head)
        copies, self._copies = self._copies, ()
        super().copy(copies)

    def _is_at_work(self, device: int) -> bool:
        queue = self._queue_D[device]
        if queue and device not in self._waiting_J[queue[0].job]:
            return True
        return max(self._comm_free_D[device], self._until_D[device]) > self._now

    def _begin(self, head: Assignment) -> None:
        waits = self._until_D[head.device] > self._now
        (self._blocked if waits else self._due).append(head)

    def _finish_part(self, part: Part, comp_end: int, end: int, barrier: int) -> None:
        super()._finish_part(part, comp_end, end, barrier)
        one, _, busy = part
        again = self._again.taken(one)
        if again:
            until = comp_end + again * busy // (one.rounds * len(one.shards))
            self._until_D[one.device] = until
            heappush(self._over, until)

    def _pass_barrier(self, job: int, rounds: int) -> None:
        # Only a first run whose copy has won at this very instant is due in a round that passes.
        for begun in (self._due, self._blocked):
            for head in [head for head in begun if head.job == job]:
                begun.remove(head)
                self._start(head)
        super()._pass_barrier(job, rounds)

    def _run_rest(self, parts: list[Part], barrier: int) -> None:
        busy = [first_busy for _, _, first_busy in parts]
        self._legs.append(_Leg(parts, busy, busy, offset=1, begin_ns=barrier))

    def _go_on(self, leg: _Leg) -> None:
        """Take the next leg of a stretch, or its last round."""
        leg.pass_on()
        begin = leg.begin_ns
        spans = [self._round_of(part, leg.offset, begin) for part, _, _ in leg.parts]
        leg.comp = [comp_end - begin for comp_end, _ in spans]
        end = max(end for _, end in spans)
        left = leg.parts[0][0].rounds - leg.offset
        if left > 1:
            leg.round_ns, leg.count = end - begin, 1 if self._lanes.noisy else left - 1
            return
        self._legs.remove(leg)
        each = zip(leg.parts, spans, leg.busy, leg.comp, strict=True)
        for (part, start, _), (comp_end, part_end), busy, comp in each:
            self._comm_free_D[part.device] = part_end
            self._finish_part((part, start, busy + comp), comp_end, part_end, end)
        self._finish_rounds(leg.parts[0][0], end)
