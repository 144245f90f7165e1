"""The process that computes the tasks of one job on one device; it knows nothing of schedules."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from msgspec.structs import replace

from warren.apps.protocol import TorchApp
from warren.live.device.trainer_link import TrainerLink
from warren.live.process.linux import (
    direct_output,
    known_as,
    leave_short,
    own_temporary_folder,
    pin_to_core,
    set_name,
)
from warren.live.process.specs import Role, TrainerRole
from warren.live.process.time_limit import Alarm
from warren.live.training import numerics
from warren.live.training.app.app_calls import BuiltApp, build
from warren.live.training.app.app_contract import refuse
from warren.live.training.app.app_errors import print_traceback, reason_of
from warren.live.training.app.app_loader import build_app, forget_apps
from warren.live.training.data_order import start_workers
from warren.live.training.input_data.batch_workers import BatchWorkers, workers_of
from warren.live.training.input_data.input_memory import InputMemory
from warren.live.training.memory.model_memory import ran_out
from warren.live.training.memory.shared_memory import MappedMemories
from warren.live.training.task_hashes import differs_filled
from warren.live.training.task_runner import MemoryOf, TaskRunner, in_main_memory
from warren.live.training.tensor_layout import Layout
from warren.live.transport.messages import (
    Build,
    DeviceFree,
    Evict,
    Evicted,
    Leave,
    Prepared,
    ReadInput,
    RunTask,
    Staged,
    StageState,
    TaskComputed,
    TaskRaised,
    TrainerReady,
)
from warren.live.transport.sockets import Poller, executor_address
from warren.model.errors import InputDataError

if TYPE_CHECKING:
    from warren.live.gpu.trainer_device import TrainerDevice


def main(role: Role, lifeline: int) -> None:
    """Serve one job's tasks on one device until the zygote is gone."""
    assert isinstance(role, TrainerRole)
    set_name(f"warren-{'again' if role.verifies else 'train'}-{role.device}")
    pin_to_core(role.core)
    own_temporary_folder(role.tmp)
    direct_output(role.log)
    Trainer(role).serve(lifeline)


EarlyBuild: TypeAlias = tuple[BuiltApp, BatchWorkers | None]
"""An app that was built before its process has used a device, and its workers."""


def workers_for(role: TrainerRole) -> int:
    """Return the number of workers of a trainer."""
    # No budget counts the memory of workers. A trainer that computes tasks again builds its batches
    # itself: what differs in a worker shows there.
    return 0 if role.inputs or role.verifies else workers_of(role.job, role.gpu)


