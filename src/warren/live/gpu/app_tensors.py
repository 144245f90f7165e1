"""Bring an app's tensors to its device: those that it keeps, and batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.dlpack import from_dlpack

from warren.live.gpu.mixed_devices import with_tensors
from warren.live.training.app.app_calls import BuiltApp
from warren.live.training.checkpoints.barrier_objects import find
from warren.live.training.isolation.reachable_values import reachable
from warren.live.training.tensor_layout import tensors


def move(built: BuiltApp, device: torch.device) -> None:
    """Move all that a barrier steps to a device: the model, and what the app and its steppers keep.

    Each tensor stays the same object, with its strides, so an optimizer steps it there.
    """
    for one in tensors(built.model).values():
        one.data = one.data.to(device)
    bring(built, device)
    bring_steppers(built, device)


def bring_steppers(built: BuiltApp, device: torch.device) -> None:
    """Move the tensors that the optimizer, the schedule and their hooks have made so far.

    What PyTorch keeps in main memory beside a model on a GPU stays there: counters of steps, and
    numbers of ``param_groups``. So do data.
    """
    data = {_address(one) for one in _tensors_of_data(built)}
    for name, known in find(built).named.items():
        stays = name.endswith("['step']") or ".param_groups[" in name or ".defaults[" in name
        if _movable(known.value) and not stays and _address(known.value) not in data:
            known.value.data = moved(known.value.data, device)


def bring(built: BuiltApp, device: torch.device) -> None:
    """Move the tensors that an app keeps outside its model and its data to a device.

    Each stays the same object. Data stay in place, since only batches are needed; so do the tensors
    that the app names as ``scratch``. Tensors that shared memory do not share it any more.
    """
    found = reachable(built).found
    kept = {name: one.value for name, one in found.items() if _movable(one.value)}
    data = {_address(one) for name, one in kept.items() if _of_data(name)}
    for name, tensor in kept.items():
        if not _of_data(name) and _address(tensor) not in data:
            tensor.data = moved(tensor.data, device)


def _tensors_of_data(built: BuiltApp) -> list[Tensor]:
    found = reachable(built).found
    return [one.value for name, one in found.items() if _of_data(name) and _movable(one.value)]


def apart(view: Tensor) -> Tensor:
    """Return a tensor in the memory of a view, which it keeps, with a storage of its own.

    ``torch.compile`` refuses a model that writes one of several tensors in one storage, as batch
    norm does.
    """
    return from_dlpack(view.__dlpack__())


def moved(batch: Any, device: torch.device) -> Any:
    """Return a batch with all its tensors on a device; other things in it stay as they are."""
    return with_tensors(batch, lambda tensor: tensor.to(device, non_blocking=True))


def pinned_batch(batch: Any) -> Any:
    """Return a batch with all its tensors in memory that a GPU reads by itself."""
    return with_tensors(batch, lambda one: one.pin_memory() if one.is_cpu else one)


@dataclass(frozen=True, slots=True)
class CopiedBatch:
    """A batch that is copied to a device on a stream of its own; ``copied`` tells the end of it."""

    batch: Any
    copied: torch.cuda.Event

    def arrived(self, device: torch.device) -> Any:
        """Return the batch; computations from now on wait for its copy."""
        stream = torch.cuda.current_stream(device)
        stream.wait_event(self.copied)

        def used(tensor: Tensor) -> Tensor:
            """Keep the memory of a tensor until the computations that use it are over."""
            if tensor.is_cuda:
                tensor.record_stream(stream)
            return tensor

        return with_tensors(self.batch, used)


def copied_ahead(batch: Any, device: torch.device, stream: torch.cuda.Stream) -> CopiedBatch:
    """Begin to copy a batch from pinned memory to a GPU, beside what is computed there."""
    with torch.cuda.stream(stream):
        return CopiedBatch(moved(pinned_batch(batch), device), stream.record_event())


def _of_data(name: str) -> bool:
    return name == "dataset" or name.startswith(("dataset.", "dataset["))


def _movable(value: Any) -> bool:
    tensor = type(value) in (Tensor, nn.Parameter)
    return tensor and value.is_cpu and value.layout is torch.strided


def _address(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
