"""Whole states and updates in the memory of a device, which is used again round after round.

The state of a model on a device stays there on its way to a task of the same process, and so does
the task's update. Both are flat, as in main memory (``training.tensor_layout``).
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence

import torch
from torch import Tensor

from warren.live.training.block_ownership import Ranges
from warren.live.training.memory.shared_memory import StateMemory
from warren.live.training.tensor_layout import Layout


class DeviceBytes:
    """A state or an update on a device: ``flat``, shape (total_bytes,), uint8, and its views.

    Its memory is used again as soon as nothing holds this object.
    """

    def __init__(self, flat: Tensor, memory: StateMemory) -> None:
        self.flat = flat
        self.memory = memory
        self.nbytes = flat.nbytes

    def fill(self, source: Sequence[Tensor | None]) -> None:
        """Copy tensors, in the order of the layout; None leaves zeros."""
        fill(self.memory.views, source)

    def pieces(self, ranges: Ranges) -> tuple[memoryview, ...]:
        """Return copies in main memory, one piece a range (begin, end) in bytes."""
        if self.flat.device.type != "cuda":
            whole = self.flat.clone()
        else:
            whole = torch.empty(self.nbytes, dtype=torch.uint8, pin_memory=True)
            whole.copy_(self.flat)
        bytes_of_it = whole.numpy().data
        return tuple(bytes_of_it[begin:end] for begin, end in ranges)


class DevicePlaces:
    """Memory of a device for states and updates of one layout.

    There are as many places as were ever held at once, until ``forget``.
    """

    def __init__(self, layout: Layout, device: torch.device) -> None:
        self._layout = layout
        self._device = device
        self._places: list[tuple[Tensor, StateMemory, weakref.ref[DeviceBytes] | None]] = []

    def __len__(self) -> int:
        """Return the number of places."""
        return len(self._places)

    def lend(self) -> DeviceBytes:
        """Return a place that nothing holds; its padding is zero, its other bytes are old."""
        held = (lent is not None and lent() is not None for _, _, lent in self._places)
        at = next((at for at, one in enumerate(held) if not one), len(self._places))
        if at < len(self._places):
            flat, memory, _ = self._places[at]
        else:
            flat = torch.zeros(self._layout.total_bytes, dtype=torch.uint8, device=self._device)
            memory = StateMemory(self._layout, flat)
            self._places.append((flat, memory, None))
        found = DeviceBytes(flat, memory)
        self._places[at] = flat, memory, weakref.ref(found)
        return found

    @torch.no_grad()
    def pack(self, source: Sequence[Tensor]) -> DeviceBytes:
        """Return a copy of all tensors of the layout, in its order."""
        found = self.lend()
        found.fill(source)
        return found

    def lent(self) -> list[Tensor]:
        """Return the flat memory of the places that something holds."""
        return [flat for flat, _, held in self._places if held is not None and held() is not None]

    def forget(self) -> None:
        """Give back the places that nothing holds."""
        self._places = [one for one in self._places if one[2] is not None and one[2]() is not None]


@torch.no_grad()
def fill(views: Sequence[Tensor], source: Sequence[Tensor | None]) -> None:
    """Copy tensors of a device into views of the same shapes; None: the view becomes zero.

    Tensors of one type are copied in a few calls; torch would copy mixed ones one by one.
    """
    groups: dict[torch.dtype, tuple[list[Tensor], list[Tensor]]] = {}
    absent: list[Tensor] = []
    for view, one in zip(views, source, strict=True):
        if one is None:
            absent.append(view)
        else:
            targets, sources = groups.setdefault(view.dtype, ([], []))
            targets.append(view)
            sources.append(one)
    for targets, sources in groups.values():
        torch._foreach_copy_(targets, sources)
    if absent:
        torch._foreach_zero_(absent)
