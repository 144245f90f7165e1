"""The place of a job's model while its tasks are computed: in main memory, or on a device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

import torch
from torch import Tensor

from warren.live.training.helpers import ALONE, Helpers
from warren.live.training.memory.disk_memory import DiskMemory
from warren.live.training.memory.shared_memory import StateMemories, StateMemory, copy_all
from warren.live.training.tensor_layout import Layout
from warren.live.transport.frames import Buffer
from warren.model.errors import chain_of, text_of

_SHORT: Final = ("out of memory", "ALLOC_FAILED")


class DeviceMemoryShort(RuntimeError):
    """Memory of a device ran out, and a library did with less: it may have computed other bits."""


def ran_out(error: BaseException) -> bool:
    """Tell whether an error, or its cause, says that a device had too little memory."""
    for one in chain_of(error):
        if isinstance(one, torch.OutOfMemoryError | DeviceMemoryShort):
            return True
        # Messages of CUDA and its libraries, for memory that torch does not request.
        if isinstance(one, RuntimeError) and any(word in text_of(one) for word in _SHORT):
            return True
    return False


def _nothing() -> None:
    """Do nothing."""


class ModelMemory:
    """A model in main memory: states are copied into its tensors, and updates out of them."""

    on_device = False
    """Whether tasks are computed with the model elsewhere than in main memory."""
    disk: DiskMemory | None = None
    """Where states, updates and the model's tensors lie; None: in main memory."""
    helpers: Helpers = ALONE
    """Threads that hash updates; none where tasks are computed by processors, one core each."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._states, self._updates = StateMemories(layout), StateMemories(layout)

    def stage(self, state: Buffer, round_no: int) -> None:
        """Bring a round's state near the model ahead of its task; here there is nothing nearer."""

    def unstage(self) -> None:
        """Forget the state brought near ahead of its task."""

    def evict(self) -> None:
        """Give the memory of the device back until the next state comes; here nothing is on one."""

    def settle(self) -> tuple[int, int, bool]:
        """Give the memory of the device back unless most of it is free.

        Returns
        -------
        tuple of int, int and bool
            Most bytes of it that this process had; bytes free at that time; whether it has kept its
            own. Here nothing is on a device.
        """
        return 0, 0, True

    def rehearse(self, trial: Callable[[], bytes], state: Buffer) -> None:
        """Find out how states may come, by trials of a task with a state, which give its hashes."""

    def load(self, targets: Sequence[Tensor], state: Buffer, round_no: int) -> Sequence[Tensor]:
        """Put a round's state into the model's tensors; return their new contents, in order."""
        frame = self._states.at(state)
        copy_all(targets, frame.views, disk=self.disk)
        return frame.views

    def in_thread(self, build: Callable[[], Any]) -> Future[Any] | None:
        """Begin to build a batch in a thread, so that ``batch`` takes less; None: there is none."""
        return None

    def batch(self, batch: Any) -> Any:
        """Return a batch where the model can read it."""
        return batch

    def computing(self) -> AbstractContextManager[object]:
        """Return the context in which the app computes a loss."""
        return nullcontext()

    def places(self, update: Buffer) -> StateMemory:
        """Return the targets for the tensors of an update, with the gaps between them."""
        return self._updates.at(update)

    def bring_out(self, update: Buffer) -> Callable[[], None]:
        """Return a function, to call once, that brings the copies in ``places`` into the update.

        Another thread may call it while the next task computes. Here all of it is there already.
        """
        return _nothing

    def forget(self) -> None:
        """Let go of buffers that were used."""
        self._states, self._updates = StateMemories(self._layout), StateMemories(self._layout)
