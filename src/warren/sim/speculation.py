"""Copies of late tasks in virtual time: the first result counts, and barriers move forward.

Once a run of a task starts, its end is known, so it is known at once which of two runs is first.
The other gives no ``TasksDone``; what becomes of it is decided when the round's barrier passes: if
it has left COMP it is over, else its COMP runs to the end and its synchronisation does not happen.
A task may be copied that waits behind a run that has lost: then its copy begins first.
A task draws the same noise wherever it runs.
"""

from __future__ import annotations

from typing import NamedTuple

from warren.model.costs import CostTable
from warren.model.decision import Assignment
from warren.model.events import AnyEvent, CompDone, RoundsDone, TaskDropped, TasksDone
from warren.model.run import Run
from warren.sim.port import SimPort

_Task = tuple[int, int, int]
"""(job, round, shard)."""


class _Run(NamedTuple):
    """One run of a task: its COMP, its end, and until when the COMM lane was taken before."""

    device: int
    comp_start_ns: int
    comp_end_ns: int
    end_ns: int
    comm_before_ns: int


class CopyingPort(SimPort):
    """A ``SimPort`` that can start tasks under way once more."""

    __slots__ = ("_begun", "_comm_before_D", "_losers", "_waiting")

    def __init__(self, run: Run, costs: CostTable) -> None:
        super().__init__(run, costs)
        self._comm_before_D = list(self._comm_free_D)
        self._losers: dict[_Task, _Run] = {}
        self._begun: set[_Task] = set()  # one run has, the other will
        self._waiting: dict[_Task, Assignment] = {}  # first runs whose copy has begun before

    def copy(self, copies: tuple[Assignment, ...]) -> None:
        """Start each at once, before what its device has not begun."""
        for one in copies:
            queue = self._queue_D[one.device]
            if queue:
                self._waiting_J[queue[0].job].remove(one.device)
            task = (one.job, one.round, one.shards[0])
            if self._done_of(*task):
                self._begun.add(task)
            else:
                self._waiting[task] = self._first_run(one)
            queue.appendleft(one)
            self._start(one)
            self._begun.add(task)

    def next_events(self) -> tuple[AnyEvent, ...]:
        """All events of the next instant; see ``SimPort``."""
        events = super().next_events()
        for event in events:
            if isinstance(event, TaskDropped) and self._computes(event):
                self._free(event.device)
        return events

    def _start(self, head: Assignment) -> None:
        self._comm_before_D[head.device] = self._comm_free_D[head.device]
        task = (head.job, head.round, head.shards[0])
        if task in self._begun:
            self._begun.discard(task)
            self._waiting.pop(task, None)
            self._race(task, head)
        else:
            super()._start(head)

    def _first_run(self, copy: Assignment) -> Assignment:
        """Where a task waits behind a run that has lost."""
        same = (copy.job, copy.round, copy.shards)
        every = (one for queue in self._queue_D for one in queue)
        return next(one for one in every if (one.job, one.round, one.shards) == same)

    def _race(self, task: _Task, one: Assignment) -> None:
        second = self._run_second(one)
        self._losers[task] = second
        for done in self._done_of(*task):  # none if the first run has ended already
            if second.end_ns < done.time_ns:
                before_ns = self._comm_before_D[done.device]
                times = (done.start_ns, done.comp_end_ns, done.time_ns)
                self._losers[task] = _Run(done.device, *times, before_ns)
                self._replace(*task, second)

    def _done_of(self, job: int, round_: int, shard: int | None = None) -> list[TasksDone]:
        """Ends to come of tasks of a round, or of one that is alone in its assignment."""
        done = [one for one in self._events if isinstance(one, TasksDone)]
        done = [one for one in done if (one.job, one.round) == (job, round_)]
        return [one for one in done if shard is None or one.shards == (shard,)]

    def _run_second(self, one: Assignment) -> _Run:
        device, now = one.device, self._now
        before_ns = self._comm_free_D[device]
        kind = self._type_D[device]
        comp_end, end = self._lanes.run_round(one.job, one.round, one.shards, kind, now, before_ns)
        self._comm_free_D[device] = end
        self._emit(CompDone(comp_end, one.job, one.round, 1, one.shards, device))
        return _Run(device, now, comp_end, end, before_ns)

    def _replace(self, job: int, round_: int, shard: int, second: _Run) -> None:
        """The second run will be first: the task's end, and maybe the barrier, come earlier."""
        self._remove(TasksDone, job, round_, (shard,))
        start, comp_end = second.comp_start_ns, second.comp_end_ns
        what = (job, round_, 1, (shard,), second.device)
        self._emit(TasksDone(second.end_ns, *what, start, comp_end, comp_end - start))
        barrier = max(one.time_ns for one in self._done_of(job, round_))
        self._barrier_J[job] = barrier
        if self._left_J[job] == 0:
            self._remove(RoundsDone, job, round_, None)
            self._emit(self._passed(barrier, job, round_, 1))

    def _pass_barrier(self, job: int, rounds: int) -> None:
        round_ = self._round_J[job]
        for task in [task for task in self._losers if task[:2] == (job, round_)]:
            self._let_go(task, self._losers.pop(task))
        for task in [task for task in self._waiting if task[:2] == (job, round_)]:
            one = self._waiting.pop(task)
            self._begun.discard(task)
            self._queue_D[one.device].remove(one)
            self._emit(TaskDropped(self._now, *task, one.device, 0))
        super()._pass_barrier(job, rounds)

    def _let_go(self, task: _Task, run: _Run) -> None:
        job, round_, shard = task
        at = self._now
        if run.comp_end_ns > at:
            at = run.comp_end_ns
            self._remove(CompDone, job, round_, (shard,), run.device)
            self._comm_free_D[run.device] = run.comm_before_ns
        busy = run.comp_end_ns - run.comp_start_ns
        self._emit(TaskDropped(at, job, round_, shard, run.device, busy))

    def _computes(self, event: TaskDropped) -> bool:
        queue = self._queue_D[event.device]
        head = queue[0] if queue else None
        task = (event.job, event.round, (event.shard,))
        return head is not None and (head.job, head.round, head.shards) == task

    def _remove(
        self,
        kind: type[CompDone | TasksDone | RoundsDone],
        job: int,
        round_: int,
        shards: tuple[int, ...] | None,
        device: int | None = None,
    ) -> None:
        """Take back an event that will not happen; None: of any shards, on any device."""

        def is_meant(event: AnyEvent) -> bool:
            if not isinstance(event, kind) or (event.job, event.round) != (job, round_):
                return False
            of_task = shards is None or getattr(event, "shards", None) == shards
            return of_task and (device is None or getattr(event, "device", None) == device)

        self._events.drop(is_meant)
