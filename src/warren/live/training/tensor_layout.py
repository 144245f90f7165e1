"""Give every tensor of a model a fixed place in one flat buffer, and hash a state_dict.

Server and trainers build the same layout from the same app, so only raw bytes travel. Where a
model keeps its tensors is found once: looking there is quicker than walking the whole model.
"""

from __future__ import annotations

import hashlib
import json
import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor, nn

from warren.live.training.memory.shared_arena import ALIGN_BYTES
from warren.live.transport.frames import Buffer

Kind = Literal["param", "float_buffer", "int_buffer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorEntry:
    """One tensor: the place of its ``nbytes`` bytes, in row-major order whatever its strides."""

    name: str
    kind: Kind
    dtype: str
    shape: tuple[int, ...]
    offset: int
    nbytes: int


@dataclass(frozen=True, kw_only=True)
class Layout:
    """All parameters in the order of the model, then all buffers; each tied tensor once.

    Buffers that are not persistent are carried too, since a forward pass may need the values that
    the last one left there; they are no part of the state_dict and so of no digest.
    """

    entries: tuple[TensorEntry, ...]
    total_bytes: int

    @staticmethod
    def of(model: nn.Module) -> Layout:
        """Return the layout of a model."""
        entries, offset = [], 0
        for name, tensor in tensors(model).items():
            dtype = str(tensor.dtype).removeprefix("torch.")
            nbytes = tensor.numel() * tensor.element_size()
            entry = TensorEntry(
                name=name,
                kind=_kind(tensor),
                dtype=dtype,
                shape=tuple(tensor.shape),
                offset=offset,
                nbytes=nbytes,
            )
            entries.append(entry)
            # Each tensor begins at a multiple of the alignment; the bytes between are padding.
            offset += math.ceil(nbytes / ALIGN_BYTES) * ALIGN_BYTES
        return Layout(entries=tuple(entries), total_bytes=offset)

    @cached_property
    def params(self) -> tuple[TensorEntry, ...]:
        """Return the entries of kind ``param``; a ``present`` mask has one byte for each."""
        return tuple(entry for entry in self.entries if entry.kind == "param")

    @cached_property
    def fingerprint(self) -> str:
        """Return a hash that is equal exactly where two layouts are equal."""
        rows = [(e.name, e.kind, e.dtype, e.shape, e.offset, e.nbytes) for e in self.entries]
        return hashlib.sha256(json.dumps(rows).encode()).hexdigest()

    def views(self, flat: Tensor) -> dict[str, Tensor]:
        """Return typed views into a flat uint8 tensor of ``total_bytes`` elements, by name."""
        return {entry.name: view_of(flat, entry, entry.offset) for entry in self.entries}

    def pack(self, model: nn.Module) -> Tensor:
        """Return a new flat tensor with the state of ``model``; padding bytes are zero."""
        flat = torch.zeros(self.total_bytes, dtype=torch.uint8)
        source = tensors(model)
        for name, view in self.views(flat).items():
            view.copy_(source[name].detach())
        return flat


def tensors(model: nn.Module) -> dict[str, Tensor]:
    """Return parameters, then buffers, by name; a tied tensor stands under its first name only."""
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def device_of(model: nn.Module) -> torch.device:
    """Return the device on which a model lies; main memory if it has no tensors."""
    return next((one.device for one in tensors(model).values()), torch.device("cpu"))


def host_copy(tensor: Tensor) -> Tensor:
    """Return a copy in main memory, outside autograd, with the strides of the tensor."""
    return tensor.detach().clone() if tensor.is_cpu else tensor.detach().cpu()


def view_of(flat: Tensor, entry: TensorEntry, offset: int) -> Tensor:
    """Return a typed view of the entry whose bytes begin at ``offset`` of a flat uint8 tensor."""
    part = flat[offset : offset + entry.nbytes]
    return part.view(getattr(torch, entry.dtype)).view(entry.shape)


def flat_of(source: Buffer | Tensor) -> Tensor:
    """Return a flat uint8 tensor that shares the memory of ``source``, of any alignment.

    A tensor is that already. torch has no read-only tensors and warns of read-only memory; no code
    here writes to memory that it only reads.
    """
    if isinstance(source, Tensor):
        return source
    # torch keeps this object, and so the memory stays where it is.
    view = memoryview(source)
    if not view.nbytes:
        return torch.empty(0, dtype=torch.uint8)
    if not view.readonly:
        return torch.frombuffer(view, dtype=torch.uint8)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given buffer is not writable")
        return torch.frombuffer(view, dtype=torch.uint8)


def raw(flat: Tensor) -> memoryview:
    """Return the bytes of a flat tensor, in its own memory, which the view keeps alive."""
    return flat.numpy().data


def digest(state_dict: Mapping[str, Tensor]) -> str:
    """Return SHA-256 over name, dtype, shape and bytes of the sorted state_dict, in hex."""
    total = hashlib.sha256()
    for name in sorted(state_dict):
        tensor = state_dict[name].detach().cpu().contiguous()
        dtype = str(tensor.dtype).removeprefix("torch.")
        total.update(json.dumps([name, dtype, list(tensor.shape)]).encode() + b"\n")
        total.update(raw(tensor.reshape(-1).view(torch.uint8)))
    return total.hexdigest()


def _kind(tensor: Tensor) -> Kind:
    if isinstance(tensor, nn.Parameter):
        return "param"
    return "float_buffer" if tensor.is_floating_point() or tensor.is_complex() else "int_buffer"


class TensorPlaces:
    """The tensors of a model in the order of its layout, whatever has been put in their places."""

    def __init__(self, model: nn.Module) -> None:
        modules = dict(model.named_modules())
        self._built = tensors(model)
        self._at: list[tuple[dict[str, Tensor | None], str]] = []
        self._buffers: list[tuple[dict[str, Tensor | None], str, Tensor]] = []
        for name, tensor in self._built.items():
            path, _, leaf = name.rpartition(".")
            if isinstance(tensor, nn.Parameter):
                # Modules keep their tensors in these dicts; ``now`` finds their replacements there.
                self._at.append((modules[path]._parameters, leaf))
            else:
                self._at.append((modules[path]._buffers, leaf))
                self._buffers.append((modules[path]._buffers, leaf, tensor))

    def now(self) -> list[Tensor | None]:
        """Return the tensors that are there now; None where one was taken away."""
        return [place.get(leaf) for place, leaf in self._at]

    def put_back_buffers(self) -> None:
        """Make each buffer the tensor again that the model was built with, whatever it holds."""
        for place, leaf, tensor in self._buffers:
            place[leaf] = tensor
