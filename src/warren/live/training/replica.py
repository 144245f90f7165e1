"""One server's copy of a job: whole model and optimizer, of which it steps its own part."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Final, TypeAlias, cast

import torch
from torch import Tensor, nn

from warren.apps.protocol import TorchApp
from warren.live.gpu.app_tensors import move
from warren.live.training.app.app_calls import build
from warren.live.training.app.app_contract import (
    check_blocks,
    check_split,
    refuse,
    stepped_apart,
    tensorwise,
)
from warren.live.training.block_ownership import Ranges, owners_of, ranges_of, views_in
from warren.live.training.checkpoints.barrier_state import BarrierState
from warren.live.training.evaluation import Evaluation
from warren.live.training.gradient_clipping import factor_of, squares_of
from warren.live.training.gradient_sum import GradientMeans
from warren.live.training.helpers import ALONE, Helpers
from warren.live.training.input_data.input_memory import InputMemory
from warren.live.training.isolation.kept_values import KeptValue
from warren.live.training.isolation.task_rules import TaskRules
from warren.live.training.memory.device_bytes import DeviceBytes, DevicePlaces, fill
from warren.live.training.memory.disk_memory import DiskMemory
from warren.live.training.memory.shared_memory import SHARED_FROM_BYTES, StatePool
from warren.live.training.seeding import BARRIER, reseed
from warren.live.training.shared_step import block_step, shared_step
from warren.live.training.task_hashes import TaskResult
from warren.live.training.task_runner import TaskRunner
from warren.live.training.tensor_layout import (
    Layout,
    TensorEntry,
    TensorPlaces,
    flat_of,
    tensors,
)
from warren.live.training.weight_average import update_average
from warren.live.transport.frames import Buffer
from warren.live.transport.message import SharedSlot
from warren.model.job import Job

StepInput: TypeAlias = tuple[int, list[Tensor | None], list[Tensor]]
"""The inputs of one step: its round, gradients and buffers in the order of the layout."""
_LARGE_BYTES: Final = 1 << 16
"""Mean size in bytes from which tensors are worth a view each, to spare a copy."""


class Replica:
    """The model, optimizer and schedule of a job. Tensors of other parts are as old as ``take``.

    ``owners``: the part that owns each entry; ``owned``: indices of the entries that part ``part``
    of ``parts`` combines and steps.
    ``helpers`` share sums, copies and steps.
    ``disk``: where its large tensors lie; None: in main memory.
    ``inputs`` lets go of the data that the app keeps, unless it evaluates.
    ``runner`` is given in a rank of a ring; other ranks have the same whole store and step it too.
    It computes tasks with the same model, unless that lies on a device.
    ``device``: where all of it lies, with the state of the optimizer; None: in main memory.
    """

    def __init__(
        self,
        app: TorchApp,
        job: Job,
        part: int,
        parts: int,
        model_bytes: Sequence[int] = (),
        shared: str | None = None,
        runner: TaskRunner | None = None,
        inputs: InputMemory | None = None,
        helpers: Helpers = ALONE,
        disk: DiskMemory | None = None,
        device: torch.device | None = None,
    ) -> None:
        self.disk = disk
        self.device = device
        self.app = app
        self.job = job
        self.part = part
        self.parts = parts
        self._alone = parts == 1 and runner is None
        built = build(app, job, disk) if runner is None or runner.on_device else runner.built
        if device is not None:
            move(built, device)
        # An evaluation may need all data at once, so that they stay in memory then.
        if inputs is not None and job.evaluate is None and job.stop is None:
            inputs.release(built.dataset)
        self.model = built.model
        self.ema, self.averages = built.ema, built.averages
        self.optimizer = built.optimizer
        self.schedule = built.schedule
        check_split(app, job, self.optimizer, parts)
        if disk is not None:
            check_blocks(app, job, self.optimizer)
        rules = None if runner is None else runner.rules
        self._evaluation = Evaluation(built, job, rules)
        self.barrier = BarrierState(built, lambda: self._left(rules))
        self.layout = Layout.of(self.model)
        self.owners = owners_of(self.layout, parts, model_bytes)
        self.ranges: Ranges = ranges_of(self.layout, self.owners, part)
        self.owned = frozenset(i for i, owner in enumerate(self.owners) if owner == part)
        # Indices of the entries that are of this version: right after building, all are.
        self.current = frozenset(range(len(self.owners)))
        large = self.layout.total_bytes >= SHARED_FROM_BYTES
        if device is None:
            shared = shared if large else None
            self._pool = StatePool(self.layout, self.ranges, shared, helpers, disk)
        else:
            self._there = DevicePlaces(self.layout, device)
        self._means = GradientMeans(self.layout, self.ranges, helpers, disk, device)
        self._integers = {i for i in self.owned if self.layout.entries[i].kind == "int_buffer"}
        owned_bytes = sum(end - begin for begin, end in self.ranges)
        self._large = owned_bytes >= _LARGE_BYTES * len(self.owned)
        self._places = TensorPlaces(self.model)
        self._tensorwise = tensorwise(self.optimizer)
        self._helpers = helpers
        self._seeded: int | None = None
        # Inputs of the steps since some round, while these may have to be repeated.
        self.recorded: list[StepInput] | None = None

    @property
    def whole(self) -> bool:
        """Tell whether the tensors of other parts are of this version too."""
        return len(self.current) == len(self.owners)

    def pack(self) -> tuple[memoryview, ...] | DeviceBytes:
        """Return the bytes of the owned tensors as they are now, one piece a range.

        On a device it is the whole state, with tensors of other parts as old as ``take``.
        """
        if self.device is None:
            return self._pool.pack(self._tensors())
        return self._there.pack(self._tensors())

    @torch.no_grad()
    def pack_averages(self) -> tuple[memoryview, ...]:
        """Return the bytes of the owned tensors with the averages as weights, one piece a range.

        Without an average of the app's there are none.
        """
        if self.ema is None:
            return ()
        pieces = tuple(memoryview(bytearray(end - begin)) for begin, end in self.ranges)
        source = self._tensors()
        for index, _, view in views_in(self.layout, self.ranges, pieces):
            view.copy_(self.averages.get(source[index], source[index]))
        return pieces

    def on_device(self) -> tuple[list[Tensor], list[Tensor]]:
        """Return the tensors of the job on its device, and those whose contents are not needed."""
        self._there.forget()
        found: list[Tensor] = [*self._tensors(), *self.averages.values(), *self._there.lent()]
        found += [one.grad for one in found if one.grad is not None]
        for kept in self.optimizer.state.values():
            found += tensors_within(kept)
        return found, self._means.memory()

    def touch(self) -> None:
        """Write to the memory of means, and to that of one more state than is held."""
        self.pack()
        if self.job.scale > 1:
            self._means.touch()

    def spot(self, packed: Sequence[memoryview]) -> SharedSlot | None:
        """Return the place where other processes find a packed state; None: it has to be sent."""
        return None if self.device is not None else self._pool.spot(packed)

    def combine(self, results: Sequence[TaskResult]) -> tuple[float, ...]:
        """Combine the owned tensors of results in shard order.

        Return the square of the norm of each owned gradient, in order, if the app clips; else none.
        """
        self._combine(results)
        if self.app.clip_norm is None:
            return ()
        return squares_of(tensor.grad for tensor in self._owned_parameters())

    def step(self, round_no: int, squares: Sequence[float]) -> None:
        """Clip by the squares of all gradients if the app does, step, and schedule."""
        limit = self.app.clip_norm
        factor = None if limit is None else factor_of(squares, limit)
        if factor is not None and self.disk is None:
            for tensor in self._owned_parameters():
                # Not in place: the gradient may be a view of a trainer's bytes.
                tensor.grad = None if tensor.grad is None else tensor.grad * factor
        if self.recorded is not None:
            self.recorded.append(self._input(round_no))
        # Tensors of other parts are of the version before from here on, until ``take``.
        self.current = self.owned
        self._advance(round_no, factor)

    @torch.no_grad()
    def step_again(self, made: StepInput) -> None:
        """Make a step that another replica has made."""
        round_no, gradients, buffers = made
        params = len(gradients)
        for at, tensor in enumerate(self._tensors()):
            if at < params:
                tensor.grad = gradients[at]
            else:
                tensor.copy_(buffers[at - params])
        with torch.enable_grad():
            self._advance(round_no)

    def _input(self, round_no: int) -> StepInput:
        """Return copies of the inputs of the present step, beside the state."""
        params = len(self.layout.params)
        found = self._tensors()
        gradients = [None if one.grad is None else one.grad.clone() for one in found[:params]]
        return round_no, gradients, [one.detach().clone() for one in found[params:]]

    def _advance(self, round_no: int, factor: float | None = None) -> None:
        """Step the optimizer and the schedule by the gradients that are there.

        ``factor``: by which gradients of a model on disk are multiplied, a block at a time.
        """
        self.seed(round_no)
        self._seeded = None
        if self.disk is not None:
            block_step(self.optimizer, self.disk, factor)
        elif self._tensorwise and self._helpers.share(self.layout.total_bytes):
            shared_step(self.optimizer, self._helpers)
        else:
            with stepped_apart(self.job, self.optimizer, self.parts):
                self.optimizer.step()
        update_average(self.averages, self._owned_parameters(), self.ema)
        for tensor in self._tensors():
            tensor.grad = None
        if self.schedule is not None:
            self.schedule.step()
        self.barrier.check_tasks(self.job, round_no + 1)

    def seed(self, round_no: int) -> None:
        """Set the generators for a round's barrier, early if nothing draws from them until then.

        ``step`` does it where that was not done before.
        """
        if self._seeded != round_no:
            reseed(self.job.seed, round_no, BARRIER)
            self._seeded = round_no

    @torch.no_grad()
    def take(self, ranges: Ranges, buffers: Sequence[Buffer]) -> None:
        """Put the contents of these ranges, as ``pack_averages`` and ``pack`` give them, in place.

        One buffer a range is the state; where the app keeps an average, as many more are that.
        """
        target, taken = self._tensors(), set()
        for index, _, view in views_in(self.layout, ranges, buffers[: len(ranges)]):
            target[index].copy_(view)
            taken.add(index)
            if self.disk is not None:
                self.disk.breathe()
        if buffers[len(ranges) :]:
            for index, _, view in views_in(self.layout, ranges, buffers[len(ranges) :]):
                if target[index].requires_grad:
                    self.averages[target[index]] = view.to(target[index].device, copy=True)
        # Tensors without bytes lie in no range, and are never out of date.
        empty = {i for i, entry in enumerate(self.layout.entries) if not entry.nbytes}
        self.current |= taken | empty

    def evaluate(self) -> dict[str, float]:
        """Return the app's metrics of the model."""
        # Of several servers or ranks only one evaluates: the others would miss its changes.
        before = {} if self._alone else _prints(self.model)
        metrics = self._evaluation.of(self.model)
        for name, value in () if self._alone else _prints(self.model).items():
            if before.get(name) != value:
                message = f"changes {name!r}, which it may only with one server and sync: ps"
                raise refuse(self.job, "evaluate()", message)
        return metrics

    def rehearse(self) -> None:
        """Evaluate the model and forget it: its changes are undone."""
        copied = Tensor.clone if self.disk is None else self.disk.like
        before = [copied(tensor.detach()) for tensor in self._tensors()]
        self._evaluation.rehearse(self.model)
        self._places.put_back_buffers()
        with torch.no_grad():
            for tensor, value in zip(self._tensors(), before, strict=True):
                tensor.copy_(value)
        self._seeded = None

    def _left(self, rules: TaskRules | None) -> Iterable[KeptValue]:
        """Return the values that evaluations, and tasks of the same app, have left here."""
        tasks = () if rules is None else rules.kept.left.values()
        return chain(self._evaluation.left, tasks)

    @torch.no_grad()
    def _combine(self, results: Sequence[TaskResult]) -> None:
        """Put means into gradients and float buffers, and integer buffers of task 0 in place."""
        target = self._tensors()
        buffers: list[tuple[Tensor, Tensor]] = []
        for index, entry, mean in self._mean(results):
            tensor = target[index]
            if entry.kind == "param":
                # A gradient that no task had stays None: optimizers skip that parameter.
                present = any(result.present[index] for result in results)
                tensor.grad = self._gradient(tensor, mean) if present else None
            elif entry.kind == "float_buffer":
                buffers.append((tensor, mean))
        if self._integers:
            firsts = self._views(results[0])
            buffers += [(target[at], first) for at, _, first in firsts if at in self._integers]
        fill([tensor for tensor, _ in buffers], [value for _, value in buffers])

    def _gradient(self, tensor: Tensor, mean: Tensor) -> Tensor:
        """Return the mean with the strides of its parameter, since some kernels round by them."""
        if tensor.is_contiguous():
            return mean
        empty = torch.empty_like(tensor) if self.disk is None else self.disk.like(tensor)
        return empty.copy_(mean)

    def _tensors(self) -> list[Tensor]:
        """Return all tensors, in the order of the layout."""
        found = self._places.now()
        for tensor, entry in zip(found, self.layout.entries, strict=True):
            if tensor is None:
                raise refuse(self.job, entry.name, "was taken away by the app")
        return cast("list[Tensor]", found)

    def _owned_parameters(self) -> list[Tensor]:
        found, params = self._tensors(), len(self.layout.params)
        return [found[index] for index in sorted(self.owned) if index < params]

    def _mean(self, results: Sequence[TaskResult]) -> Iterable[tuple[int, TensorEntry, Tensor]]:
        """Return index, entry and mean of each owned tensor; integer buffers have none."""
        # A clipping step waits for the squares of other servers, without views of updates.
        waits = self.parts > 1 and self.app.clip_norm is not None
        # The mean of one result is that result: views of its received bytes.
        if len(results) == 1 and self._large and self._tensorwise and not waits:
            return self._views(results[0])
        # The optimizer may still hold the means of the last round.
        if not self._tensorwise:
            self._means.renew()
        self._means.compute([self._pieces(result) for result in results])
        return self._means.views()

    def _pieces(self, result: TaskResult) -> Sequence[Buffer | Tensor]:
        """Return a result's update where this model lies, one piece a range."""
        if self.device is None:
            return cast("Sequence[Buffer]", result.update)
        first = result.update[0] if result.update else None
        if isinstance(first, DeviceBytes):
            return [first.flat[begin:end] for begin, end in self.ranges]
        found = cast("Sequence[Buffer]", result.update)
        return [flat_of(buffer).to(self.device) for buffer in found]

    def _views(self, result: TaskResult) -> Iterable[tuple[int, TensorEntry, Tensor]]:
        """Return index, entry and view of each owned tensor of an update."""
        first = result.update[0] if result.update else None
        if isinstance(first, DeviceBytes):
            # Views that were made once: to make them again each round takes a processor's time.
            every = zip(self.layout.entries, first.memory.views, strict=True)
            return [(at, one, view) for at, (one, view) in enumerate(every) if at in self.owned]
        return views_in(self.layout, self.ranges, self._pieces(result))


def _prints(model: nn.Module) -> dict[str, int]:
    """Return a checksum (CRC-32) of every tensor, by name."""
    return {
        name: zlib.crc32(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
        for name, tensor in tensors(model).items()
    }


def tensors_within(value: Any) -> list[Tensor]:
    """Return the tensors in a value of an optimizer's state, however deep they lie."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [one for part in value for one in tensors_within(part)]
    return []
