"""A trainer's use of a GPU; or of a processor that is treated as one, if there is none."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Final

import torch

from warren.live.gpu.device_turn import DeviceTurn
from warren.live.gpu.gpu_memory import DeviceMemory, shortages
from warren.live.gpu.pinned_memory import PinnedMemories
from warren.live.gpu.streams import CopiesAtOnce, CopyStream
from warren.live.training.app.app_calls import BuiltApp
from warren.live.training.memory.model_memory import ModelMemory
from warren.live.training.memory.shared_memory import MappedMemories
from warren.live.training.task_runner import MemoryOf
from warren.live.training.tensor_layout import Layout

STAND_IN: Final = -1
"""The number of a device that is a processor: everything else is done as on a GPU."""


@dataclass(frozen=True, slots=True)
class TrainerDevice:
    """Brings a model to a device; reads and writes memory of other processes there.

    ``turn`` is held while an app is built and a task rehearsed. ``shortages``: number of times that
    the device had too little memory for this process, also if a library did with less.
    """

    memory_of: MemoryOf
    states: MappedMemories
    updates: MappedMemories
    turn: Callable[[], AbstractContextManager[object]]
    shortages: Callable[[], int]


def torch_device(gpu: int) -> torch.device:
    """Return the device of a GPU by its number, on which this process computes from now on.

    CUDA begins with its first use: until then workers of the input can be forked.
    """
    if gpu == STAND_IN:
        return torch.device("cpu")
    device = torch.device("cuda", gpu)
    torch.cuda._lazy_call(lambda: torch.cuda.set_device(device))  # type: ignore[no-untyped-call]
    return device


def trainer_device(gpu: int, folder: str, *, pieces: bool = True) -> TrainerDevice:
    """Return the trainer's access to GPU ``gpu``, on which this process then computes.

    ``folder`` is the run's, in which its trainers take turns. ``pieces``: states come piece by
    piece.
    """
    if gpu == STAND_IN:
        there = memory_on(torch.device("cpu"), pieces=pieces)
        return TrainerDevice(there, MappedMemories(), MappedMemories(), nullcontext, lambda: 0)
    # Read-only memory cannot be pinned everywhere; user code sees neither of them here.
    states, updates = PinnedMemories(), PinnedMemories()
    turn = DeviceTurn(gpu, folder).building
    on_device = torch.device("cuda", gpu)
    return TrainerDevice(
        on_gpu(gpu, pieces=pieces), states, updates, turn, lambda: shortages(on_device)
    )


def on_gpu(index: int, *, pieces: bool = True) -> MemoryOf:
    """Return the function that brings a built model to GPU ``index``, which this process uses."""
    return memory_on(torch_device(index), pieces=pieces)


def memory_on(device: torch.device, *, pieces: bool = True) -> MemoryOf:
    """Return the function that brings a built model to a device."""

    def memory(built: BuiltApp, layout: Layout) -> ModelMemory:
        """Bring the model, and the tensors that its app keeps, to the device."""
        lane = CopyStream(device) if device.type == "cuda" else CopiesAtOnce()
        return DeviceMemory(built, layout, device, lane, pieces=pieces)

    return memory
