"""Bring an app's tensors to its device: those that it keeps, and batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from warren.live.training.app.app_calls import BuiltApp
from warren.live.training.isolation.reachable_values import reachable
from warren.live.training.tensor_layout import tensors


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


def move(built: BuiltApp, device: torch.device) -> None:
    """Move the model of an app, and all that ``bring`` moves, to a device.

    Each tensor stays the same object, with its strides, so an optimizer steps it there.
    """
    for one in tensors(built.model).values():
        one.data = one.data.to(device)
    bring(built, device)


def moved(batch: Any, device: torch.device) -> Any:
    """Return a batch with all its tensors on a device; other things in it stay as they are."""
    return _with_tensors(batch, lambda tensor: tensor.to(device, non_blocking=True))


def pinned_batch(batch: Any) -> Any:
    """Return a batch with all its tensors in memory that a GPU reads by itself."""
    return _with_tensors(batch, lambda tensor: tensor.pin_memory())


def _with_tensors(batch: Any, change: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(batch, Tensor):
        return change(batch)
    if isinstance(batch, Mapping):
        return {name: _with_tensors(one, change) for name, one in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):  # a named tuple
        return type(batch)(*(_with_tensors(one, change) for one in batch))
    if isinstance(batch, list | tuple):
        return type(batch)(_with_tensors(one, change) for one in batch)
    return batch


def _of_data(name: str) -> bool:
    return name == "dataset" or name.startswith(("dataset.", "dataset["))


def _movable(value: Any) -> bool:
    tensor = type(value) in (Tensor, nn.Parameter)
    return tensor and value.is_cpu and value.layout is torch.strided


def _address(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
