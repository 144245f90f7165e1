"""A job's model on a GPU: states come from main memory that is pinned, and updates go back there.

Parameters and buffers are views of one flat tensor, as they lie in a state, so a state is a few
long copies. Gradients are gathered into another one. Both are allocated once, when the trainer is
made ready: a switch between jobs allocates nothing for them.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from warren.live.gpu.app_tensors import bring, moved
from warren.live.gpu.transfer import Lane, PipelinedTransfer
from warren.live.training.app.app_calls import BuiltApp
from warren.live.training.memory.model_memory import ModelMemory
from warren.live.training.memory.shared_memory import MappedMemories, StateMemory
from warren.live.training.task_runner import MemoryOf
from warren.live.training.tensor_layout import Layout, TensorPlaces, flat_of
from warren.live.transport.frames import Buffer
from warren.live.transport.message import SharedSlot

_PORTABLE: Final = 1
"""cudaHostRegisterPortable: pinned for every context of this process."""


def on_gpu(index: int) -> MemoryOf:
    """Return what brings a model that was built to GPU ``index``, which this process then uses."""
    device = torch.device("cuda", index)
    torch.cuda.set_device(device)

    def memory(built: BuiltApp, layout: Layout) -> ModelMemory:
        """Bring the model, and what its app keeps, to the GPU."""
        return DeviceMemory(built, layout, device, CopyStream(device))

    return memory


class CopyStream:
    """A stream of CUDA on which states are copied."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def copy(self, targets: Sequence[Tensor], sources: Sequence[Tensor]) -> Sequence[object]:
        """Begin copies, after all that was asked of the device; return the events of their ends."""
        self._stream.wait_stream(torch.cuda.current_stream(self._device))
        ended: list[object] = []
        with torch.cuda.stream(self._stream):
            for target, source in zip(targets, sources, strict=True):
                target.copy_(source, non_blocking=True)
                ended.append(self._stream.record_event())
        return ended

    def wait(self, copied: object) -> None:
        """Let what is computed from now on wait for a copy."""
        assert isinstance(copied, torch.cuda.Event)
        torch.cuda.current_stream(self._device).wait_event(copied)

    def synchronize(self) -> None:
        """Wait until all copies have ended."""
        self._stream.synchronize()


class DeviceMemory(ModelMemory):
    """A model on a device.

    Parameters
    ----------
    built
        The app; its model and what it keeps are moved.
    layout
        The model's layout.
    device
        Where to.
    lane
        Where states are copied.
    """

    def __init__(self, built: BuiltApp, layout: Layout, device: torch.device, lane: Lane) -> None:
        super().__init__(layout)
        self._device, self._lane = device, lane
        self._flat = torch.zeros(layout.total_bytes, dtype=torch.uint8, device=device)
        self._update = torch.zeros_like(self._flat)
        self._home = StateMemory(layout, self._flat).views
        self._out = StateMemory(layout, self._update)
        # The round and the address of a state that is here already.
        self._staged: tuple[int, int] | None = None
        # One that is to come when the app computes.
        self._coming: Tensor | None = None
        bring(built, device)
        with torch.no_grad():
            self._flat.copy_(layout.pack(built.model))
        self._bind(one for one in TensorPlaces(built.model).now() if one is not None)
        self._transfer = PipelinedTransfer(built.model, layout, self._flat, lane)
        self.pipelined = True
        """Whether a model computes while its state is still coming."""

    def stage(self, state: Buffer, round_no: int) -> None:
        """Bring a round's state into the model; wait until it is here."""
        host = flat_of(state)
        self._staged = self._coming = None
        self._lane.copy([self._flat], [host])
        self._lane.synchronize()
        self._staged = round_no, host.data_ptr()

    def load(self, targets: Sequence[Tensor], state: Buffer, round_no: int) -> Sequence[Tensor]:
        """Put a round's state into the model; what computes waits for what it reads of it."""
        views = self._states.at(state).views
        self._bind(targets)
        host = flat_of(state)
        # A state that was staged is good for one task: that may leave other buffers.
        here, self._staged = self._staged, None
        # Not yet: the batch uses the same bus, and nothing can compute without it.
        self._coming = None if here == (round_no, host.data_ptr()) else host
        return views

    def batch(self, batch: Any) -> Any:
        """Return a batch on the device."""
        return moved(batch, self._device)

    @contextlib.contextmanager
    def _computing(self) -> Iterator[None]:
        if self._coming is not None:
            self._transfer.begin(self._coming)
            self._coming = None
            if not self.pipelined:
                self._transfer.end()
        with torch.device(self._device):
            if self._transfer.left:
                with self._transfer.watching():
                    yield
                self._transfer.end()
            else:
                yield

    def computing(self) -> AbstractContextManager[object]:
        """Return the context of a loss: tensors that the app makes are on the device too."""
        return self._computing()

    def places(self, update: Buffer) -> StateMemory:
        """Return where an update is gathered on the device."""
        return self._out

    def finish(self, update: Buffer) -> None:
        """Copy the update into main memory, and wait until it is there."""
        flat_of(update).copy_(self._update)

    def _bind(self, targets: Iterable[Tensor]) -> None:
        """Make the model's tensors views of ``flat``, whatever memory they were given since."""
        for tensor, view in zip(targets, self._home, strict=True):
            if tensor.data_ptr() != view.data_ptr() or tensor.device != view.device:
                tensor.data = view


class PinnedMemories(MappedMemories):
    """Memory that others made, pinned here so that a GPU copies from and to it by itself."""

    def view(self, spot: SharedSlot) -> memoryview:
        """Return the bytes of a slot, as ``MappedMemories.view`` does, in memory that is pinned."""
        known = set(self._arenas)
        bytes_of_slot = super().view(spot)
        for key in self._arenas.keys() - known:
            address, size = _extent(self._arenas[key].whole())
            failed = int(_cudart().cudaHostRegister(address, size, _PORTABLE))
            if failed:  # slower, and no error
                print(
                    f"warren: {size} bytes of memory cannot be pinned ({failed})", file=sys.stderr
                )
        return bytes_of_slot

    def _close(self, paths: Iterable[str]) -> None:
        gone = set(paths)
        for (path, _), arena in self._arenas.items():
            if path in gone:
                _cudart().cudaHostUnregister(_extent(arena.whole())[0])
        super()._close(gone)


def _cudart() -> Any:
    return torch.cuda.cudart()  # type: ignore[no-untyped-call]


def _extent(whole: memoryview) -> tuple[int, int]:
    """Return address and bytes of some memory."""
    array = np.frombuffer(whole, dtype=np.uint8)
    return array.__array_interface__["data"][0], array.nbytes
