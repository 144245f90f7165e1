"""Lanes for copies of states to a GPU and updates out of it: streams of CUDA, and stand-ins."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


class CopyStream:
    """Streams of CUDA on which states are copied to a GPU, and updates out of it."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._out = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

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
        """Let later computations wait for a copy; see ``Lane.wait``."""
        assert isinstance(copied, torch.cuda.Event)
        stream = torch.cuda.current_stream(self._device)
        stream.wait_event(copied)
        return bool(stream == self._asked)

    def synchronize(self) -> None:
        """Wait until all copies to the GPU have ended."""
        self._stream.synchronize()

    def asked(self) -> object:
        """Return the event of the end of all that was asked of the device until now."""
        return torch.cuda.current_stream(self._device).record_event()

    def read(self, source: Tensor) -> Callable[[], Tensor]:
        """Begin to copy a small tensor to main memory; return the function that waits for it."""
        target = torch.empty_like(source, device="cpu", pin_memory=True)
        target.copy_(source, non_blocking=True)
        copied = torch.cuda.current_stream(self._device).record_event()

        def wait() -> Tensor:
            copied.synchronize()
            return target

        return wait

    def bring_out(self, target: Tensor, source: Tensor, after: object) -> None:
        """Copy a tensor on the device, as of an event, into main memory; wait for the copy."""
        assert isinstance(after, torch.cuda.Event)
        # Of a thread of its own: the stream that is current here is not the computing one.
        with torch.cuda.stream(self._out):
            self._out.wait_event(after)
            target.copy_(source, non_blocking=True)
        self._out.synchronize()


class CopiesAtOnce:
    """Copies within the call, where the device is a processor."""

    def copy(self, targets: Sequence[Tensor], sources: Sequence[Tensor]) -> Sequence[object]:
        """Copy."""
        for target, source in zip(targets, sources, strict=True):
            target.copy_(source)
        return list(targets)

    def wait(self, copied: object) -> bool:
        """It is here."""
        return True

    def synchronize(self) -> None:
        """Nothing runs."""

    def asked(self) -> object:
        """Nothing is asked for and not done."""

    def read(self, source: Tensor) -> Callable[[], Tensor]:
        """It is here."""
        return lambda: source

    def bring_out(self, target: Tensor, source: Tensor, after: object) -> None:
        """Copy."""
        target.copy_(source)


class LateCopies(CopiesAtOnce):
    """Copies a piece only when something waits for it, to find out in a rehearsal what waits."""

    def copy(self, targets: Sequence[Tensor], sources: Sequence[Tensor]) -> Sequence[object]:
        """Note copies."""
        return list(zip(targets, sources, strict=True))

    def wait(self, copied: object) -> bool:
        """Copy now."""
        assert isinstance(copied, tuple)
        with torch._C.DisableTorchFunction():  # the reads of torch's functions are observed
            copied[0].copy_(copied[1])
        return True
