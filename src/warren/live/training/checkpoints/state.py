"""A consistent copy of a job at a barrier: safetensors with a JSON header, never pickle.

Each server writes a part: its own tensors and their optimiser state. All parts of a version
together make a job again, with any number of servers. When blocks migrate, each server writes for
each new owner what that one will own of its part, and all pieces for one make that one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from warren.live.training.app.app_contract import refuse
from warren.live.training.checkpoints.archive import Archive, unpack
from warren.live.training.replica import Replica
from warren.live.training.tensor_layout import tensors
from warren.live.transport.frames import Buffer
from warren.model.errors import WarrenError, text_of


@dataclass(frozen=True, slots=True)
class Heir:
    """A server that blocks migrate to: its part, and the part that will own each entry then."""

    part: int
    owners: Sequence[int]

    def owns(self, entry: int) -> bool:
        """Tell whether an entry, by index, will be its own."""
        return self.owners[entry] == self.part


def encode(
    replica: Replica,
    archive: Archive,
    version: int,
    *,
    finished: bool,
    heir: Heir | None = None,
) -> memoryview:
    """Return the bytes of the part that a replica owns, or of what an ``heir`` is to own of it.

    They hold the model (with buffers that are not persistent), optimiser state and schedule.
    """
    names = {e.name: i for i, e in enumerate(replica.layout.entries) if i in replica.owned}
    owned = {name for name, i in names.items() if heir is None or heir.owns(i)}
    found = {
        f"model/{name}": value.detach()
        for name, value in tensors(replica.model).items()
        if name in owned
    }
    optimizer = replica.optimizer.state_dict()
    optimizer["state"] = _kept(optimizer["state"], replica, replica.owners, replica.part)
    if heir is not None:
        optimizer["state"] = _kept(optimizer["state"], replica, heir.owners, heir.part)
    schedule = replica.schedule
    tree = {
        "version": version,
        "finished": finished,
        "part": replica.part,
        "parts": replica.parts,
        "optimizer": _plain(optimizer, "optimizer", found),
        "schedule": None if schedule is None else _plain(schedule.state_dict(), "schedule", found),
    }
    return archive.pack(found, tree)


def decode(
    parts: Sequence[Buffer], replica: Replica, *, owned_only: bool = False
) -> tuple[int, bool]:
    """Put all parts of a checkpoint into a replica of the same job; return version and finished.

    ``owned_only``: they hold what the replica owns and nothing else, as pieces for an heir do.

    Raises
    ------
    SpecError
        The parts do not belong together, or are of another model or optimiser.
    """
    try:
        files = [unpack(part) for part in parts]
        trees = [tree for _, tree in files]
        # All parts must be of one version, numbered 0, 1, ..., and as many as each says there are.
        versions = {tree["version"] for tree in trees}
        numbers = sorted((tree["part"], tree["parts"]) for tree in trees)
        if len(versions) != 1 or numbers != [(part, len(trees)) for part in range(len(trees))]:
            raise WarrenError("its parts do not belong together, or some are missing")
        found = {name: value for found, _ in files for name, value in found.items()}
        every = frozenset(range(len(replica.owners)))
        _put_model(found, replica, replica.owned if owned_only else every)
        _put_optimizer(files, replica)
    except (WarrenError, ValueError, RuntimeError, KeyError) as error:
        text = f"the checkpoint does not fit: {text_of(error)}"
        raise refuse(replica.job, "", text) from None
    (version,) = versions
    # Only the first part evaluates, so only it may know that a stop rule has ended the job.
    return version, any(tree["finished"] for tree in trees)


@torch.no_grad()
def _put_model(found: Mapping[str, Tensor], replica: Replica, wanted: Set[int]) -> None:
    """Put tensors into the model: those of the entries ``wanted``, no more and no fewer."""
    wanted_names = {e.name for i, e in enumerate(replica.layout.entries) if i in wanted}
    names = {f"model/{name}" for name in wanted_names}
    if unknown := names ^ {name for name in found if name.startswith("model/")}:
        raise WarrenError(f"it is of another model: {min(unknown)} is in one of them only")
    for name, tensor in tensors(replica.model).items():
        if name not in wanted_names:
            continue
        value = found[f"model/{name}"]
        if (value.shape, value.dtype) != (tensor.shape, tensor.dtype):
            raise WarrenError(f"it is of another model: model/{name} has another shape or type")
        tensor.copy_(value)
    # Tensors without bytes are never out of date.
    empty = {i for i, entry in enumerate(replica.layout.entries) if not entry.nbytes}
    replica.current = frozenset(wanted | empty)


def _put_optimizer(files: Sequence[tuple[dict[str, Tensor], Any]], replica: Replica) -> None:
    """Load the optimiser's state, joined from all parts, and the schedule's, equal in all."""
    (found, tree), *_ = files
    whole = _full(tree["optimizer"], found)
    for others, other in files[1:]:
        whole["state"] |= _full(other["optimizer"], others)["state"]
    # The checkpoint may have had another number of parts: keep what this part owns now.
    whole["state"] = _kept(whole["state"], replica, replica.owners, replica.part)
    replica.optimizer.load_state_dict(whole)
    if replica.schedule is not None:
        replica.schedule.load_state_dict(_full(tree["schedule"], found))


def _kept(
    state: Mapping[Any, Any], replica: Replica, owners: Sequence[int], part: int
) -> dict[Any, Any]:
    """Return a part's share of an optimiser's state; part 0 also has what no tensor owns."""
    # A state_dict numbers parameters in the order of the optimiser's groups, not of the model.
    at = {id(tensor): i for i, tensor in enumerate(tensors(replica.model).values())}
    groups = replica.optimizer.param_groups
    order = [at.get(id(parameter)) for group in groups for parameter in group["params"]]
    owner = {key: 0 if at is None else owners[at] for key, at in enumerate(order)}
    return {key: value for key, value in state.items() if owner.get(key, 0) == part}


def _plain(value: Any, path: str, found: dict[str, Tensor]) -> Any:
    """Return ``value`` as JSON types; its tensors go to ``found`` under their path."""
    if isinstance(value, Tensor):
        found[path] = value.detach()
        return {"tensor": path}
    # Every container is wrapped in a mapping of one key, its kind, so that ``_full`` can invert it.
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


def _full(value: Any, found: Mapping[str, Tensor]) -> Any:
    """Return the value that ``_plain`` was given, with its tensors from ``found``."""
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
