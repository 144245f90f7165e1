"""A consistent copy of a job at a barrier: safetensors with a JSON header, never pickle.

Each server writes a part: its own tensors and their optimizer state. All parts of a version
together make a job again, with any number of servers. When blocks migrate, each server writes a
piece of its part for each new owner; all pieces for one owner make its part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor
from torch.optim import Optimizer

from warren.live.training.app.app_contract import refuse
from warren.live.training.checkpoints.archive import Archive, unpack, unpack_in_place
from warren.live.training.checkpoints.barrier_state import ADVICE, difference
from warren.live.training.checkpoints.saved_values import THERE, CannotKeep
from warren.live.training.isolation.kept_values import content
from warren.live.training.replica import Replica
from warren.live.training.tensor_layout import device_of, tensors
from warren.live.transport.frames import Buffer
from warren.model.errors import WarrenError, text_of

_FORMAT: Final = 2
"""Number of the format of a part. Number 1 had no format: optimizer state by position."""


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
    """Return the bytes of the part that a replica owns, or of the piece for an ``heir``.

    They hold the model (with buffers that are not persistent), and the values that barriers have
    changed (``BarrierState``): the state of the optimizer by the names of parameters, and the
    schedule.

    Raises
    ------
    SpecError
        A value that barriers change cannot be saved.
    """
    return begin_encode(replica, archive, version, finished=finished, heir=heir)()


def begin_encode(
    replica: Replica,
    archive: Archive,
    version: int,
    *,
    finished: bool,
    heir: Heir | None = None,
) -> Callable[[], memoryview]:
    """Begin to ``encode``; return the function that gives the bytes, to be called once.

    The replica may step meanwhile, and another thread may call the function.

    Raises
    ------
    SpecError
        A value that barriers change cannot be saved.
    """
    tree, found = _written(replica, version, finished=finished, heir=heir)
    return archive.begin(found, tree)


def check(replica: Replica) -> None:
    """Refuse a job whose checkpoint could not be made now.

    Raises
    ------
    SpecError
        A value that its barriers change cannot be saved.
    """
    _written(replica, 0, finished=False, heir=None)


def check_same(replica: Replica, restored: Replica) -> None:
    """Refuse a replica that was restored from another and has not all of its values.

    Raises
    ------
    SpecError
        A value differs; the message names it.
    """
    (one, found), (other, again) = (
        _written(replica, 0, finished=False, heir=None),
        _written(restored, 0, finished=False, heir=None),
    )
    name = difference((one["kept"], found), (other["kept"], again))
    for entry in replica.layout.entries:
        key = f"model/{entry.name}"
        if not name and content(found[key]) != content(again[key]):
            name = entry.name
    if name:
        message = f"a copy restored from a checkpoint goes on with another {name!r}"
        why = "optimizer, schedule or a hook keeps what no checkpoint sees"
        raise refuse(replica.job, "", f"{message}: {why}; {ADVICE}")


def _written(
    replica: Replica, version: int, *, finished: bool, heir: Heir | None
) -> tuple[Any, dict[str, Tensor]]:
    """Return the contents that ``encode`` packs."""
    names = {e.name: i for i, e in enumerate(replica.layout.entries) if i in replica.owned}
    owned = {name for name, i in names.items() if heir is None or heir.owns(i)}
    alone = replica.parts == 1 and (heir is None or len(set(heir.owners)) == 1)
    try:
        kept, found = replica.barrier.write(
            owned.__contains__, alone=alone, first=replica.part == 0
        )
    except CannotKeep as error:
        raise refuse(replica.job, "", str(error)) from None
    for name, value in tensors(replica.model).items():
        if name in owned:
            found[f"model/{name}"] = value.detach()
    tree = {
        "format": _FORMAT,
        "version": version,
        "finished": finished,
        "part": replica.part,
        "parts": replica.parts,
        "kept": kept,
    }
    device = device_of(replica.model).type
    return tree if device == "cpu" else {**tree, "device": device}, found


def decode(
    parts: Sequence[Buffer], replica: Replica, *, owned_only: bool = False
) -> tuple[int, bool]:
    """Put all parts of a checkpoint into a replica of the same job; return version and finished.

    ``owned_only``: they hold only the tensors that the replica owns, as pieces for an heir do.

    Raises
    ------
    SpecError
        The parts do not belong together, or are of another model or optimizer.
    """
    try:
        read = unpack if replica.disk is None else unpack_in_place
        files = sorted(map(read, parts), key=lambda file: file[1].get("part", 0))
        trees = [tree for _, tree in files]
        if any(tree.get("format") != _FORMAT for tree in trees):
            raise WarrenError("another version of Warren has made it, go on with that one")
        # All parts must be of one version, numbered 0, 1, ..., and as many as each says there are.
        versions = {tree["version"] for tree in trees}
        numbers = sorted((tree["part"], tree["parts"]) for tree in trees)
        if len(versions) != 1 or numbers != [(part, len(trees)) for part in range(len(trees))]:
            raise WarrenError("its parts do not belong together, or some are missing")
        model = {
            name: value
            for found, _ in files
            for name, value in found.items()
            if name.startswith("model/")
        }
        every = frozenset(range(len(replica.owners)))
        _put_model(model, replica, replica.owned if owned_only else every)
        owned_names = {replica.layout.entries[i].name for i in replica.owned}
        device = device_of(replica.model)
        kept = [
            (tree["kept"], _own(_brought(found, device, whole="device" not in tree), replica))
            for found, tree in files
        ]
        replica.barrier.put(kept, owned_names.__contains__)
        if any("device" not in tree for tree in trees):
            _bring_numbers(replica.optimizer)
    except (WarrenError, ValueError, RuntimeError, KeyError) as error:
        text = f"the checkpoint does not fit: {text_of(error)}"
        raise refuse(replica.job, "", text) from None
    (version,) = versions
    # Only the first part evaluates, so only it may know that a stop rule has ended the job.
    return version, any(tree["finished"] for tree in trees)


def _brought(
    found: Mapping[str, Tensor], device: torch.device, *, whole: bool
) -> Mapping[str, Tensor]:
    """Return the kept tensors of a file where they belong beside a model on a device.

    ``whole``: the file's model lay in main memory, as all tensors did. Single numbers stay there,
    since PyTorch does not move counters of steps.
    """
    if device.type == "cpu":
        return found
    return {
        name: one.to(device) if name.startswith(THERE) or (whole and one.dim()) else one
        for name, one in found.items()
        if not name.startswith("model/")
    }


def _bring_numbers(optimizer: Optimizer) -> None:
    """Move numbers that an optimizer keeps for a parameter to the device of the parameter.

    That of steps made is a counter, which PyTorch keeps in main memory.
    """
    for parameter, kept in optimizer.state.items():
        for key, value in kept.items() if isinstance(kept, dict) else ():
            if isinstance(value, Tensor) and not value.dim() and key != "step":
                kept[key] = value.to(parameter.device)


def _own(found: Mapping[str, Tensor], replica: Replica) -> Mapping[str, Tensor]:
    """Return the kept tensors of a file in memory that may be written."""
    if replica.disk is None:
        return found
    kept = {name: one for name, one in found.items() if not name.startswith("model/")}
    return {
        name: replica.disk.like(one) if replica.disk.worth(one) else one.clone()
        for name, one in kept.items()
    }


@torch.no_grad()
def _put_model(found: Mapping[str, Tensor], replica: Replica, wanted: Set[int]) -> None:
    """Put tensors into the model: those of the entries ``wanted``, no more and no fewer."""
    wanted_names = {e.name for i, e in enumerate(replica.layout.entries) if i in wanted}
    names = {f"model/{name}" for name in wanted_names}
    if unknown := names ^ found.keys():
        raise WarrenError(f"it is of another model: {min(unknown)} is in one of them only")
    for name, tensor in tensors(replica.model).items():
        if name not in wanted_names:
            continue
        value = found[f"model/{name}"]
        if (value.shape, value.dtype) != (tensor.shape, tensor.dtype):
            raise WarrenError(f"it is of another model: model/{name} has another shape or type")
        tensor.copy_(value)
        if replica.disk is not None:
            replica.disk.breathe()
    # Tensors without bytes are never out of date.
    empty = {i for i, entry in enumerate(replica.layout.entries) if not entry.nbytes}
    replica.current = frozenset(wanted | empty)
