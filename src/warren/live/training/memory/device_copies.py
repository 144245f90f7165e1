"""Copy tensors of a device into one flat memory, beside what the device goes on to compute.

They are gathered on the device first, at about a gigabyte a millisecond, and may change right
after. Then one long copy brings them out, on a stream of its own and into pinned memory.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, TypeAlias

import torch
from torch import Tensor

Pieces: TypeAlias = Sequence[tuple[int, Tensor]]
"""The byte at which each tensor begins in the flat memory, at a multiple of its element's size."""
_PORTABLE: Final = 1
"""cudaHostRegisterPortable: pinned for every context of this process."""
_PINNED_FROM_BYTES: Final = 1 << 20
"""Smaller memory is not worth a call that pins it."""


@torch.no_grad()
def begin_copy(target: Tensor, pieces: Pieces) -> Callable[[], None]:
    """Begin to copy tensors into a flat uint8 tensor of main memory, row by row.

    Returns
    -------
    Callable
        The function that waits for the end. Any thread may call it. Bytes of ``target`` between the
        tensors of a device may have been written; tensors of main memory are in place afterwards.
    """
    # Copied now: the next step changes them.
    here = [(begin, one.detach().clone()) for begin, one in pieces if one.is_cpu]
    there = [(begin, one.detach()) for begin, one in pieces if not one.is_cpu]
    wait = _from_device(target, there) if there else _nothing

    def end() -> None:
        wait()
        _put(target, here)

    return end


def _from_device(target: Tensor, pieces: Pieces) -> Callable[[], None]:
    device = pieces[0][1].device
    if device.type != "cuda":
        _put(target, pieces)
        return _nothing
    last = max(begin + one.nbytes for begin, one in pieces)
    try:
        gathered = torch.empty(last, dtype=torch.uint8, device=device)
    except torch.OutOfMemoryError:  # one by one, then, while the device waits
        _put(target, pieces)
        return _nothing
    _put(gathered, pieces)
    stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        target[:last].copy_(gathered, non_blocking=True)
        ended = stream.record_event()
    held = [gathered]

    def wait() -> None:
        ended.synchronize()
        held.clear()

    return wait


@torch.no_grad()  # each thread has a mode of its own
def _put(flat: Tensor, pieces: Pieces) -> None:
    for begin, one in pieces:
        flat[begin : begin + one.nbytes].view(one.dtype).view(one.shape).copy_(one)


def pin_while(owner: object, flat: Tensor) -> None:
    """Pin memory as long as an object lives, if that can be done: copies need no processor then."""
    if flat.nbytes < _PINNED_FROM_BYTES or not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return
    address = flat.data_ptr()
    if int(_cudart().cudaHostRegister(address, flat.nbytes, _PORTABLE)):
        with suppress(RuntimeError):  # CUDA raises its last error at the next call
            torch.zeros(1, device="cuda").add_(1)
        return
    weakref.finalize(owner, _unpin, address).atexit = False


def _unpin(address: int) -> None:
    _cudart().cudaHostUnregister(address)


def _cudart() -> Any:
    return torch.cuda.cudart()  # type: ignore[no-untyped-call]


def _nothing() -> None:
    """Nothing is left to be waited for."""
