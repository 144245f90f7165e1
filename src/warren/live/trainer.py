"""The process that runs a user's losses on one device; it knows tasks, nothing of schedules."""

from __future__ import annotations

import faulthandler
import os
import sys
import traceback

import zmq

from warren.live.lanes import Key
from warren.live.messages import Prepare, Prepared, RunTask, TaskComputed, TaskRaised, TrainerReady
from warren.live.processes import direct_output, set_name
from warren.live.roles import Role, TrainerRole
from warren.live.training import numerics
from warren.live.training.load import build_app
from warren.live.training.runner import TaskRunner
from warren.live.transport import Link, executor_address
from warren.model.errors import SpecError


def main(role: Role, lifeline: int) -> None:
    """Serve one device's tasks of one user until the zygote is gone."""
    assert isinstance(role, TrainerRole)
    set_name(f"warren-train-{role.device}")
    faulthandler.enable()
    Trainer(role, lifeline).serve()


def one_line(error: BaseException) -> str:
    """What the app raised, for a reason; the traceback belongs in the log."""
    text = str(error) if isinstance(error, SpecError) else f"{type(error).__name__}: {error}"
    return " ".join(text.split())[:500]


class Trainer:
    """Builds each job's app once; holds the last state it was given."""

    def __init__(self, role: TrainerRole, lifeline: int) -> None:
        self._role, self._lifeline = role, lifeline
        self._jobs = {job.index: job for job in role.jobs}
        self._link = Link(zmq.Context(), executor_address(role.folder, role.device))
        self._runners: dict[int, TaskRunner] = {}
        self._held: tuple[Key, memoryview] | None = None
        self._log_of: int | None = None

    def serve(self) -> None:
        """Do what comes, until the zygote closes the lifeline."""
        poller = zmq.Poller()
        poller.register(self._link.socket, zmq.POLLIN)
        poller.register(self._lifeline, zmq.POLLIN)
        self._link.send(TrainerReady(self._role.user, os.getpid()))
        while True:
            if any(source == self._lifeline for source, _ in poller.poll()):
                return
            for message, buffers in self._link.drain():
                assert isinstance(message, Prepare | RunTask)
                self._guarded(message, buffers)

    def _guarded(self, message: Prepare | RunTask, buffers: list[memoryview]) -> None:
        self._log_to(message.job)
        try:
            if isinstance(message, Prepare):
                self._prepare(message.job)
                self._link.send(Prepared(message.job))
            else:
                self._compute(message, buffers)
        except BaseException as error:  # user code may raise anything, SystemExit too
            where = ""
            if isinstance(message, RunTask):
                where = f" in round {message.round}, task {message.shard}"
            print(f"device {self._role.device}{where}:", file=sys.stderr)
            traceback.print_exc()
            sys.stderr.flush()
            self._runners.pop(message.job, None)
            self._link.send(TaskRaised(message.job, f"app failed{where}: {one_line(error)}"))

    def _prepare(self, job: int) -> None:
        runner = self._runner(job)
        if self._role.rehearse:
            runner.warm()

    def _compute(self, task: RunTask, buffers: list[memoryview]) -> None:
        key = (task.job, task.round)
        if buffers:
            self._held = (key, buffers[0])
        assert self._held is not None
        assert self._held[0] == key
        runner = self._runner(task.job)
        numerics.pin()  # apps share this process, and a module may set what it likes
        result = runner.run(self._held[1], task.round, task.shard)
        self._link.send(
            TaskComputed(task.job, task.round, task.shard, result.loss, result.sha),
            result.update,
            result.present,
        )

    def _runner(self, job: int) -> TaskRunner:
        if job not in self._runners:
            spec = self._jobs[job]
            self._runners[job] = TaskRunner(build_app(spec, self._role.base), spec)
        return self._runners[job]

    def _log_to(self, job: int) -> None:
        if job != self._log_of:
            direct_output(self._role.logs[job])
            self._log_of = job
