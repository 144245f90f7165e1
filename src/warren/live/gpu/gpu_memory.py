"""A job's model on a GPU: states come to it, and updates go, on the GPU or through main memory.

Parameters and buffers are views of one flat tensor in the order of a state, so a state is a few
long copies. Gradients are gathered into other tensors: there are two as soon as a task begins while
the update of the one before is brought out. A switch between jobs allocates nothing for them. Main
memory that states come from is pinned.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext, suppress
from math import nan
from typing import Any

import torch
from torch import Tensor

from warren.live.gpu.app_tensors import (
    CopiedBatch,
    apart,
    bring,
    copied_ahead,
    moved,
    pinned_batch,
)
from warren.live.gpu.device_hashes import DeviceHashes, read, reading_of
from warren.live.gpu.device_turn import most_is_free
from warren.live.gpu.pinned_memory import pinned
from warren.live.gpu.streams import LateCopies
from warren.live.gpu.transfer import Lane, PipelinedTransfer, whole_is_sooner
from warren.live.training.app.app_calls import BuiltApp
from warren.live.training.memory.device_bytes import DeviceBytes, DevicePlaces, fill
from warren.live.training.memory.model_memory import (
    DeviceMemoryShort,
    Held,
    ModelMemory,
    Outcome,
)
from warren.live.training.memory.shared_memory import StateMemory
from warren.live.training.tensor_layout import Layout, TensorPlaces, flat_of
from warren.live.transport.frames import Buffer


class DeviceMemory(ModelMemory):
    """A model on a device.

    Parameters
    ----------
    built
        The app; its model and the tensors that it keeps are moved.
    layout
        The model's layout.
    device
        The target device.
    lane
        The lane on which states are copied.
    pieces
        Whether states come piece by piece from main memory; else whole, or from the device itself.
    """

    on_device = True

    def __init__(
        self,
        built: BuiltApp,
        layout: Layout,
        device: torch.device,
        lane: Lane,
        *,
        pieces: bool = True,
    ) -> None:
        super().__init__(layout)
        self._device = device
        self._lane = lane
        self._tensors = TensorPlaces(built.model)
        self._home: list[Tensor] = []
        self._pieces = pieces
        self._updates_there = DevicePlaces(layout, device)
        self._gathering: DeviceBytes | None = None
        self._hashes: DeviceHashes | None = None
        self._allocate()
        # The round and the address of a state that is here already.
        self._staged: tuple[int, int] | None = None
        # A state that will come when the app computes.
        self._coming: Tensor | None = None
        bring(built, device)
        with torch.no_grad():
            self._flat.copy_(layout.pack(built.model))
        self._bind(self._there())
        whole = not pieces
        self.transfer = PipelinedTransfer(built.model, layout, self._flat, lane, whole=whole)
        """Brings the states that were not staged."""
        self._shortages = shortages(device) if device.type == "cuda" else 0
        self._thread = ThreadPoolExecutor(1, "batches", self._in_thread)
        self._batches = _stream(device)

    def stage(self, state: Buffer, round_no: int) -> None:
        """Bring a round's state into the model; wait until it is here."""
        host = flat_of(state)
        self._staged = self._coming = None
        self._bring_back()
        self.transfer.lane.copy([self._flat], [host])
        self.transfer.lane.synchronize()
        self._staged = round_no, host.data_ptr()

    def unstage(self) -> None:
        """Forget the state that is here."""
        self._staged = None

    @torch.no_grad()
    def evict(self) -> None:
        """Give the device's memory back, except the app's own tensors, until a state comes."""
        self._staged = self._coming = None
        for tensor in self._there():
            tensor.grad = None
            tensor.data = torch.empty(0, dtype=tensor.dtype, device=self._device)
        self._flat = torch.empty(0, dtype=torch.uint8, device=self._device)
        self._home.clear()
        self._gathering = self._hashes = None
        self._updates_there.forget()
        if self._device.type == "cuda":
            torch.cuda.empty_cache()

    def _bring_back(self) -> None:
        """Have memory for a model again, if it was given back."""
        if not self._home:
            self._allocate()
            self.transfer.rebind(self._flat)

    def _allocate(self) -> None:
        size = self._layout.total_bytes
        self._flat = torch.zeros(size, dtype=torch.uint8, device=self._device)
        if self._pieces:  # else updates have places of the store's
            self._updates_there.lend()
        self._hashes = DeviceHashes(self._layout, self._device)
        # The state is complete: only now does the model have memory.
        self._home += map(apart, StateMemory(self._layout, self._flat).views)

    def _there(self) -> list[Tensor]:
        return [one for one in self._tensors.now() if one is not None]

    def settle(self) -> tuple[int, int, bool]:
        """Give the memory of the device back unless most of it is free."""
        if self._device.type != "cuda":
            return super().settle()
        stays = most_is_free(self._device.index)
        if not stays:
            self.evict()
        free_bytes, _ = torch.cuda.mem_get_info(self._device)
        return torch.cuda.max_memory_reserved(self._device), free_bytes, stays

    def rehearse(self, trial: Callable[[], bytes], state: Buffer) -> None:
        """Find out whether states may come piece by piece, and whether that is faster than whole.

        In one trial each piece comes only when something waits for it, and holds no numbers before.
        It has to give the result of a trial with a whole state. The faster of both ways is
        measured: pieces of ResNet-50 came 4 ms later than all of it
        (docs/background/reproduction/gpu.md).
        """
        if not self.transfer.whole:
            self._watched(trial)
        if not self.transfer.whole and self._device.type == "cuda":
            with pinned(flat_of(state)):
                self.transfer.whole = whole_is_sooner(self.transfer, trial)

    def _watched(self, trial: Callable[[], bytes]) -> None:
        """Load whole states once the app was seen to read a piece without waiting for it."""
        transfer, lane = self.transfer, self.transfer.lane
        transfer.whole, transfer.lane = True, LateCopies()
        try:
            whole = trial()
            self._spoil()
            transfer.whole = False
            with suppress(Exception):  # any error that NaN causes in the app
                transfer.whole = trial() != whole
                return
            transfer.whole = True
        finally:
            transfer.end()
            transfer.lane = lane

    @torch.no_grad()
    def _spoil(self) -> None:
        """Fill the model with NaN; with zeros where it has integers, which may be indices."""
        for view in self._home:
            view.fill_(nan if view.is_floating_point() or view.is_complex() else 0)

    def load(self, targets: Sequence[Tensor], state: Held, round_no: int) -> Sequence[Tensor]:
        """Put a round's state into the model; computations wait for the pieces that they read."""
        self._bring_back()
        self._bind(targets)
        if isinstance(state, DeviceBytes):
            self._staged = self._coming = None
            self._flat.copy_(state.flat)
            return state.memory.views
        views = self._states.at(state).views
        host = flat_of(state)
        # A state that was staged is good for one task: that may leave other buffers.
        here, self._staged = self._staged, None
        # Not yet: the batch uses the same bus, and nothing can compute without it.
        self._coming = None if here == (round_no, host.data_ptr()) else host
        return views

    def _in_thread(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.set_device(self._device)

    def in_thread(self, build: Callable[[], Any]) -> Future[Any]:
        """Begin to build a batch in a thread, and to copy it to the device by pinned memory."""
        stream = self._batches
        if stream is None:
            return self._thread.submit(build)
        return self._thread.submit(lambda: copied_ahead(build(), self._device, stream))

    def batch(self, batch: Any) -> Any:
        """Return a batch on the device."""
        if isinstance(batch, CopiedBatch):
            return batch.arrived(self._device)
        # Memory that is not pinned is copied only once the device has done all before.
        cuda = self._device.type == "cuda"
        return moved(pinned_batch(batch) if cuda else batch, self._device)

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

    def wait(self, loss: Tensor) -> None:
        """Wait until the device has computed all that it was asked for."""
        if self._device.type == "cuda":
            torch.cuda.current_stream(self._device).synchronize()

    def places(self, update: Held) -> StateMemory:
        """Return the device's place for an update: one from which none is still brought out."""
        there = update if isinstance(update, DeviceBytes) else self._updates_there.lend()
        self._gathering = there
        return there.memory

    def gather(self, update: StateMemory, source: Sequence[Tensor | None]) -> None:
        """Copy tensors into the place of an update, whose padding is zero already."""
        fill(update.views, source)

    def bring_out(self, update: Held, loss: Tensor, present: bytes) -> Callable[[], Outcome]:
        """Return the function that waits for the hashes, and copies an update into main memory.

        Raises
        ------
        DeviceMemoryShort
            Memory of the GPU ran out meanwhile, and a library did with less: it may have chosen
            another algorithm, which gives other bits.
        """
        place, self._gathering = self._gathering, None
        assert place is not None, "an update is gathered first"
        assert self._hashes is not None
        if self._device.type == "cuda" and shortages(self._device) > self._shortages:
            # For all later tasks: a library may keep its other choice.
            raise DeviceMemoryShort("the memory of the GPU ran out during the task")
        after = None if isinstance(update, DeviceBytes) else self._lane.asked()
        reading = self._lane.read(reading_of(loss, self._hashes.of(place.flat)))

        def end() -> Outcome:
            if not isinstance(update, DeviceBytes):
                self._lane.bring_out(flat_of(update), place.flat, after)
            return read(reading(), present)

        return end

    def _bind(self, targets: Iterable[Tensor]) -> None:
        """Make the model's tensors views of ``flat``, whatever memory they have had since."""
        for tensor, view in zip(targets, self._home, strict=True):
            if tensor.data_ptr() != view.data_ptr() or tensor.device != view.device:
                tensor.data = view


def _stream(device: torch.device) -> torch.cuda.Stream | None:
    if device.type != "cuda":
        return None
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


def shortages(device: torch.device) -> int:
    """Return the number of times that a GPU had too little memory for this process."""
    return int(torch.cuda.memory_stats(device).get("num_ooms", 0))
