"""Build a job's model, and refuse one with a tensor that cannot be kept, added or saved.

Every tensor gets a place of its own in a state, in servers and on a device. Of two tensors in the
same memory one changes with the other, or not, by where they lie; so they are refused everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, TypeAlias

import torch
from torch import Tensor, nn

from warren.apps.protocol import TorchApp
from warren.live.training.app.app_contract import refuse
from warren.live.training.seeding import seed_model
from warren.live.training.tensor_layout import tensors
from warren.model.job import Job

_FLOATS: Final = (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64)
_INTEGERS: Final = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
DTYPES: Final = (*_FLOATS, *_INTEGERS)
"""Types of tensors that every engine can add or copy, and that a checkpoint can keep."""

_Placed: TypeAlias = tuple[int, int, str, Tensor]
"""The addresses where a tensor begins and ends, its name, and the tensor."""


def build_model(app: TorchApp, job: Job) -> nn.Module:
    """Call ``app.model()`` right after seeding, and refuse a model that no layout can hold."""
    seed_model(job.seed)
    model = app.model()
    if not isinstance(model, nn.Module):
        raise refuse(job, "model()", f"must give a torch.nn.Module, not {type(model).__name__}")
    check_tensors(model, job)
    _refuse_extra_state(model, job)
    return model


def check_tensors(model: nn.Module, job: Job) -> None:
    """Refuse a model with a tensor that cannot be kept; the message names the tensor.

    Raises
    ------
    SpecError
        A tensor has no shape, no memory of its own, or a type that cannot be averaged and saved.
    """
    # The state travels as one flat buffer, so every tensor needs a shape and dense memory.
    for name, tensor in tensors(model).items():
        if nn.parameter.is_lazy(tensor):
            raise refuse(job, "model()", f"{name!r} has no shape yet; lazy modules are refused")
        if tensor.layout is not torch.strided or tensor.is_nested:
            raise refuse(job, "model()", f"{name!r} is not a dense tensor")
        if tensor.dtype not in DTYPES:
            allowed = ", ".join(map(_name, DTYPES))
            message = f"{name!r} is of {_name(tensor.dtype)}, which cannot be averaged and saved"
            raise refuse(job, "model()", f"{message}; allowed: {allowed}")
        if tensor.numel() and not _address(tensor):
            message = f"{name!r} has no memory (device {tensor.device}); make it with its values"
            raise refuse(job, "model()", message)
    # Autograd has gradients for floating-point and complex tensors alone.
    for name, parameter in model.named_parameters():
        if parameter.dtype not in _FLOATS:
            message = f"parameter {name!r} is {_name(parameter.dtype)}, which has no gradient"
            raise refuse(job, "model()", f"{message}; register a buffer")
    check_memory(model, job)
    for name, buffer in model.named_buffers():
        if isinstance(buffer, nn.Parameter):
            message = f"buffer {name!r} is an nn.Parameter; register a tensor, or a parameter"
            raise refuse(job, "model()", message)


def check_memory(model: nn.Module, job: Job, method: str = "model()") -> None:
    """Refuse tensors that share memory with one another, or with themselves.

    They may lie side by side in one storage, and between each other's elements.

    Raises
    ------
    SpecError
        An element of one is an element of the other; the message names both.
    """
    placed: list[_Placed] = []
    for name, tensor in tensors(model).items():
        if tensor.numel():
            placed.append((begin := _address(tensor), begin + _span(tensor), name, tensor))
            if _meets_itself(placed[-1]):
                message = f"{name!r} has several elements in one place, as expand() makes them"
                raise refuse(job, method, f"{message}; use .contiguous()")
    for cluster in _clusters(placed):
        if pair := _overlapping(cluster):
            raise refuse(job, method, _sharing(model, *pair))


def _refuse_extra_state(model: nn.Module, job: Job) -> None:
    """Refuse entries of the state_dict that are neither parameters nor buffers.

    A state_dict may rename parameters and buffers; any other entry would not be trained.
    """
    state = [
        *model.named_parameters(remove_duplicate=False),
        *model.named_buffers(remove_duplicate=False),
    ]
    names = {name for name, _ in state}
    # A renamed entry is recognized by its storage, since it shares that with the tensor it names.
    memory = {tensor.untyped_storage().data_ptr() for _, tensor in state}
    for name, value in model.state_dict().items():
        if name in names:
            continue
        if not isinstance(value, Tensor) or value.untyped_storage().data_ptr() not in memory:
            message = f"extra state {name!r} is neither parameter nor buffer; register a buffer"
            raise refuse(job, "model()", message)


def _sharing(model: nn.Module, one: str, other: str) -> str:
    """Say that two tensors share memory, and how to avoid that."""
    shared = f"{one!r} and {other!r} are two tensors in the same memory"
    params = dict(model.named_parameters())
    if one not in params or other not in params:
        return f"{shared}; register a copy: {other} = {one}.detach().clone()"
    if params[one].shape != params[other].shape:
        return f"{shared}; keep one parameter, and compute the other from it in forward()"
    return f"{shared}; tie them by assigning the parameter itself: {other} = {one}"


def _clusters(placed: Sequence[_Placed]) -> Iterator[list[_Placed]]:
    """Yield the tensors whose spans of addresses meet, those of one cluster at a time."""
    # Addresses of two devices have nothing to do with each other.
    order = sorted(placed, key=lambda one: (str(one[3].device), one[0]))
    cluster: list[_Placed] = []
    end = 0
    for one in order:
        meets = cluster and one[3].device == cluster[0][3].device and one[0] < end
        if not meets:
            yield cluster
            cluster, end = [], 0
        cluster.append(one)
        end = max(end, one[1])
    yield cluster


def _overlapping(cluster: Sequence[_Placed]) -> tuple[str, str] | None:
    """Return two tensors that have an element in common, by name; None if no two do."""
    if len(cluster) < 2:
        return None
    for one, other in pairwise(cluster):
        # Their spans meet, and all bytes of these are theirs.
        if other[0] < one[1] and _is_dense(one) and _is_dense(other):
            return one[2], other[2]
    first, last = cluster[0][0], max(end for _, end, *_ in cluster)
    taken = torch.zeros(last - first, dtype=torch.bool)
    for at, one in enumerate(cluster):
        place = _bytes_of(one, taken, first)
        if place.any():
            earlier = cluster[:at]
            # Of several it is looked up which one, in pairs.
            other = next(two for two in earlier if at == 1 or _overlapping([two, one]))
            return other[2], one[2]
        place.fill_(True)
    return None


def _meets_itself(one: _Placed) -> bool:
    """Tell whether two elements of a tensor lie in one place."""
    _, _, _, tensor = one
    dims = sorted((s, n) for s, n in zip(tensor.stride(), tensor.shape, strict=True) if n > 1)
    reach = 0
    for stride, size in dims:
        # Else each stride goes beyond all that the smaller ones reach.
        if stride <= reach:
            break
        reach += (size - 1) * stride
    else:
        return False
    if dims[0][0] == 0:
        return True
    taken = torch.zeros(one[1] - one[0], dtype=torch.bool)
    _bytes_of(one, taken, one[0]).fill_(True)
    return int(taken.sum()) < tensor.nbytes


def _bytes_of(one: _Placed, taken: Tensor, first: int) -> Tensor:
    """Return a tensor's bytes in ``taken``, which has one element a byte from ``first`` on."""
    begin, _, _, tensor = one
    size = tensor.element_size()
    strides = [size * stride for stride in tensor.stride()]
    return taken.as_strided((*tensor.shape, size), (*strides, 1), begin - first)


def _is_dense(one: _Placed) -> bool:
    return one[1] - one[0] == one[3].nbytes


def _span(tensor: Tensor) -> int:
    """Return the number of bytes from a tensor's first element to the end of its last."""
    last = sum((n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return (last + 1) * tensor.element_size()


def _address(tensor: Tensor) -> int:
    """Return the address at which a tensor begins; 0 if it has no memory."""
    try:
        return tensor.data_ptr()
    except RuntimeError:
        return 0


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
