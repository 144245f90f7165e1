"""A consistent copy of a job at a barrier: safetensors with a JSON header, never pickle."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import torch
from safetensors.torch import load, save
from torch import Tensor, nn
from torch.optim.lr_scheduler import LRScheduler

from warren.live.training.layout import tensors
from warren.model.errors import WarrenError


def encode(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    schedule: LRScheduler | None,
    meta: dict[str, Any],
) -> bytes:
    """Model (with buffers that are not persistent), optimiser and schedule as one file."""
    found = {f"model/{name}": value.detach() for name, value in tensors(model).items()}
    tree = {
        "meta": meta,
        "optimizer": _plain(optimizer.state_dict(), "optimizer", found),
        "schedule": None if schedule is None else _plain(schedule.state_dict(), "schedule", found),
    }
    copies = {name: value.clone().contiguous() for name, value in found.items()}
    return save(copies, metadata={"warren": json.dumps(tree)})


def decode(
    data: bytes,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    schedule: LRScheduler | None,
) -> dict[str, Any]:
    """Put a checkpoint into objects built from the same app; gives ``meta`` back."""
    found, tree = load(data), _header(data)
    with torch.no_grad():
        for name, tensor in tensors(model).items():
            tensor.copy_(found[f"model/{name}"])
    optimizer.load_state_dict(_full(tree["optimizer"], found))
    if schedule is not None:
        schedule.load_state_dict(_full(tree["schedule"], found))
    meta: dict[str, Any] = tree["meta"]
    return meta


def _header(data: bytes) -> dict[str, Any]:
    size = int.from_bytes(data[:8], "little")
    tree: dict[str, Any] = json.loads(json.loads(data[8 : 8 + size])["__metadata__"]["warren"])
    return tree


def _plain(value: Any, path: str, found: dict[str, Tensor]) -> Any:
    """JSON for ``value``; its tensors go to ``found`` under their path."""
    if isinstance(value, Tensor):
        found[path] = value.detach()
        return {"tensor": path}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        items = [_plain(item, f"{path}/{index}", found) for index, item in enumerate(value)]
        return {"tuple" if isinstance(value, tuple) else "list": items}
    if isinstance(value, dict):
        pairs = [
            [_plain(k, path, found), _plain(v, f"{path}/{k}", found)] for k, v in value.items()
        ]
        return {"counter" if isinstance(value, Counter) else "dict": pairs}
    raise WarrenError(f"{path} holds a {type(value).__name__}, which a checkpoint cannot keep")


def _full(value: Any, found: dict[str, Tensor]) -> Any:
    """What ``_plain`` was given."""
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "tensor":
        return found[content]
    if kind in ("list", "tuple"):
        items = [_full(item, found) for item in content]
        return items if kind == "list" else tuple(items)
    pairs = {_full(key, found): _full(item, found) for key, item in content}
    return Counter(pairs) if kind == "counter" else pairs
