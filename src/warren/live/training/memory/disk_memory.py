"""Memory for a model that lies in files, of which a process keeps little in main memory at a time.

*Source.* Harmony, 4.3.3: model data are spilled where all of a job's input data are on disk and
memory is still short.

*What.* A piece is a shared mapping of a file without a name. A tensor in it is like any other: the
kernel reads a page when it is used. As soon as more than a window of such pages is in main memory,
all of them are written back and given up. The loops that go through a model ask for that after each
tensor, and a thread asks for it meanwhile, for code that reads the model elsewhere: a forward pass,
an evaluation, a hash.

*Differs.* Harmony loads the blocks of a subtask before it starts. Here a block comes when it is
used, and the rest of the model need not fit.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from warren.model.errors import InputDataError

WINDOW_BYTES: Final = 1 << 26
"""Bytes of a process's pages in main memory from which they are given up."""
LEAST_BYTES: Final = 1 << 20
"""Bytes of a tensor from which it goes to disk."""
_SEGMENT_BYTES: Final = 1 << 26
"""Bytes of a file that several tensors share."""
_LOOK_S: Final = 0.01
_SYNCED: Final = 7
"""Flags of ``sync_file_range``: wait, write, and wait again."""
_STARTED: Final = 2
_PAGEOUT: Final = 21
"""Advice of ``madvise`` by which the kernel gives clean pages up, since Linux 5.4."""
_LIBC: Final = ctypes.CDLL(None)
_LIBC.sync_file_range.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
_LIBC.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


@dataclass(frozen=True, slots=True)
class _Piece:
    """A mapping of a file; the file is closed when the mapping ends."""

    fd: int
    address: int
    size_bytes: int
    memory: weakref.ref[mmap.mmap]


