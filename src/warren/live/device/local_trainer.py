"""A trainer in the process of its job's server: the store lies on the same device.

It computes tasks before it is asked for them, up to the next task of another job in the device's
queue. So the device does not wait for messages. A task's bits do not depend on when it runs; it
counts when it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass

from warren.apps.protocol import TorchApp
from warren.live import run_clock
from warren.live.device.repeated_tasks import RepeatedTasks
from warren.live.device.trainer import EarlyBuild, Trainer, workers_for
from warren.live.process.specs import TrainerRole
from warren.live.process.time_limit import Alarm
from warren.live.server.local_tasks import LocalTasks
from warren.live.training import numerics
from warren.live.training.app.app_calls import build
from warren.live.training.app.app_loader import build_app
from warren.live.training.data_order import start_workers
from warren.live.training.task_hashes import TaskResult
from warren.live.training.task_runner import TaskRunner
from warren.live.transport.messages import GoAhead, RunTask, Staged, StageState, TaskComputed
from warren.model.errors import SpecError

Task = tuple[int, int]
"""Round and shard."""


@dataclass(frozen=True, slots=True)
class TimedResult:
    """The result of a task, and when the device began and ended it, in ns of the run's clock.

    ``unasked``: it was computed before it was asked for.
    """

    result: TaskResult
    began_ns: int
    ended_ns: int
    unasked: bool


class LocalTrainer(Trainer):
    """Computes the tasks of a store in this process, on the device where that lies."""

    _pieces = False

    def __init__(
        self, role: TrainerRole, local: LocalTasks, early: EarlyBuild | None = None
    ) -> None:
        super().__init__(role, early)
        self._local = local
        # The result is there soon after the gradients; the device is free then.
        self._computed = None
        self._early: dict[Task, Future[TimedResult]] = {}
        # When the device ended its last task.
        self._ended_ns = 0
        self._latest: Task | None = None
        # Most tasks that may be computed and were not asked for.
        self._most = 0
        self._repeated = RepeatedTasks(role.job, role.verify, self._second_runner)

    def _other(self, message: object) -> bool:
        if isinstance(message, GoAhead):
            self._most = message.tasks
            return True
        return False

    def go_on(self) -> bool:
        """Compute the next task before it is asked for, if that is allowed; tell whether it did."""
        task = self._next()
        if task is None or self._runner is None:
            return False
        shortages = self._shortages()
        try:
            with self._alarm.within(self._job.task_limit_ns):
                work = self._launch(self._runner, task, unasked=True)
            self._early[task] = work
            self._link.send_result(lambda: self._early_report(task, work))
        except BaseException as error:
            self._leave_if_short(error, shortages)
            # It will raise again when it is asked for, where that is reported.
            self._most, self._runner = 0, None
            return False
        finally:
            numerics.pin()
        return True

    def _next(self) -> Task | None:
        """Return the task that follows the latest one, if it may be computed now."""
        if not self._most or self._latest is None:
            return None
        self._early = {one: work for one, work in self._early.items() if self._local.waits(*one)}
        if len(self._early) >= self._most:
            return None
        task = self._after(*self._latest)
        return task if self._local.open(task[0]) else None

    def _after(self, round_no: int, shard: int) -> Task:
        """Return the task that follows another one if all of the job's run here."""
        return (round_no, shard + 1) if shard + 1 < self._job.scale else (round_no + 1, 0)

    def _launch(
        self, runner: TaskRunner, task: Task, *, unasked: bool = False
    ) -> Future[TimedResult]:
        """Let the device compute a task, whose update stays there."""
        launched_ns = run_clock.now_ns()
        state, update = self._local.state(task[0]), self._local.lend()
        started = runner.start(state, *task, update)
        self._latest = task
        self._local.computed(*task, started.present, update)
        again = self._repeated.start(state, *task, self._local.lend)
        runner.build_ahead(*self._after(*task))

        def wait() -> TimedResult:
            """Wait for the result, in the thread of results."""
            result = started()
            began_ns, self._ended_ns = max(launched_ns, self._ended_ns), run_clock.now_ns()
            if again is not None:
                self._repeated.check(*task, result, again())
            return TimedResult(result, began_ns, self._ended_ns, unasked)

        return self._link.behind(wait)

    def _second_runner(self) -> TaskRunner:
        """Build the app once more, for tasks that are computed again."""
        return TaskRunner(_app_of_tasks(self._role), self._job, self._memory_of)

    def _early_report(self, task: Task, work: Future[TimedResult]) -> TaskComputed | None:
        """Return the report of a task that was not asked for; None: it failed."""
        return None if work.exception() is not None else self._report_of(task, work.result())

    def _report_of(self, task: Task, timed: TimedResult) -> TaskComputed:
        found = timed.result
        done = self._job.index, *task, found.loss, found.present, found.marks
        return TaskComputed(*done, timed.began_ns, timed.ended_ns, found.data_ns, timed.unasked)

    def _compute(self, runner: TaskRunner, task: RunTask) -> Callable[[], TimedResult]:
        key = task.round, task.shard
        self._most = task.ahead
        found = self._early.pop(key, None)
        return (self._launch(runner, key) if found is None else found).result

    def _report(self, task: RunTask, result: TimedResult) -> TaskComputed:
        return self._report_of((task.round, task.shard), result)

    def _settle(self, runner: TaskRunner) -> tuple[int, int, bool]:
        device_bytes, free_bytes, stays = runner.settle()
        # Only where it takes no memory that another job, or a task, could need.
        if self._role.verify and stays and free_bytes >= 2 * device_bytes:
            self._repeated.prepare()
            device_bytes, free_bytes, stays = runner.settle()
        if not stays:
            self._local.leave()
            self._repeated.evict()
            _, free_bytes, _ = runner.settle()
        return device_bytes, free_bytes, stays

    def _evict(self) -> None:
        # Results of tasks on their way are read first.
        self._link.behind(int).result()
        self._most = 0
        self._local.leave()
        self._repeated.evict()
        super()._evict()

    def _expect(self, round_no: int, shard: int) -> None:
        # The step, in this process, sets the generators for itself before the next task comes.
        pass

    def _stage(self, message: StageState) -> None:
        self._local.come_back()
        self._link.send(Staged(message.job, message.round))

    def _app(self) -> TorchApp:
        return _app_of_tasks(self._role)


def build_early(role: TrainerRole) -> EarlyBuild | None:
    """Build the app of a job's tasks before its server is made; None: it has no workers.

    Workers are forked here, since a server uses the device.
    """
    count = workers_for(role)
    if not count:
        return None
    with Alarm().within(role.job.task_limit_ns):
        built = build(_app_of_tasks(role), role.job)
        workers = start_workers(built, role.job, count)
    numerics.pin()  # the app's module, or its model's constructor, may change any setting
    return built, workers


def _app_of_tasks(role: TrainerRole) -> TorchApp:
    # The store in this process builds the app too: the tasks' one has globals and classes of its
    # own, as in a process of its own.
    with suppress(SpecError):
        return build_app(role.job, role.base, copy=True)
    return build_app(role.job, role.base)
