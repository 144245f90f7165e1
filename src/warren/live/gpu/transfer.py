"""Copy a model to its device piece by piece, while the first layers compute already.

A state is cut into pieces of some megabytes, which follow each other on a stream of their own. A
computation waits, on the device, for the pieces that it reads: a module for its own before its
forward pass, as in PipeSwitch (OSDI'20) and Hare (section 4.1), and every function of torch for
those of its arguments. So a parameter may be read without its module being called.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from warren.live.training.tensor_layout import Layout

PIECE_BYTES: Final = 16 << 20
"""About how large a piece is: copies of less begin more often than they need to."""

_TRIALS: Final = 3
"""Number of trials of each way in which a state may come."""


class Lane(Protocol):
    """A lane that copies pieces and lets computations wait: a stream of CUDA, or a stand-in."""

    def copy(self, targets: Sequence[Tensor], sources: Sequence[Tensor]) -> Sequence[object]:
        """Begin copies, after all work given to the device so far; return handles for ``wait``."""

    def wait(self, copied: object) -> bool:
        """Let later computations wait for a copy; tell whether all later work does.

        False: only computations on another stream of the device wait.
        """

    def synchronize(self) -> None:
        """Wait until all copies to the device have ended."""

    def read(self, source: Tensor) -> Callable[[], Tensor]:
        """Begin to copy a small tensor to main memory; return the function that waits for it."""

    def asked(self) -> object:
        """Return the event that ``bring_out`` waits for: all work given to the device until now."""

    def bring_out(self, target: Tensor, source: Tensor, after: object) -> None:
        """Copy from the device into main memory, and wait until it is there."""


def pieces_of(layout: Layout, piece_bytes: int = PIECE_BYTES) -> list[tuple[int, int]]:
    """Return the byte ranges of a state's pieces, in the order in which they are copied.

    Buffers come first, since a forward pass may need any of them early; then parameters in the
    order of the model. No tensor is in two pieces.
    """
    found: list[tuple[int, int]] = []
    ends = [*(entry.offset for entry in layout.entries[1:]), layout.total_bytes]
    params = len(layout.params)
    begin = 0
    for at, end in enumerate(ends, start=1):
        if end - begin >= piece_bytes or at in (params, len(ends)):
            if end > begin:
                found.append((begin, end))
            begin = end
    of_params = ends[params - 1] if params else 0
    return sorted(found, key=lambda piece: (piece[0] < of_params, piece[0]))


class PipelinedTransfer:
    """Brings states into one flat tensor on a device; computations wait for the pieces they read.

    Parameters
    ----------
    model
        A model whose tensors are views of ``flat``.
    layout
        Its layout.
    flat
        Its memory on the device, shape (total_bytes,), uint8.
    lane
        The lane of the copies.
    piece_bytes
        Approximate size of a piece.
    whole
        Whether states come in one piece in any case.
    """

    def __init__(
        self,
        model: nn.Module,
        layout: Layout,
        flat: Tensor,
        lane: Lane,
        piece_bytes: int | None = None,
        *,
        whole: bool = False,
    ) -> None:
        self.lane, self._size = lane, len(flat)
        self._pieces = pieces_of(layout, piece_bytes or PIECE_BYTES)
        begins = sorted((begin, at) for at, (begin, _) in enumerate(self._pieces))
        self._begins = [begin for begin, _ in begins]
        self._at = [at for _, at in begins]
        # The handle of each piece's copy; None: nothing needs to wait for it.
        self._copied: list[object | None] = [None] * len(self._pieces)
        self._left = 0
        self.rebind(flat)
        self.whole = whole or any(map(_is_compiled, model.modules()))
        """Whether states come in one piece: compiled code hides its reads."""
        for module in model.modules():
            own = [*module.parameters(recurse=False), *module.buffers(recurse=False)]
            read = sorted({at for one in own for at in self._pieces_with(one)})
            if read and not self.whole:
                module.register_forward_pre_hook(partial(self._before, read))

    def rebind(self, flat: Tensor) -> None:
        """Bring states into other memory from now on, of which the model's tensors are views."""
        self._targets = [flat[begin:end] for begin, end in self._pieces]
        # Asked for once: as every function of torch, this would be looked at while pieces come.
        self._address = flat.data_ptr()

    def begin(self, state: Tensor) -> None:
        """Begin to copy a state, shape (total_bytes,), uint8, in main memory."""
        sources = [state[begin:end] for begin, end in self._pieces]
        self._copied = list(self.lane.copy(self._targets, sources))
        self._left = len(self._pieces)
        if self.whole:
            self.end()

    def end(self) -> None:
        """Let later work wait for all pieces that are still on their way."""
        for at in range(len(self._pieces) if self._left else 0):
            self._wait(at)

    def see(self, values: Sequence[Any]) -> None:
        """Let later work wait for the pieces of these tensors; other values are ignored."""
        for value in values:
            if isinstance(value, Tensor):
                self._see(value)
            elif isinstance(value, list | tuple) and self._left:
                self.see(value)

    def watching(self) -> TorchFunctionMode:
        """Return the context in which every function of torch waits for the pieces it reads."""
        return _Watch(self)

    @property
    def left(self) -> int:
        """Number of pieces that nothing has waited for yet."""
        return self._left

    def _before(self, read: Sequence[int], module: nn.Module, args: object) -> None:
        for at in read if self._left else ():
            self._wait(at)

    def _see(self, value: Tensor) -> None:
        try:
            pieces = self._pieces_with(value)
        except RuntimeError:  # it has no memory of its own to look at: it may stand for any
            self.end()
            return
        for at in pieces:
            self._wait(at)

    def _pieces_with(self, value: Tensor) -> Sequence[int]:
        """Return the pieces in which a tensor lies, by their numbers; none if it lies elsewhere."""
        offset = value.data_ptr() - self._address
        if not 0 <= offset < self._size:
            return ()
        first = max(0, bisect_right(self._begins, offset) - 1)
        last = bisect_right(self._begins, offset + max(0, value.nbytes - 1))
        return self._at[first:last]

    def _wait(self, at: int) -> None:
        copied = self._copied[at]
        if copied is not None and self.lane.wait(copied):
            self._copied[at] = None
            self._left -= 1


def whole_is_sooner(
    transfer: PipelinedTransfer,
    trial: Callable[[], object],
    clock: Callable[[], float] = time.perf_counter,
) -> bool:
    """Tell whether a trial of a task ends sooner where its state comes whole than in pieces.

    The shortest of some trials each, in turns: others use the same machine meanwhile.
    """
    taken_s: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(_TRIALS):
        for whole, taken in taken_s.items():
            transfer.whole = whole
            begin = clock()
            trial()
            taken.append(clock() - begin)
    return min(taken_s[True]) <= min(taken_s[False])


class _Watch(TorchFunctionMode):
    """Looks at the arguments of each function of torch as long as pieces are on their way."""

    def __init__(self, transfer: PipelinedTransfer) -> None:
        super().__init__()
        self._transfer = transfer

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if self._transfer.left:
            self._transfer.see(args)
            self._transfer.see(tuple(kwargs.values()) if kwargs else ())
        return func(*args, **(kwargs or {}))


def _is_compiled(module: nn.Module) -> bool:
    if isinstance(module, torch.jit.ScriptModule) or hasattr(module, "_orig_mod"):
        return True
    return getattr(module, "_compiled_call_impl", None) is not None
