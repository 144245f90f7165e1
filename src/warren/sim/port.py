"""Virtual time: the cluster as a discrete-event simulation behind the core's port.

A device runs its queue strictly first in, first out. Once a task starts, everything about it is
known: its COMP end, its synchronisation end and, when it is the last of its round to start, the
barrier. So nothing is kept but the events that will be emitted. A stretch runs its first round that
way, since its devices may become free at different times; the rounds after it are all alike and are
taken in one step. Where a task's time depends on what else runs, see ``warren.sim.shared_cpu``.
"""

from __future__ import annotations

from collections import deque

from warren.model.costs import CostTable
from warren.model.decision import Assignment, Plan
from warren.model.events import AnyEvent, CompDone, JobArrived, RoundsDone, TasksDone, Woken
from warren.model.run import Run
from warren.model.timeline import PlanOutcome
from warren.sim.event_queue import EventQueue
from warren.sim.hidden_curves import HiddenCurves
from warren.sim.task_durations import DeviceLanes, check_simulable

Part = tuple[Assignment, int, int]
"""A stretch on one device: its assignment, its start, its COMP time in the first round."""


class SimPort:
    """``warren.core.ports.Port`` in virtual time; overheads of the machine are not in it.

    Parameters
    ----------
    run
        Cluster, workload and the hidden truth.
    costs
        The profile that policies see; true times follow from it and ``run.truth``.

    Raises
    ------
    SpecError
        See ``warren.sim.task_durations.check_simulable``.
    """

    __slots__ = (
        "_arrived_J",
        "_barrier_J",
        "_comm_free_D",
        "_costs",
        "_curves",
        "_emit",
        "_events",
        "_held",
        "_lanes",
        "_last_job_D",
        "_left_J",
        "_now",
        "_parts_J",
        "_queue_D",
        "_round_J",
        "_rounds_J",
        "_run",
        "_scale_J",
        "_short",
        "_switch_JT",
        "_type_D",
        "_void",
        "_waiting_J",
        "_wakes",
    )

    def __init__(self, run: Run, costs: CostTable) -> None:
        check_simulable(run)
        jobs = run.workload.jobs
        devices = range(len(run.cluster.devices))
        self._run = run
        self._costs = costs
        self._lanes = DeviceLanes(run, costs)
        losses = run.truth.losses
        self._curves = HiddenCurves(jobs, losses, run.truth.seed) if losses else None
        self._type_D = run.cluster.type_of_device
        switch_ns_JT = costs.switch_ns_JT
        self._switch_JT = [] if switch_ns_JT is None else switch_ns_JT.tolist()
        self._last_job_D = [-1 for _ in devices]
        self._queue_D: list[deque[Assignment]] = [deque() for _ in devices]
        self._comm_free_D = [0 for _ in devices]
        self._scale_J = [job.scale for job in jobs]
        self._rounds_J = [job.rounds or 0 for job in jobs]
        self._arrived_J = [False for _ in jobs]
        self._round_J = [0 for _ in jobs]
        self._left_J = [job.scale for job in jobs]  # tasks of the round that have not started
        self._barrier_J = [0 for _ in jobs]  # latest synchronisation end of the round so far
        self._waiting_J: list[list[int]] = [[] for _ in jobs]  # devices whose head waits
        self._parts_J: list[list[Part]] = [[] for _ in jobs]
        self._void: set[int] = set()  # jobs with tasks in queues that will never be
        self._held: dict[int, list[tuple[Assignment, int, int, int]]] = {}
        self._short: dict[int, int] = {}  # where a job's stretch begins that its end cuts short
        self._now = 0
        self._wakes: set[int] = set()
        self._events = EventQueue()
        self._emit = self._events.add
        for job in jobs:
            self._emit(JobArrived(job.arrival_ns, job.index))

    def submit(self, assignments: tuple[Assignment, ...]) -> None:
        """Append to device queues, in order. Called only with checked assignments."""
        for assignment in assignments:
            if assignment.round + assignment.rounds > self._rounds_J[assignment.job]:
                assignment = self._cut(assignment)
            queue = self._queue_D[assignment.device]
            queue.append(assignment)
            if len(queue) == 1:
                self._start_or_wait(assignment)

    def copy(self, copies: tuple[Assignment, ...]) -> None:
        """See ``warren.sim.speculation``; a run without ``copies_after`` pays nothing for it."""
        raise AssertionError("this run has no copies")

    def wake_at(self, time_ns: int) -> None:
        """Ask for a ``Woken`` event at ``time_ns`` (or now, if that is past); one an instant."""
        time_ns = max(time_ns, self._now)
        if time_ns not in self._wakes:
            self._wakes.add(time_ns)
            self._emit(Woken(time_ns))

    def next_events(self) -> tuple[AnyEvent, ...]:
        """All events of the next instant, sorted by (rank, sequence); () when over."""
        if not self._events:
            return ()
        now = self._now = self._events.first_ns
        batch = self._events.take()
        for event in batch:
            match event:
                case TasksDone():
                    pass
                case CompDone():
                    self._free(event.device)
                case RoundsDone():
                    if event.finished and event.job in self._void:
                        self._drop(event.job)
                    self._pass_barrier(event.job, event.rounds)
                case JobArrived():
                    self._arrived_J[event.job] = True
                    self._retry(event.job)
                case Woken():
                    self._wakes.discard(now)
        return batch

    def run_plan(self, plan: Plan) -> PlanOutcome | None:
        """Run a whole plan in compiled code; see ``warren.sim.plan_runner.run_plan``."""
        from warren.sim.plan_runner import run_plan  # numba loads only when a plan is run

        return run_plan(plan, self._run, self._costs)

    def _cut(self, one: Assignment) -> Assignment:
        """A policy that does not know when the job ends has gone beyond; what is there is void."""
        left = self._rounds_J[one.job] - one.round
        if left > 0:
            self._short[one.job] = one.round
            return Assignment(one.device, one.job, one.round, left, one.shards)
        self._void.add(one.job)
        return one

    def _drop(self, job: int) -> None:
        """The job has ended; what is void waits for a barrier that will not come."""
        self._void.remove(job)
        end = self._rounds_J[job]
        heads = {device: self._queue_D[device][0] for device in self._waiting_J[job]}
        self._waiting_J[job] = [device for device, head in heads.items() if head.round < end]
        for device, queue in enumerate(self._queue_D):
            kept = deque(one for one in queue if one.job != job or one.round < end)
            if len(kept) < len(queue):
                self._queue_D[device] = kept
                if kept and kept[0] is not queue[0]:
                    self._start_or_wait(kept[0])

    def _free(self, device: int) -> None:
        queue = self._queue_D[device]
        queue.popleft()
        if queue:
            self._start_or_wait(queue[0])

    def _pass_barrier(self, job: int, rounds: int) -> None:
        self._round_J[job] += rounds
        self._left_J[job] = self._scale_J[job]
        self._barrier_J[job] = 0
        self._retry(job)

    def _retry(self, job: int) -> None:
        waiting = self._waiting_J[job]
        if waiting:
            self._waiting_J[job] = []
            for device in waiting:
                self._start_or_wait(self._queue_D[device][0])

    def _start_or_wait(self, head: Assignment) -> None:
        job = head.job
        if self._arrived_J[job] and self._round_J[job] == head.round:
            self._begin(head)
        else:
            self._waiting_J[job].append(head.device)

    def _begin(self, head: Assignment) -> None:
        """Nothing keeps it from starting now."""
        self._start(head)

    def _start(self, head: Assignment) -> None:
        device, job, round_, shards = head.device, head.job, head.round, head.shards
        start = self._now + (self._switch_ns(job, device) if self._switch_JT else 0)
        comp_end, end = self._lanes.run_round(
            job, round_, shards, self._type_D[device], start, self._comm_free_D[device]
        )
        self._comm_free_D[device] = end
        if end > self._barrier_J[job]:
            self._barrier_J[job] = end
        part = head, start, comp_end - start
        if self._short and self._short.get(job) == round_ and head.rounds == 1:
            self._held.setdefault(job, []).append((head, start, comp_end, end))
        elif head.rounds == 1:
            self._finish_part(part, comp_end, end, end)
        else:
            self._parts_J[job].append(part)
        left = self._left_J[job] = self._left_J[job] - len(shards)
        if left == 0:
            barrier = self._barrier_J[job]
            if head.rounds > 1:
                parts, self._parts_J[job] = self._parts_J[job], []
                self._run_rest(parts, barrier)
                return
            for one, start, comp_end, end in self._held.pop(job, ()) if self._held else ():
                self._finish_part((one, start, comp_end - start), comp_end, end, barrier)
            self._finish_rounds(head, barrier)

    def _switch_ns(self, job: int, device: int) -> int:
        """What the device, which goes to ``job`` now, spends on it; its first job costs nothing."""
        last, self._last_job_D[device] = self._last_job_D[device], job
        return 0 if last in (-1, job) else int(self._switch_JT[job][self._type_D[device]])

    def _finish_rounds(self, one: Assignment, barrier: int) -> None:
        self._emit(self._passed(barrier, one.job, one.round, one.rounds))

    def _passed(self, barrier: int, job: int, round_: int, rounds: int) -> RoundsDone:
        last = round_ + rounds == self._rounds_J[job]
        shown = () if self._curves is None else self._curves.metrics(job, round_, rounds)
        return RoundsDone(barrier, job, round_, rounds, last, None, shown)

    def _finish_part(self, part: Part, comp_end: int, end: int, barrier: int) -> None:
        """A part with all its COMP time ends; if its job cut it short that shows at the barrier."""
        one, start, busy = part
        device, job, round_, rounds, shards = one.device, one.job, one.round, one.rounds, one.shards
        if self._short and self._short.get(job) == round_:
            self._emit(CompDone(barrier, job, round_, rounds, shards, device))
            times = start, comp_end, busy, end
            self._emit(TasksDone(barrier, job, round_, rounds, shards, device, *times))
            return
        self._emit(CompDone(comp_end, job, round_, rounds, shards, device))
        self._emit(TasksDone(end, job, round_, rounds, shards, device, start, comp_end, busy))

    def _run_rest(self, parts: list[Part], barrier: int) -> None:
        """Rounds 2 and later of a stretch whose first barrier is ``barrier``."""
        rounds = parts[0][0].rounds
        if self._lanes.noisy:
            for offset in range(1, rounds - 1):
                spans = [self._round_of(part, offset, barrier) for part, _, _ in parts]
                parts = [
                    (part, start, busy + comp_end - barrier)
                    for (part, start, busy), (comp_end, _) in zip(parts, spans, strict=True)
                ]
                barrier = max(end for _, end in spans)
            repeat = 1
        else:
            # All rounds are alike: look at the last one and count it rounds - 1 times.
            repeat = rounds - 1
        spans = [self._round_of(part, rounds - 1, barrier) for part, _, _ in parts]
        last = max([end for _, end in spans])
        skipped = (repeat - 1) * (last - barrier)
        for (part, start, busy), (comp_end, end) in zip(parts, spans, strict=True):
            busy += repeat * (comp_end - barrier)
            comp_end, end = comp_end + skipped, end + skipped
            self._comm_free_D[part.device] = end
            self._finish_part((part, start, busy), comp_end, end, last + skipped)
        self._finish_rounds(parts[0][0], last + skipped)

    def _round_of(self, part: Assignment, offset: int, begin: int) -> tuple[int, int]:
        kind = self._type_D[part.device]
        # The barrier has passed, so this device's COMM lane is free.
        return self._lanes.run_round(part.job, part.round + offset, part.shards, kind, begin, begin)