class Trainer:
    """One job's app on one device: it computes its executor's tasks in shared memory.

    ``early``: the app is built already.
    """

    _pieces = True
    """Whether states come to a GPU piece by piece."""

    def __init__(self, role: TrainerRole, early: EarlyBuild | None = None) -> None:
        self._role = role
        self._job = role.job
        # A task that is computed again has the device to itself.
        self._link = TrainerLink(
            executor_address(role.folder, role.device, role.incarnation),
            behind=role.gpu is not None and not role.verifies,
        )
        self._runner: TaskRunner | None = None
        self._memory_of: MemoryOf = in_main_memory
        self._computed: Callable[[], None] | None = None
        self._prebuilt = early
        self._workers: BatchWorkers | None = None
        self._settled = 0, 0, True
        if role.inputs is None:
            self._inputs = None
        else:
            # A server builds the same with less: it computes no task.
            inputs = role.inputs if role.gpu is None else replace(role.inputs, model_on_disk=False)
            self._inputs = InputMemory(inputs, role.tmp, 2 * role.job.index + 1)
        # A state may lie in its server's own memory, which user code must not change.
        self._states = MappedMemories(read_only=True)
        self._updates = MappedMemories()
        if self._inputs is not None:
            self._states.disk = self._updates.disk = self._inputs.disk
        self._device: TrainerDevice | None = None
        if role.gpu is not None:
            self._use_gpu(role.gpu)
        self._alarm = Alarm()

    def serve(self, lifeline: int) -> None:
        """Build the app, then compute tasks until an order to leave or the end of the lifeline."""
        poller = Poller()
        poller.register(lifeline)
        self.listen(poller)
        while lifeline not in poller.poll() and self.turn():
            pass

    def listen(self, poller: Poller) -> None:
        """Say that this trainer is here; ``poller`` wakes up for its messages."""
        self._link.watch(poller)
        self._link.send(TrainerReady(self._job.index, known_as(), self._role.verifies))
        if self._device is None:  # on a GPU it waits for the order
            self._guarded(None)

    def turn(self) -> bool:
        """Do what the messages ask for that are here; False: the trainer is to leave."""
        for message in self._link.receive():
            match message:
                case Leave():
                    self._link.wait()
                    return False
                case RunTask():
                    self._guarded(message)
                case Evict():
                    self._evict()
                case Build():
                    self._guarded(None)
                case StageState():
                    self._stage(message)
                case ReadInput():
                    self._read_ahead(message.round, message.shard)
                case _ if not self._other(message):
                    raise ValueError(f"an executor does not send {message}")
        return True

    def _other(self, message: object) -> bool:
        """Take a message that only some trainers are sent; False: this one is not."""
        return False

    def _use_gpu(self, gpu: int) -> None:
        """Compute on a GPU; its code is loaded only where it is used."""
        from warren.live.gpu.trainer_device import trainer_device

        self._device = device = trainer_device(gpu, self._role.folder, pieces=self._pieces)
        self._memory_of, self._states, self._updates = (
            device.memory_of,
            device.states,
            device.updates,
        )
        if not self._role.verifies:
            self._computed = lambda: self._link.send(DeviceFree(self._job.index))

    def _stage(self, message: StageState) -> None:
        """Bring a state to the device ahead of its task."""
        if self._runner is not None:
            with suppress(Exception):  # its memory is gone, say: the task itself will meet it
                self._runner.stage(self._states.view(message.state), message.round)
        self._expect(message.round, message.shard)
        self._link.send(Staged(message.job, message.round))

    def _evict(self) -> None:
        """Give the memory of the device back."""
        self._link.wait()
        if self._runner is not None:
            self._runner.evict()
        self._link.send(Evicted(self._job.index))

    def _read_ahead(self, round_no: int, shard: int) -> None:
        """Begin to read the data of a task while other jobs' tasks compute."""
        if self._runner is not None:
            self._runner.read_ahead(round_no, shard)

    def _guarded(self, task: RunTask | None) -> None:
        """Compute a task, or only build the app if ``task`` is None, and send the outcome."""
        job = self._job.index
        shortages = self._shortages()
        try:
            while (runner := self._runner) is None:
                self._build()
            with self._alarm.within(self._job.task_limit_ns):
                rest = None if task is None else self._compute(runner, task)
            if task is None or rest is None:
                self._link.send(Prepared(job, *self._settled))
            else:
                self._link.send_result(partial(self._ended, runner.layout, task, rest))
        except BaseException as error:  # user code may raise anything, SystemExit too
            # An error may have left anything behind in the app: the next task builds it again.
            self._runner = None
            raised = self._raised(task, error)
            self._link.wait()  # those of tasks before it
            self._leave_if_short(error, shortages)
            self._link.send(raised)
        numerics.pin()  # user code may change any setting
        if task is not None and task.then is not None:
            self._expect(*task.then)

    def _build(self) -> None:
        """Build the app in its turn; after a lack of memory the next try has the model on disk."""
        try:
            # To wait for memory is not the app's doing: its time does not run yet.
            with nullcontext() if self._inputs is None else self._inputs.building():
                with self._alarm.within(self._job.task_limit_ns):
                    built = self._build_app()
                # Workers can be forked by now, so the device may be used.
                turn = nullcontext() if self._device is None else self._device.turn()
                with turn, self._alarm.within(self._job.task_limit_ns):
                    self._make_runner(built)
        except InputDataError as error:
            self._runner = None
            if self._inputs is None or not self._inputs.spill_model(error):
                raise
            self._states.disk = self._updates.disk = self._inputs.disk
            forget_apps()  # what the first build has left there is not for the second

    def _leave_if_short(self, error: BaseException, shortages: int) -> None:
        """End this process if its device had too little memory again.

        ``shortages``: the number of times before that.
        """
        if self._device is not None and (ran_out(error) or self._shortages() > shortages):
            leave_short()

    def _shortages(self) -> int:
        """Return the number of times that the device had too little memory for this process."""
        return 0 if self._device is None else self._device.shortages()

    def _raised(self, task: RunTask | None, error: BaseException) -> TaskRaised:
        """Write a traceback to the job's log; return the report for the executor."""
        where = "" if task is None else f" in round {task.round}, task {task.shard}"
        print(f"device {self._role.device}{where}:", file=sys.stderr)
        print_traceback(error)
        again = "" if task is None or not task.expected else ", computed again"
        said = f"app failed{where}{again}: {reason_of(error)}"
        if isinstance(error, InputDataError):
            said = reason_of(error)
        at = (-1, -1) if task is None else (task.round, task.shard)
        return TaskRaised(self._job.index, said, *at)

    def _expect(self, round_no: int, shard: int) -> None:
        """Prepare the inputs of the next task except its state, while the last result is taken."""
        if self._runner is not None:
            with suppress(BaseException):  # the task itself will meet it again, and say so
                self._runner.expect(round_no, shard)

    def _compute(self, runner: TaskRunner, task: RunTask) -> Callable[[], Any]:
        """Compute a task from shared memory; return the function that stores its update."""
        runner.read_ahead(task.round, task.shard)
        if task.then is not None:
            runner.read_ahead(*task.then)
            runner.build_ahead(*task.then)
        state = self._states.view(task.state)
        if not task.staged:
            runner.unstage()
        update = None if task.update is None else self._updates.view(task.update)
        # A task that is computed again has other values in memory that is not initialized.
        with numerics.filled() if self._role.verifies else nullcontext():
            return runner.start(state, task.round, task.shard, update, self._computed)

    def _ended(
        self, layout: Layout, task: RunTask, rest: Callable[[], Any]
    ) -> TaskComputed | TaskRaised:
        """Bring a task's update out; return the report for the executor."""
        try:
            report = self._report(task, rest())
            # Computed again (decision 0029): the hashes must be those of the other process.
            if task.expected not in (b"", report.marks):
                message = differs_filled(
                    layout, task.round, task.shard, task.expected, report.marks
                )
                raise refuse(self._job, "", message)
        except BaseException as error:  # hooks of the app's tensors may raise anything
            return self._raised(task, error)
        if self._role.verifies and self._runner is not None:
            self._runner.evict()  # its memory of the device is for others
        return report

    def _report(self, task: RunTask, result: Any) -> TaskComputed:
        """Return the report of a task that was computed; ``result``: what its rest has given."""
        done = task.job, task.round, task.shard, result.loss, result.present, result.marks
        return TaskComputed(*done, data_ns=result.data_ns)

    def _build_app(self) -> BuiltApp:
        """Build the app, and fork the workers that build its batches, unless that is done."""
        if self._prebuilt is not None:
            (built, self._workers), self._prebuilt = self._prebuilt, None
            return built
        disk = None if self._inputs is None else self._inputs.disk
        built = build(self._app(), self._job, disk)
        # A process that uses CUDA keeps the workers that it has.
        if self._workers is None or not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            if self._workers is not None:
                self._workers.close()
            self._workers = start_workers(built, self._job, workers_for(self._role))
        return built

    def _make_runner(self, built: BuiltApp) -> None:
        """Make the task runner of a built app, and rehearse a task."""
        disk = None if self._inputs is None else self._inputs.disk
        self._runner = TaskRunner(
            built.app,
            self._job,
            self._memory_of,
            self._inputs,
            disk,
            built=built,
            workers=self._workers,
            shared=self._role.tmp,
        )
        numerics.pin()  # the app's module, or its model's constructor, may change any setting
        if self._role.rehearse:
            self._runner.warm()
        numerics.pin()
        self._settled = self._settle(self._runner)
        if self._inputs is not None:
            self._inputs.reserve(self._runner.layout, 0, may_spill=False)

    def _app(self) -> TorchApp:
        """Return the job's app, to be built."""
        return build_app(self._job, self._role.base)

    def _settle(self, runner: TaskRunner) -> tuple[int, int, bool]:
        """Give the memory of the device back unless most of it is free; see ``ModelMemory``."""
        return runner.settle()