class DiskMemory:
    """The memory in files of one process.

    Parameters
    ----------
    folder : str
        Where the files are made; they have no name, and end with the process.
    window_bytes : int
        Bytes of pages in main memory from which all are given up.
    least_bytes : int
        Bytes of a tensor from which it goes to disk.
    """

    def __init__(
        self, folder: str, window_bytes: int = WINDOW_BYTES, least_bytes: int = LEAST_BYTES
    ) -> None:
        self._folder = folder
        self._window_bytes = window_bytes
        self._least_bytes = least_bytes
        self._pieces: list[_Piece] = []
        self._segment: mmap.mmap | None = None
        self._used_bytes = 0
        self._lock = threading.Lock()
        self._others_bytes = _file_bytes()
        self._ended = threading.Event()
        # The thread keeps no reference to this object, which so can end.
        look = weakref.WeakMethod(self.breathe)
        thread = threading.Thread(
            target=_watch, args=(look, self._ended), name="model pager", daemon=True
        )
        weakref.finalize(self, self._ended.set)
        thread.start()

    @property
    def total_bytes(self) -> int:
        """Return the bytes of all files that are in use."""
        return sum(one.size_bytes for one in self._pieces if one.memory() is not None)

    def close(self) -> None:
        """End the thread; memory that is in use stays."""
        self._ended.set()

    def fresh(self, size_bytes: int) -> Tensor:
        """Return a flat uint8 tensor of zeros that begins at a page.

        Raises
        ------
        InputDataError
            The disk has no place for it.
        """
        if not size_bytes:
            return torch.empty(0, dtype=torch.uint8)
        begin = self._used_bytes
        if self._segment is None or begin + size_bytes > len(self._segment):
            begin = 0
            self._segment = self._mapped(max(size_bytes, _SEGMENT_BYTES))
        memory = self._segment
        pages = -(-size_bytes // mmap.PAGESIZE)
        self._used_bytes = begin + pages * mmap.PAGESIZE
        return torch.frombuffer(memory, dtype=torch.uint8, count=size_bytes, offset=begin)

    @torch.no_grad()
    def like(self, tensor: Tensor) -> Tensor:
        """Return a copy of a strided tensor, with the strides that it has."""
        spans = zip(tensor.shape, tensor.stride(), strict=True)
        items = 1 + sum((size - 1) * stride for size, stride in spans) if tensor.numel() else 0
        flat = self.fresh(items * tensor.element_size()).view(tensor.dtype)
        found = flat.as_strided(tensor.shape, tensor.stride())
        found.copy_(tensor.detach())
        self.breathe()
        return found

    def worth(self, tensor: Any) -> bool:
        """Tell whether a value is a plain tensor in main memory, and large enough for the disk."""
        if type(tensor) is not Tensor or tensor.layout is not torch.strided or not tensor.is_cpu:
            return False
        odd = tensor.is_quantized or tensor.is_conj() or tensor.is_neg()
        return not odd and tensor.nbytes >= self._least_bytes and not self.holds(tensor)

    def holds(self, tensor: Tensor) -> bool:
        """Tell whether a tensor lies in this memory."""
        at = tensor.data_ptr()
        return any(one.address <= at < one.address + one.size_bytes for one in self._pieces)

    def making(self) -> TorchDispatchMode:
        """Return the context in which tensors that operations make go to disk one by one."""
        return _Making(self)

    def adopt(self, fd: int, memory: mmap.mmap) -> None:
        """Give up the pages of another mapping of a file too; ``fd`` is closed with it."""
        # An array, since memory that may only be read has no address for ctypes.
        address = np.frombuffer(memory, dtype=np.uint8).__array_interface__["data"][0]
        weakref.finalize(memory, os.close, fd)
        with self._lock:
            self._pieces.append(_Piece(fd, address, len(memory), weakref.ref(memory)))

    def breathe(self) -> None:
        """Give all pages up if more than a window of them is in main memory."""
        now_bytes = _file_bytes()
        # The kernel may drop pages of libraries, too: then there is no more room for these.
        self._others_bytes = min(self._others_bytes, now_bytes)
        if now_bytes - self._others_bytes >= self._window_bytes:
            self.give_back()

    def give_back(self) -> None:
        """Write all pages back, and give them up; who uses one again reads it from disk."""
        with self._lock:
            # The mappings stay while their addresses are in use here.
            found = [(one, memory) for one in self._pieces if (memory := one.memory()) is not None]
            self._pieces = [one for one, _ in found]
            for one, _ in found:
                _LIBC.sync_file_range(one.fd, 0, 0, _STARTED)
            for one, _ in found:
                _LIBC.sync_file_range(one.fd, 0, 0, _SYNCED)
                _LIBC.madvise(one.address, one.size_bytes, _PAGEOUT)
                # Pages that the kernel has read ahead are in no mapping yet.
                with suppress(OSError):
                    os.posix_fadvise(one.fd, 0, 0, os.POSIX_FADV_DONTNEED)
            self._others_bytes = _file_bytes()

    def _mapped(self, size_bytes: int) -> mmap.mmap:
        with self.refusing():
            fd, path = tempfile.mkstemp(dir=self._folder)
            try:
                os.unlink(path)
                # A full disk is an error here, and not the end of the process at its first use.
                os.posix_fallocate(fd, 0, size_bytes)
                memory = mmap.mmap(fd, size_bytes)
            except BaseException:
                os.close(fd)
                raise
        self.adopt(fd, memory)
        return memory

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """Name an error of the system inside as one of this memory.

        Raises
        ------
        InputDataError
            The disk has no place, or the system refuses a file.
        """
        try:
            yield
        except OSError as error:
            why = error.strerror
            raise InputDataError(f"its model cannot be written to {self._folder}: {why}") from error


class _Making(TorchDispatchMode):
    """Moves the result of each operation to disk, unless it shares memory with an argument."""

    def __init__(self, disk: DiskMemory) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._disk = disk

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run an operation; return its results, those that are new on disk."""
        given = kwargs or {}
        found = func(*args, **given)
        self._disk.breathe()
        if any(one.alias_info is not None for one in func._schema.returns):
            return found
        taken = {
            one.untyped_storage().data_ptr()
            for one in tree_leaves((args, given))
            if isinstance(one, Tensor)
        }
        return tree_map(lambda one: self._moved(one, taken), found)

    def _moved(self, found: Any, taken: set[int]) -> Any:
        if not self._disk.worth(found) or found.untyped_storage().data_ptr() in taken:
            return found
        return self._disk.like(found)


def _watch(look: weakref.WeakMethod[Callable[[], None]], ended: threading.Event) -> None:
    """Look at the pages again and again, as long as there is memory to look at."""
    while not ended.wait(_LOOK_S):
        if (breathe := look()) is None:
            return
        breathe()
        del breathe


def _file_bytes() -> int:
    """Return the bytes of this process in main memory that belong to files or are shared."""
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[2]) * mmap.PAGESIZE
