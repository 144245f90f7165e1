"""Let an app's ``evaluate``, written for main memory, meet a model on a GPU.

Its own tensors lie in main memory, as ever, and PyTorch refuses a function that is given some of
each. Such a call is made once more with all of them on one device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

_READS: Final = (Tensor.numpy, Tensor.__array__)
"""Functions that read the memory of a tensor, which only main memory allows."""


def meeting(device: torch.device) -> AbstractContextManager[object]:
    """Return the context in which tensors of a device and of main memory may meet.

    A function that PyTorch refuses, and that was given both, gets copies on the device. If it
    writes a tensor or indexes it, it gets copies on the device of that. ``numpy()`` of a tensor on
    the device is that of a copy in main memory.
    """
    return nullcontext() if device.type == "cpu" else _Meeting(device)


class _Meeting(TorchFunctionMode):
    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self._device = device

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        named = kwargs or {}
        try:
            return func(*args, **named)
        except (RuntimeError, TypeError):
            if func in _READS:
                first, *rest = args
                return func(first.cpu(), *rest, **named)
            if len({one.device.type for one in _tensors_in((args, named))}) < 2:
                raise
        target = self._target(func, args, named)
        return func(*_on(args, target), **_on(named, target))

    def _target(
        self, func: Callable[..., Any], args: Sequence[Any], named: Mapping[str, Any]
    ) -> torch.device:
        """Return the device on which a function must find all of its tensors."""
        written = next(_tensors_in(named.get("out")), None)
        if written is None and args and isinstance(args[0], Tensor) and _holds(func.__name__):
            written = args[0]
        return self._device if written is None else written.device


def _holds(name: str) -> bool:
    """Tell whether a method writes or indexes its object, which therefore stays where it is."""
    if name.startswith("__"):
        return name in ("__getitem__", "__setitem__") or name[2] == "i"
    return name.endswith("_")


def _tensors_in(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _tensors_in(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _tensors_in(one)


def _on(value: Any, device: torch.device) -> Any:
    """Return arguments with all tensors on a device."""
    return with_tensors(
        value, lambda one: one if one.device.type == device.type else one.to(device)
    )


def with_tensors(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """Return a value with all tensors in it changed; other things in it stay as they are."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, Mapping):
        return {name: with_tensors(one, change) for name, one in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):  # a named tuple
        return type(value)(*(with_tensors(one, change) for one in value))
    if isinstance(value, list | tuple):
        return type(value)(with_tensors(one, change) for one in value)
    return value
