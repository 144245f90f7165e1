"""The process that runs a user's losses on one device; it knows tasks, nothing of schedules."""

from __future__ import annotations

import os
import sys
import traceback
from contextlib import suppress

from warren.live.limits import Alarm
from warren.live.memory_limit import enter
from warren.live.messages import (
    Forget,
    Prepare,
    Prepared,
    RunTask,
    TaskComputed,
    TaskRaised,
    TrainerReady,
)
from warren.live.processes import direct_output, own_temporary_folder, pin_to_core, set_name
from warren.live.roles import Role, TrainerRole
from warren.live.training import numerics
from warren.live.training.load import build_app
from warren.live.training.runner import TaskRunner
from warren.live.training.windows import Windows
from warren.live.transport import Link, Poller, executor_address
from warren.model.errors import SpecError


def main(role: Role, lifeline: int) -> None:
    """Serve one device's tasks of one user until the zygote is gone."""
    assert isinstance(role, TrainerRole)
    set_name(f"warren-train-{role.device}")
    pin_to_core(role.core)
    enter(role.memory)
    own_temporary_folder(role.tmp)
    Trainer(role, lifeline).serve()


def one_line(error: BaseException) -> str:
    """What the app raised, for a reason; the traceback belongs in the log."""
    what, text = type(error).__name__, str(error)
    if not isinstance(error, SpecError):
        text = f"{what}: {text}" if text else what
    return " ".join(text.split())[:500]


class Trainer:
    """Builds each job's app once, and shares memory with its executor."""

    def __init__(self, role: TrainerRole, lifeline: int) -> None:
        self._role, self._lifeline = role, lifeline
        self._jobs = {job.index: job for job in role.jobs}
        self._link = Link(executor_address(role.folder, role.device, role.life))
        self._runners: dict[int, TaskRunner] = {}
        self._states: dict[int, Windows] = {}
        self._updates: dict[int, Windows] = {}
        self._expecting: TaskRunner | None = None
        self._log_of: int | None = None
        self._alarm = Alarm()

    def serve(self) -> None:
        """Do what comes, until the zygote closes the lifeline."""
        poller = Poller()
        for source in (self._link, self._lifeline):
            poller.register(source)
        self._link.send(TrainerReady(self._role.user, os.getpid()))
        while True:
            if self._lifeline in poller.poll():
                return
            for message, _ in self._link.drain():
                match message:
                    case Forget(job=job):
                        self._forget(job)
                    case Prepare() | RunTask():
                        self._guarded(message)
                    case _:
                        raise ValueError(f"an executor does not send {message}")

    def _guarded(self, message: Prepare | RunTask) -> None:
        self._log_to(message.job)
        if self._expecting is not self._runners.get(message.job):
            self._expect_nothing()
        try:
            with self._alarm.within(self._jobs[message.job].task_limit_ns):
                if isinstance(message, Prepare):
                    self._prepare(message.job)
                    answer: Prepared | TaskComputed = Prepared(message.job)
                else:
                    answer = self._compute(message)
            self._link.send(answer)
        except BaseException as error:  # user code may raise anything, SystemExit too
            where = ""
            if isinstance(message, RunTask):
                where = f" in round {message.round}, task {message.shard}"
            print(f"device {self._role.device}{where}:", file=sys.stderr)
            traceback.print_exc()
            sys.stderr.flush()
            self._runners.pop(message.job, None)
            self._link.send(TaskRaised(message.job, f"app failed{where}: {one_line(error)}"))
        numerics.pin()  # apps share this process, and code may set what it likes
        if isinstance(message, RunTask) and message.then is not None:
            self._expect(message.job, *message.then)

    def _expect(self, job: int, round_no: int, shard: int) -> None:
        """While servers take the last result: what the next task needs beside its state."""
        self._expect_nothing()
        runner = self._runners.get(job)
        if runner is not None:
            with suppress(Exception):  # the task itself will meet it again, and say so
                runner.expect(round_no, shard)
            self._expecting = runner

    def _expect_nothing(self) -> None:
        if self._expecting is not None:
            self._expecting.expect_nothing()
            self._expecting = None

    def _prepare(self, job: int) -> None:
        runner = self._runner(job)
        if self._role.rehearse:
            runner.warm()

    def _compute(self, task: RunTask) -> TaskComputed:
        states = self._states.setdefault(task.job, Windows(read_only=True))
        updates = self._updates.setdefault(task.job, Windows())
        runner = self._runner(task.job)
        state, update = states.view(task.state), updates.view(task.update)
        result = runner.run(state, task.round, task.shard, update)
        return TaskComputed(
            task.job, task.round, task.shard, result.loss, result.present, result.marks
        )

    def _forget(self, job: int) -> None:
        """A job has ended; what it held is needed by others."""
        self._expect_nothing()
        self._runners.pop(job, None)
        for windows in (self._states.pop(job, None), self._updates.pop(job, None)):
            if windows is not None:
                windows.close()

    def _runner(self, job: int) -> TaskRunner:
        if job not in self._runners:
            spec = self._jobs[job]
            self._runners[job] = TaskRunner(build_app(spec, self._role.base), spec)
            numerics.pin()
        return self._runners[job]

    def _log_to(self, job: int) -> None:
        if job != self._log_of:
            direct_output(self._role.logs[job])
            self._log_of = job
