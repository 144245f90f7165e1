"""Compute one task on the trainer's side: state in, update out, nothing kept in between."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from warren.apps.protocol import TorchApp
from warren.live.training.app.app_calls import BuiltApp, build
from warren.live.training.app.app_contract import checked_loss, refuse
from warren.live.training.data_order import batches_of
from warren.live.training.input_data.batch_workers import BatchWorkers, WorkersLost
from warren.live.training.input_data.input_memory import InputMemory
from warren.live.training.isolation.task_rules import TaskRules
from warren.live.training.memory.device_bytes import DeviceBytes
from warren.live.training.memory.disk_memory import DiskMemory
from warren.live.training.memory.gradients_on_disk import GradientsOnDisk
from warren.live.training.memory.model_memory import Held, ModelMemory
from warren.live.training.memory.shared_memory import StateMemory, copy_all, fresh
from warren.live.training.seeding import reseed
from warren.live.training.task_hashes import TaskResult
from warren.live.training.tensor_layout import Layout, TensorPlaces, flat_of, raw, tensors
from warren.live.transport.frames import Buffer
from warren.model.job import Job

MemoryOf: TypeAlias = Callable[[BuiltApp, Layout], ModelMemory]
"""Brings a built model, and the tensors its app keeps, to the device of tasks."""


def _nbytes(held: Held) -> int:
    return held.nbytes if isinstance(held, DeviceBytes) else memoryview(held).nbytes


def in_main_memory(built: BuiltApp, layout: Layout) -> ModelMemory:
    """Leave a model where it was built."""
    return ModelMemory(layout)


@dataclass(frozen=True, slots=True)
class StartedTask:
    """A task whose gradients are computed, or on their way on a device.

    ``present``: as in its result, which a call gives.
    """

    present: bytes
    _end: Callable[[], TaskResult]

    def __call__(self) -> TaskResult:
        """Wait for the result, and return it."""
        return self._end()


class TaskRunner:
    """Computes any task of a job, in any order and in any process, with the same result.

    ``memory`` says where the model lies; numbers of one kind of device differ from another's.
    ``inputs`` spills the data as soon as they are there; None: they stay in memory. ``disk``: where
    large tensors of the model lie, and of updates without a place of their own. ``built``: the app
    is built already, and ``workers`` of it build batches ahead. ``shared``: a folder of all the
    job's processes on this host; None: there is none.
    """

    def __init__(
        self,
        app: TorchApp,
        job: Job,
        memory: MemoryOf = in_main_memory,
        inputs: InputMemory | None = None,
        disk: DiskMemory | None = None,
        *,
        built: BuiltApp | None = None,
        workers: BatchWorkers | None = None,
        shared: str | None = None,
    ) -> None:
        self._app, self._job = app, job
        self._disk = disk
        self.built = build(app, job, disk) if built is None else built
        reader = None if inputs is None else inputs.spill(self.built.dataset)
        self._model = self.built.model
        self.layout = Layout.of(self._model)
        self._memory = memory(self.built, self.layout)
        self._memory.disk = disk
        self._gradients = None if disk is None else GradientsOnDisk(self._model, disk)
        self.rules = TaskRules(self.built, job)
        self._batches = batches_of(self.built, job, reader, workers=workers, shared=shared)
        self._places = TensorPlaces(self._model)
        self._params = len(self.layout.params)
        self._modules = list(self._model.modules())
        # No module has a way of its own to be set to training.
        self._plainly_trained = all(type(one).train is nn.Module.train for one in self._modules)
        # User code never runs early here, so only batches of plain tensors are built ahead.
        self._builds_ahead = self._batches.plain and not self._batches.spilled
        # For coming tasks: batches that a thread gets ready, and a batch that is ready.
        self._coming: dict[tuple[int, int], Future[Any]] = {}
        self._compared = workers is None
        self._expected: tuple[tuple[int, int], Any] | None = None
        # How long the last task has waited for its batch.
        self._data_ns = 0

    @property
    def on_device(self) -> bool:
        """Tell whether the model lies on a device, so that steps need another in main memory."""
        return self._memory.on_device

    def expect(self, round_no: int, shard: int) -> None:
        """Prepare a task before its state is here: set its generators, build its batch.

        ``expect_nothing`` comes first if other code runs in this process before the task does.
        """
        self.expect_nothing()
        reseed(self._job.seed, round_no, shard)
        batch = self._moved(round_no, shard) if self._builds_ahead else None
        self._batches.ahead(round_no, shard)
        self._expected = (round_no, shard), batch

    def build_ahead(self, round_no: int, shard: int) -> None:
        """Let a thread build the batch of a coming task while this one computes, if there is one.

        Indexing plain tensors draws from no generator. Of workers it takes the batch.
        """
        if self._builds_ahead or self._batches.workers is not None:
            build = self._memory.in_thread(self._batches.later(round_no, shard))
            if build is not None:
                self._coming[round_no, shard] = build

    def read_ahead(self, round_no: int, shard: int) -> None:
        """Begin to read a coming task's data from disk, or to build its batch in a worker."""
        self._batches.ahead(round_no, shard)

    def expect_nothing(self) -> None:
        """Forget the work of ``expect``: generators were changed, or the task does not come."""
        self._expected = None

    def stage(self, state: Buffer, round_no: int) -> None:
        """Bring the state of a round near the model before its task comes, if that can be done."""
        self._memory.stage(state, round_no)

    def unstage(self) -> None:
        """Forget the staged state: the job was rolled back since, or has other servers."""
        self._memory.unstage()

    def evict(self) -> None:
        """Give the memory of the device back until the next state comes."""
        self.expect_nothing()
        self._coming.clear()
        self._memory.evict()

    def settle(self) -> tuple[int, int, bool]:
        """Give the memory of the device back unless most of it is free; see ``ModelMemory``."""
        return self._memory.settle()

    def run(
        self,
        state: Held,
        round_no: int,
        shard: int,
        update: Held | None = None,
    ) -> TaskResult:
        """Compute task (round_no, shard) to its end; see ``start``."""
        return self.start(state, round_no, shard, update)()

    def start(
        self,
        state: Held,
        round_no: int,
        shard: int,
        update: Held | None = None,
        computed: Callable[[], None] | None = None,
    ) -> StartedTask:
        """Compute gradients and buffers of task (round_no, shard) from the state of that round.

        Parameters
        ----------
        state
            ``layout.total_bytes`` bytes, as all parts of a store together give them, or such a
            state on the model's device. Only read.
        update
            As many bytes to write the update to, every one of them; new ones if not given.
        computed
            Called when gradients are computed, before they are gathered.

        Returns
        -------
        StartedTask
            Call it once to bring the result into the update and hash it. If the model is on a
            device another thread may call it while the next task computes.
        """
        place = self._room() if update is None else update
        for held in (state, place):
            if _nbytes(held) != self.layout.total_bytes:
                raise ValueError(f"a state of this job has {self.layout.total_bytes} bytes")
        if not isinstance(place, DeviceBytes) and memoryview(place).readonly:
            raise ValueError("an update needs memory that may be written")
        if self._gradients is not None:
            self._gradients.targets = self._memory.places(place).views
        # A second pass comes if the app may keep a forbidden value.
        for _ in self.rules.passes():
            before = self._reset(state, round_no)
            self.rules.begin(round_no, shard)
            batch = self._batch(round_no, shard)
            self._batches.guess(round_no + 1, shard)
            with self._memory.computing():
                loss = checked_loss(self._app.loss(self._model, batch), self._job)
            loss.backward()  # type: ignore[no-untyped-call]
            self.rules.end(loss, before)
        if computed is not None:
            self._memory.wait(loss)
            computed()
        present = self._collect(self._memory.places(place))
        bring_out = self._memory.bring_out(place, loss, present)
        data_ns = self._data_ns

        def end() -> TaskResult:
            value, marks = bring_out()
            whole = place if isinstance(place, DeviceBytes) else memoryview(place)
            return TaskResult(
                loss=value, present=present, marks=marks, update=(whole,), data_ns=data_ns
            )

        return StartedTask(present, end)

    def put_back(self, state: Buffer, round_no: int) -> None:
        """Put the state of a round back into a model that runs tasks and steps, as in a ring.

        Otherwise a task's writes past ``TaskRules`` would count there, and nowhere else.
        """
        if not self.on_device:
            self._reset(state, round_no)

    def _batch(self, round_no: int, shard: int) -> Any:
        """Return the task's batch, once the generators are set: its samples may draw from them."""
        begin_ns = time.monotonic_ns()
        task, batch = self._expected or (None, None)
        self._expected = None
        if task != (round_no, shard):
            reseed(self._job.seed, round_no, shard)
            batch = None
        batch = self._moved(round_no, shard) if batch is None else batch
        self._data_ns = time.monotonic_ns() - begin_ns
        return batch

    def _moved(self, round_no: int, shard: int) -> Any:
        task = round_no, shard
        coming = self._coming.pop(task, None)
        for passed in [one for one in self._coming if one < task]:
            del self._coming[passed]
        try:
            if self._batches.workers is not None and self.rules.looking:
                batch = self._here(*task)
            else:
                batch = self._batches.of(*task) if coming is None else coming.result()
        except WorkersLost:
            batch = self._batches.here(*task)
        return self._memory.batch(batch)

    def _here(self, round_no: int, shard: int) -> Any:
        """Return the batch of a task whose user code must run here; once, workers build it too."""
        batch = self._batches.here(round_no, shard)
        if not self._compared:
            self._compared = True
            self._batches.compare(round_no, shard, batch)
        return batch

    def warm(self) -> None:
        """Compute a task and forget it, so that the first real one pays for no loading."""
        state = self._room()
        copy_all(
            [*self.layout.views(flat_of(state)).values()],
            [one.detach() for one in tensors(self._model).values()],
            disk=self._disk,
        )
        self._memory.rehearse(lambda: self._trial(state), state)
        self.build_ahead(1, 0)  # beside each later task a batch is brought, too
        self.run(state, 0, 0)
        self._coming.clear()
        self._reset(state, 0)
        self._memory.forget()  # that of the rehearsal is not needed again

    def _room(self) -> memoryview:
        """Return memory of zeros for a state or an update."""
        return raw(fresh(self.layout.total_bytes, self._disk))

    def _trial(self, state: Buffer) -> bytes:
        """Compute the first task without the rules; return the hashes of loss and gradients."""
        self._reset(state, 0)
        self._expected = None
        batch = self._batch(0, 0)
        with self._memory.computing():
            loss = checked_loss(self._app.loss(self._model, batch), self._job)
        loss.backward()  # type: ignore[no-untyped-call]
        place = memoryview(bytearray(self.layout.total_bytes))
        present = self._collect(self._memory.places(place))
        return self._memory.bring_out(place, loss, present)()[1]

    @torch.no_grad()
    def _reset(self, state: Held, round_no: int) -> Sequence[Tensor]:
        """Put a state into the model, whatever tensors the last task has put in their places.

        Returns
        -------
        sequence of Tensor
            The contents that the model's tensors must hold, in the order of the layout.
        """
        self._places.put_back_buffers()
        target: list[Tensor] = []
        for tensor, entry in zip(self._places.now(), self.layout.entries, strict=True):
            if tensor is None:
                raise refuse(self._job, entry.name, "was taken away during a task")
            tensor.grad = None
            target.append(tensor)
        before = self._memory.load(target, state, round_no)
        # To ask each module takes a tenth of the time of telling it.
        if not (self._plainly_trained and all(one.training for one in self._modules)):
            self._model.train()
        return before

    @torch.no_grad()
    def _collect(self, update: StateMemory) -> bytes:
        """Fill an update, and return its mask: one byte a parameter, 1 where it has a gradient."""
        sources: list[Tensor | None] = []
        present = bytearray()
        for at, (value, view) in enumerate(zip(self._places.now(), update.views, strict=True)):
            source = value
            # Parameters come first in a layout; of them the gradient is sent, of buffers the value.
            if at < self._params:
                source = None if value is None else value.grad
                present.append(source is not None)
            if source is not None and (source.shape, source.dtype) != (view.shape, view.dtype):
                self._refuse(self.layout.entries[at].name, source, view)
            sources.append(source)
        self._memory.gather(update, sources)
        return bytes(present)

    def _refuse(self, name: str, value: Tensor, view: Tensor) -> None:
        was, now = f"{view.dtype} {tuple(view.shape)}", f"{value.dtype} {tuple(value.shape)}"
        raise refuse(self._job, name, f"changed from {was} to {now} during a task")
