"""The place of a job's model while its tasks are computed: in main memory, or on a device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, TypeAlias

import torch
from torch import Tensor

from warren.live.training.helpers import ALONE, Helpers
from warren.live.training.memory.device_bytes import DeviceBytes
from warren.live.training.memory.disk_memory import DiskMemory
from warren.live.training.memory.shared_memory import StateMemories, StateMemory, copy_all
from warren.live.training.task_hashes import marks_of
from warren.live.training.tensor_layout import Layout
from warren.live.transport.frames import Buffer
from warren.model.errors import chain_of, text_of

Held: TypeAlias = Buffer | DeviceBytes
"""A whole state or update: in main memory, or on the device."""
Outcome: TypeAlias = tuple[float, bytes]
"""The loss of a task, and the marks of its update."""
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

    def load(self, targets: Sequence[Tensor], state: Held, round_no: int) -> Sequence[Tensor]:
        """Put a round's state into the model's tensors; return their new contents, in order."""
        assert not isinstance(state, DeviceBytes), "a model in main memory has no device"
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

    def wait(self, loss: Tensor) -> None:
        """Wait until the device has computed the gradients of a loss; here they are there."""

    def places(self, update: Held) -> StateMemory:
        """Return the targets for the tensors of an update, with the gaps between them."""
        assert not isinstance(update, DeviceBytes), "a model in main memory has no device"
        return self._updates.at(update)

    def gather(self, update: StateMemory, source: Sequence[Tensor | None]) -> None:
        """Copy tensors into the places of an update; None leaves zeros.

        Every byte is written, since marks and servers read all of it.
        """
        pairs = [(view, one) for view, one in zip(update.views, source, strict=True)]
        found = [(view, one) for view, one in pairs if one is not None]
        copy_all([view for view, _ in found], [one for _, one in found], disk=self.disk)
        if zeros := [view for view, one in pairs if one is None] + update.padding:
            torch._foreach_zero_(zeros)

    def bring_out(self, update: Held, loss: Tensor, present: bytes) -> Callable[[], Outcome]:
        """Return a function, to call once, that brings the copies in ``places`` into the update.

        Another thread may call it while the next task computes. It returns the loss as a number and
        the marks of the update. Here all of it is there already.
        """
        assert not isinstance(update, DeviceBytes), "a model in main memory has no device"
        value, whole = float(loss.detach()), update
        return lambda: (value, marks_of(self._layout, value, present, whole, self.helpers))

    def forget(self) -> None:
        """Let go of buffers that were used."""
        self._states, self._updates = StateMemories(self._layout), StateMemories(self._layout)
