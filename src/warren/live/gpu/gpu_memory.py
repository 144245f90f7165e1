"""A job's model on a GPU: states come from main memory that is pinned, and updates go back there.

Parameters and buffers are views of one flat tensor, as they lie in a state, so a state is a few
long copies. Gradients are gathered into another one. Both are allocated once, when the trainer is
made ready: a switch between jobs allocates nothing for them.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext, suppress
from math import nan
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from warren.live.gpu.app_tensors import bring, moved
from warren.live.gpu.transfer import Lane, PipelinedTransfer, whole_is_sooner
from warren.live.training.app.app_calls import BuiltApp
from warren.live.training.memory.model_memory import ModelMemory
from warren.live.training.memory.shared_memory import MappedMemories, StateMemory
from warren.live.training.task_runner import MemoryOf
from warren.live.training.tensor_layout import Layout, TensorPlaces, flat_of
from warren.live.transport.frames import Buffer
from warren.live.transport.message import SharedSlot

_HASHERS: Final = 4
"""So many threads hash an update at most."""
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
        self._asked = torch.cuda.current_stream(self._device)
        self._stream.wait_stream(self._asked)
        ended: list[object] = []
        with torch.cuda.stream(self._stream):
            for target, source in zip(targets, sources, strict=True):
                target.copy_(source, non_blocking=True)
                ended.append(self._stream.record_event())
        return ended

    def wait(self, copied: object) -> bool:
        """Let what is computed from now on wait for a copy; see ``Lane.wait``."""
        assert isinstance(copied, torch.cuda.Event)
        stream = torch.cuda.current_stream(self._device)
        stream.wait_event(copied)
        return bool(stream == self._asked)

    def synchronize(self) -> None:
        """Wait until all copies have ended."""
        self._stream.synchronize()


class LateCopies:
    """Copies a piece when somebody waits for it, and not before: for a rehearsal of who waits."""

    def copy(self, targets: Sequence[Tensor], sources: Sequence[Tensor]) -> Sequence[object]:
        """Note copies."""
        return list(zip(targets, sources, strict=True))

    def wait(self, copied: object) -> bool:
        """Copy now."""
        assert isinstance(copied, tuple)
        with torch._C.DisableTorchFunction():  # it is watched what functions of torch read
            copied[0].copy_(copied[1])
        return True

    def synchronize(self) -> None:
        """Nothing runs."""


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
        self._device = device
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
        self.transfer = PipelinedTransfer(built.model, layout, self._flat, lane)
        """Brings the states that were not staged."""
        self._ooms = _ooms(device) if device.type == "cuda" else 0
        # Processors wait for the GPU, and its next task of this job for the hashes.
        self.hashers = ThreadPoolExecutor(min(_HASHERS, len(os.sched_getaffinity(0))))

    def stage(self, state: Buffer, round_no: int) -> None:
        """Bring a round's state into the model; wait until it is here."""
        host = flat_of(state)
        self._staged = self._coming = None
        self.transfer.lane.copy([self._flat], [host])
        self.transfer.lane.synchronize()
        self._staged = round_no, host.data_ptr()

    def unstage(self) -> None:
        """Forget the state that is here."""
        self._staged = None

    def rehearse(self, trial: Callable[[], bytes], state: Buffer) -> None:
        """Find out whether states may come piece by piece, and whether that is sooner than whole.

        A trial whose pieces come only when they are waited for, and are nothing before, has to give
        what one does whose state comes whole. Which of both takes less time is measured: pieces of
        ResNet-50 came 4 ms later than all of it (docs/reproduction/gpu.md).
        """
        if not self.transfer.whole:
            self._watched(trial)
        if not self.transfer.whole and self._device.type == "cuda":
            with pinned(flat_of(state)):
                self.transfer.whole = whole_is_sooner(self.transfer, trial)

    def _watched(self, trial: Callable[[], bytes]) -> None:
        """Let states come whole if the app reads a piece that it does not wait for."""
        transfer, lane = self.transfer, self.transfer.lane
        transfer.whole, transfer.lane = True, LateCopies()
        try:
            whole = trial()
            self._spoil()
            transfer.whole = False
            with suppress(Exception):  # whatever nonsense the app met
                transfer.whole = trial() != whole
                return
            transfer.whole = True
        finally:
            transfer.end()
            transfer.lane = lane

    @torch.no_grad()
    def _spoil(self) -> None:
        """Fill the model with what is no number; zeros where it has whole ones, which may index."""
        for view in self._home:
            view.fill_(nan if view.is_floating_point() or view.is_complex() else 0)

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
            self.transfer.begin(self._coming)
            self._coming = None
        watching = self.transfer.watching() if self.transfer.left else nullcontext()
        try:
            with torch.device(self._device), watching:
                yield
        finally:
            self.transfer.end()

    def computing(self) -> AbstractContextManager[object]:
        """Return the context of a loss: tensors that the app makes are on the device too."""
        return self._computing()

    def places(self, update: Buffer) -> StateMemory:
        """Return where an update is gathered on the device."""
        return self._out

    def finish(self, update: Buffer) -> None:
        """Copy the update into main memory, and wait until it is there.

        Raises
        ------
        RuntimeError
            Memory of the GPU ran out meanwhile, and a library did with less: it may have chosen
            another algorithm, which gives other bits.
        """
        flat_of(update).copy_(self._update)
        if self._device.type == "cuda" and _ooms(self._device) > self._ooms:
            self._ooms = _ooms(self._device)
            raise RuntimeError("the memory of the GPU ran out during the task")

    def _bind(self, targets: Iterable[Tensor]) -> None:
        """Make the model's tensors views of ``flat``, whatever memory they were given since."""
        for tensor, view in zip(targets, self._home, strict=True):
            if tensor.data_ptr() != view.data_ptr() or tensor.device != view.device:
                tensor.data = view


@contextlib.contextmanager
def pinned(flat: Tensor) -> Iterator[None]:
    """Pin memory inside; where that is refused, nothing but speed is lost."""
    failed = int(_cudart().cudaHostRegister(flat.data_ptr(), flat.nbytes, _PORTABLE))
    if failed:
        _forget_error()
    try:
        yield
    finally:
        if not failed:
            torch.cuda.synchronize()
            _cudart().cudaHostUnregister(flat.data_ptr())


class PinnedMemories(MappedMemories):
    """Memory that others made, pinned here so that a GPU copies from and to it by itself."""

    def __init__(self) -> None:
        super().__init__()
        self._pinned: set[int] = set()

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
                _forget_error()
            else:
                self._pinned.add(address)
        return bytes_of_slot

    def _close(self, paths: Iterable[str]) -> None:
        gone = set(paths)
        for (path, _), arena in self._arenas.items():
            address = _extent(arena.whole())[0] if path in gone else 0
            if address in self._pinned:
                _cudart().cudaHostUnregister(address)
                self._pinned.discard(address)
        super()._close(gone)


def _forget_error() -> None:
    """Meet the last error of CUDA here, which the next check of a kernel would raise elsewhere."""
    with suppress(RuntimeError):
        torch.zeros(1, device="cuda").add_(1)


def _ooms(device: torch.device) -> int:
    """Return how often the GPU had too little memory for this process."""
    return int(torch.cuda.memory_stats(device).get("num_ooms", 0))


def _cudart() -> Any:
    return torch.cuda.cudart()  # type: ignore[no-untyped-call]


def _extent(whole: memoryview) -> tuple[int, int]:
    """Return address and bytes of some memory."""
    array = np.frombuffer(whole, dtype=np.uint8)
    return array.__array_interface__["data"][0], array.nbytes
