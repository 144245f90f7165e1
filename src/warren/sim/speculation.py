"""Copies of late tasks in virtual time: the first result counts, and barriers move forward.

Once a run of a task starts, its end is known, so it is known at once which of two runs is first.
The other gives no ``TasksDone``; its end is decided when the round's barrier passes: if it has left
COMP it is over, else its COMP runs to the end and its synchronization does not happen. A task may
be copied that waits behind a run that has lost: then its copy begins first. A task draws the same
noise wherever it runs.
"""

from __future__ import annotations

from typing import NamedTuple

from warren.model.decision import Assignment
from warren.model.events import AnyEvent, CompDone, RoundsDone, TaskDropped, TasksDone
from warren.sim.lanes import Lanes

_Task = tuple[int, int, int]
"""(job, round, shard)."""


class _Run(NamedTuple):
    """One run of a task: its COMP, its end, and until when the COMM lane was taken before."""

    device: int
    comp_start_ns: int
    comp_end_ns: int
    end_ns: int
    comm_before_ns: int


class TaskCopies:
    """The part of a simulation that can start tasks under way once more.

    ``lanes``: where first runs and copies run.
    """

    __slots__ = ("_begun", "_comm_before_D", "_lanes", "_losers", "_waiting")

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes
        self._comm_before_D = list(lanes.comm_free_D)
        self._losers: dict[_Task, _Run] = {}
        # Tasks of which one run has begun, and the other will.
        self._begun: set[_Task] = set()
        # First runs, not begun yet, whose copy began before them.
        self._waiting: dict[_Task, Assignment] = {}

    def copy(self, copies: tuple[Assignment, ...]) -> None:
        """Start each copy at once, before tasks that its device has not begun."""
        lanes = self._lanes
        for one in copies:
            queue = lanes.queue_D[one.device]
            # A copy is allowed on a device whose head waits for this very barrier. It goes before
            # that head, which is looked at again when the copy leaves the queue.
            if queue:
                lanes.waiting_J[queue[0].job].remove(one.device)
            task = (one.job, one.round, one.shards[0])
            # Without an end to come the first run has not begun: it waits behind a run that has
            # lost, and is then the second of the two to start.
            if self._done_of(*task):
                self._begun.add(task)
            else:
                self._waiting[task] = self._first_run(one)
            queue.appendleft(one)
            self.start(one)
            self._begun.add(task)

    def start(self, head: Assignment) -> None:
        """Start an assignment, which may be the second run of its task."""
        lanes = self._lanes
        self._comm_before_D[head.device] = lanes.comm_free_D[head.device]
        task = (head.job, head.round, head.shards[0])
        if task in self._begun:
            self._begun.discard(task)
            self._waiting.pop(task, None)
            self._race(task, head)
        else:
            lanes.start(head)

    def frees(self, event: TaskDropped) -> bool:
        """Tell whether the run that is dropped leaves its device to the next in its queue."""
        queue = self._lanes.queue_D[event.device]
        head = queue[0] if queue else None
        task = (event.job, event.round, (event.shard,))
        return head is not None and (head.job, head.round, head.shards) == task

    def pass_barrier(self, job: int) -> None:
        """Decide the end of the runs that have lost, now that the job's round is over."""
        lanes, round_ = self._lanes, self._lanes.round_J[job]
        for task in [task for task in self._losers if task[:2] == (job, round_)]:
            self._let_go(task, self._losers.pop(task))
        # First runs whose copy was done before they began: dropped, with no COMP time wasted.
        for task in [task for task in self._waiting if task[:2] == (job, round_)]:
            one = self._waiting.pop(task)
            self._begun.discard(task)
            lanes.queue_D[one.device].remove(one)
            lanes.emit(TaskDropped(lanes.now_ns, *task, one.device, 0))

    def _first_run(self, copy: Assignment) -> Assignment:
        """Return the first run of a copied task, which waits in a queue behind a run that lost."""
        same = (copy.job, copy.round, copy.shards)
        every = (one for queue in self._lanes.queue_D for one in queue)
        return next(one for one in every if (one.job, one.round, one.shards) == same)

    def _race(self, task: _Task, one: Assignment) -> None:
        """Run a task's second run, and note which of the two loses.

        If two end at one instant, the first run counts.
        """
        second = self._run_second(one)
        self._losers[task] = second
        # There is no end to come if the first run has ended already; then it has won.
        for done in self._done_of(*task):
            if second.end_ns < done.time_ns:
                self._losers[task] = _Run(
                    device=done.device,
                    comp_start_ns=done.start_ns,
                    comp_end_ns=done.comp_end_ns,
                    end_ns=done.time_ns,
                    comm_before_ns=self._comm_before_D[done.device],
                )
                self._replace(*task, second)

    def _done_of(self, job: int, round_: int, shard: int | None = None) -> list[TasksDone]:
        """Return coming ends of tasks of a round, or of a task alone in its assignment."""
        done = [one for one in self._lanes.events if isinstance(one, TasksDone)]
        done = [one for one in done if (one.job, one.round) == (job, round_)]
        return [one for one in done if shard is None or one.shards == (shard,)]

    def _run_second(self, one: Assignment) -> _Run:
        """Start a second run; ``TasksDone`` is emitted for it only if it turns out to be first."""
        lanes, device = self._lanes, one.device
        now, before_ns = lanes.now_ns, lanes.comm_free_D[device]
        comp_end, end = lanes.durations.run_round(
            one.job, one.round, one.shards, lanes.type_D[device], now, before_ns
        )
        lanes.comm_free_D[device] = end
        lanes.emit(CompDone(comp_end, one.job, one.round, 1, one.shards, device))
        return _Run(device, now, comp_end, end, before_ns)

    def _replace(self, job: int, round_: int, shard: int, second: _Run) -> None:
        """End the task, and with it maybe the barrier, with the second run, which is first."""
        lanes = self._lanes
        self._remove(TasksDone, job, round_, (shard,))
        start, comp_end = second.comp_start_ns, second.comp_end_ns
        lanes.emit(
            TasksDone(
                second.end_ns,
                job,
                round_,
                1,
                (shard,),
                second.device,
                start,
                comp_end,
                comp_end - start,
            )
        )
        barrier = max(one.time_ns for one in self._done_of(job, round_))
        lanes.barrier_J[job] = barrier
        # All tasks of the round have started, so the event of its barrier is in the queue: replace
        # it. Else the last task to start will add it.
        if lanes.left_J[job] == 0:
            self._remove(RoundsDone, job, round_, None)
            lanes.emit(lanes.passed(barrier, job, round_, 1))

    def _let_go(self, task: _Task, run: _Run) -> None:
        """Drop a run that has lost: at once if it has left COMP, else when it leaves it."""
        lanes = self._lanes
        job, round_, shard = task
        at = lanes.now_ns
        # On COMP it frees its device by ``TaskDropped`` instead of ``CompDone``. It will not
        # synchronize, so the COMM lane is as it was before; a synchronization that has begun there
        # keeps its place.
        if run.comp_end_ns > at:
            at = run.comp_end_ns
            self._remove(CompDone, job, round_, (shard,), run.device)
            lanes.comm_free_D[run.device] = run.comm_before_ns
        busy = run.comp_end_ns - run.comp_start_ns
        lanes.emit(TaskDropped(at, job, round_, shard, run.device, busy))

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
            """Tell whether this is the event to take back."""
            if not isinstance(event, kind) or (event.job, event.round) != (job, round_):
                return False
            of_task = shards is None or getattr(event, "shards", None) == shards
            return of_task and (device is None or getattr(event, "device", None) == device)

        self._lanes.events.drop(is_meant)
