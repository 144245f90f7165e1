"""``engine: plain`` behind the core's port: jobs one after another, each in a process of its own.

The port takes one assignment a job, its whole run on device 0, in arrival order, and answers it
with one CompDone, TasksDone and RoundsDone of real duration.
"""

from __future__ import annotations

from collections import deque
from pathlib import Path

from warren.core.ports import Restart
from warren.live.control.engine import LiveEngine
from warren.live.process.host_placement import ALONE, HostPlacement
from warren.live.process.process_pool import ZygoteLost
from warren.live.process.specs import Exited, PlainRole, Role
from warren.live.process.time_limit import OVER_LOG, over_log
from warren.live.transport.messages import JobBroke, PlainDone
from warren.model.decision import Assignment
from warren.model.errors import EngineError
from warren.model.events import CompDone, JobFailed, ParamsSaved, RolledBack, RoundsDone, TasksDone


class PlainPort(LiveEngine):
    """Trains the jobs of a run with the ``plain`` engine."""

    _queue: deque[Assignment]
    _running: Assignment | None = None
    _ticket = 0

    def start(self) -> None:
        """Bring up the zygote."""
        self._queue = deque()
        super().start()

    def _placement_now(self) -> HostPlacement:
        """Return this machine alone: a plain process has no connections, so it needs no testbed."""
        return ALONE

    def resume(self, restart: Restart) -> None:
        """Continue a run that was cut off, before ``start``; jobs that had begun begin again."""
        super().resume(restart)
        rows = list(zip(restart.arrived_J, restart.ended_J, strict=True))
        # A job may have failed before it arrived: then it does not arrive either.
        come = [job for job, (arrived, ended) in enumerate(rows) if arrived or ended]
        self._pending.resume(restart.now_ns, come, restart.wakes_ns)
        for job, (arrived, ended) in enumerate(rows):
            if arrived and not ended:
                self._pending.push(RolledBack(restart.now_ns, job, 0, "the run was cut off"))

    def submit(self, assignments: tuple[Assignment, ...]) -> None:
        """Append whole runs of jobs to the queue.

        Raises
        ------
        EngineError
            If an assignment is not all of a job's shards from round 0 on.
        """
        for one in assignments:
            if one.round != 0 or len(one.shards) != self._jobs[one.job].scale:
                raise EngineError("the plain engine takes whole jobs only")
            self._queue.append(one)

    def _receive(self, timeout_ms: int | None) -> None:
        super()._receive(timeout_ms)
        # One job at a time: the next is forked when none runs and it has arrived.
        if self._running is None and self._queue and self._clock is not None:
            arrival_ns = self._jobs[self._queue[0].job].arrival_ns
            if self._now_ns() >= arrival_ns:
                self._fork(self._queue.popleft())

    def _fork(self, one: Assignment) -> None:
        """Start the process that trains a job from its first round to its last."""
        self._running = one
        job = self._jobs[one.job]
        role = PlainRole(
            folder=str(self._folder),
            base=self._run.base,
            job=job,
            log=self._outputs.log(job.index),
            params=self._outputs.params(job.index),
            tmp=str(Path(str(self._folder)) / "user"),
            gpu=self._gpus[one.device],
        )
        self._ticket = self._pool.fork(role)

    def _handle(self, peer: bytes, message: object) -> None:
        """Take the outcome of a job from its process."""
        match message:
            case PlainDone():
                self._done(message)
            case JobBroke(job=job, reason=reason):
                self._broke(job, reason)
            case _:
                raise EngineError(f"unexpected message {message}")

    def _done(self, done: PlainDone) -> None:
        """Make the events of a job that has been trained to its end."""
        one, clock = self._running, self._clock
        assert one is not None
        assert clock is not None
        arrival_ns = self._jobs[one.job].arrival_ns
        # The start may not be before an event that the core has; a task lasts at least 1 ns.
        start_ns = max(clock.cluster_ns(done.start_ns), arrival_ns, self._pending.last_ns)
        end_ns = max(clock.cluster_ns(done.end_ns), start_ns + 1)
        task = (one.job, one.round, done.rounds, one.shards, one.device)
        self._pending.push(CompDone(end_ns, *task))
        self._pending.push(TasksDone(end_ns, *task, start_ns, end_ns, end_ns - start_ns))
        metrics = dict(done.metrics)
        for number, loss in enumerate(done.losses[:-1]):
            # The plain loop has no clock: every row carries the time of the end.
            values = metrics.get(number + 1, {})
            self._outputs.add_metrics(one.job, number, end_ns, loss, values)
        # The row of the last round is written when its event is handed out (``_deliver``).
        last = tuple(sorted(metrics.get(done.rounds, {}).items()))
        self._pending.push(RoundsDone(end_ns, one.job, 0, done.rounds, True, done.losses[-1], last))
        self._pending.push(ParamsSaved(end_ns, one.job, done.sha256, self.numerics_J[one.job]))
        self._over()

    def _broke(self, job: int, reason: str) -> None:
        """Fail a job whose process cannot go on."""
        self._pending.push(JobFailed(self._pending.after_known(job, self._now_ns()), job, reason))
        self._over()

    def _over(self) -> None:
        """Let the next job begin; the process of this one is ended without a report."""
        self._running = None
        self._pool.end(self._ticket)

    def _process_ended(self, ticket: int, role: Role, exited: Exited) -> None:
        """Fail the running job if its process has ended before it reported the outcome."""
        if ticket == self._ticket and isinstance(role, PlainRole):
            how = over_log(exited.how) if exited.how.startswith(OVER_LOG) else ""
            said = f"its process {how}" if how else f"its process ended: {exited.how or 'left'}"
            self._broke(role.job.index, said)

    def _zygote_lost(self, error: ZygoteLost) -> None:
        """Start another zygote; the job that ran begins again."""
        self._starts.lost(error)
        self._end_pool()
        self._start_warm()
        if self._running is not None:
            job, self._running = self._running.job, None
            at_ns = self._pending.after_known(job, self._now_ns())
            self._pending.push(RolledBack(at_ns, job, 0, str(error)))

    def _stuck(self) -> bool:
        return self._running is None and not self._queue and self._pending.empty
