"""Share memory among processes of one host: slots for states and updates."""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import tempfile
from typing import TYPE_CHECKING, Final

from warren.live.transport.message import SharedSlot

if TYPE_CHECKING:
    from warren.live.training.memory.disk_memory import DiskMemory

ALIGN_BYTES: Final = 64
"""Alignment in bytes: some kernels choose their path by it, and torch's allocator gives 64."""
_NAME: Final = "warren-arena"


class Arena:
    """Memory of ``slots`` places of ``slot_bytes`` bytes, shared by all who open ``path``.

    The memory has no name in any folder, so nothing is left of it when the last process that has it
    open is gone, in any way. ``path`` leads through the process that created it, and is valid as
    long as that process has it open.
    """

    def __init__(
        self, fd: int, path: str, slot_bytes: int, slots: int, access: int = mmap.ACCESS_WRITE
    ) -> None:
        self.path = path
        self.slot_bytes = slot_bytes
        self.slots = slots
        # The inode tells whether a path still leads to this memory, and not to later memory.
        self._serial = os.fstat(fd).st_ino
        self._stride = _stride(slot_bytes)
        self._map: mmap.mmap | None = mmap.mmap(fd, self._stride * slots, access=access)
        self._fd = -1
        self._file = ""
        # A request only, as in ``shared_memory.fresh``: not every kernel has large pages.
        with contextlib.suppress(OSError, AttributeError):
            self._map.madvise(mmap.MADV_HUGEPAGE)

    @staticmethod
    def create(
        slot_bytes: int, slots: int, folder: str | None = None, disk: DiskMemory | None = None
    ) -> Arena:
        """Create new memory, all zero.

        Parameters
        ----------
        folder
            A private one, for systems that refuse memory without a name or a look into
            ``/proc/PID/fd``: the memory is a file there then, if need be until ``close``.
        disk
            Gives its pages up: the memory is a file in the folder in any case.

        Raises
        ------
        OSError
            The system refuses, or has no room.
        """
        fd, path = (None if disk else _nameless()) or _in_folder(folder)
        try:
            size_bytes = _stride(slot_bytes) * slots
            if disk is None:
                os.ftruncate(fd, size_bytes)
            else:  # a full disk is an error here, and not at the first use
                os.posix_fallocate(fd, 0, size_bytes)
            arena = Arena(fd, path, slot_bytes, slots)
            arena._give_to(disk, fd)
        except BaseException:
            os.close(fd)
            raise
        arena._fd = fd
        arena._file = "" if path.startswith("/proc/") else path
        return arena

    @staticmethod
    def open(
        spot: SharedSlot,
        *,
        read_only: bool = False,
        relay: bool = False,
        disk: DiskMemory | None = None,
    ) -> Arena:
        """Open the memory that another process created, in which ``spot`` is.

        Parameters
        ----------
        read_only
            Writing to it ends this process.
        relay
            Spots of it lead through this process: they stay valid when its maker is gone.
        disk
            Gives its pages up, where the memory is on disk.

        Raises
        ------
        OSError
            That process is gone, or has closed it.
        ValueError
            It is other memory, or has another size.
        """
        path = spot.path
        slot_bytes = spot.slot_bytes
        slots = spot.slots
        fd = os.open(path, (os.O_RDONLY if read_only else os.O_RDWR) | os.O_CLOEXEC)
        try:
            found = os.fstat(fd)
            if found.st_ino != spot.serial:
                raise ValueError(f"{path} is not the memory that is meant")
            # Mapping more than the file has would end this process at the first touch.
            if found.st_size != _stride(slot_bytes) * slots:
                what = f"{found.st_size} bytes, not {slots} slots of {slot_bytes}"
                raise ValueError(f"{path} has {what}")
            access = mmap.ACCESS_READ if read_only else mmap.ACCESS_WRITE
            arena = Arena(fd, path, slot_bytes, slots, access)
            arena._give_to(disk, fd)
            if relay and (own := _through_proc(fd)) is not None:
                # The arena keeps the descriptor from now on, so it is not closed below.
                arena.path = own
                arena._fd = fd
                fd = -1
            return arena
        finally:
            # The mapping keeps the memory.
            if fd >= 0:
                os.close(fd)

    def _give_to(self, disk: DiskMemory | None, fd: int) -> None:
        """Let pages of this mapping be given up with others of the process."""
        if disk is not None and self._map is not None:
            disk.adopt(os.dup(fd), self._map)

    def spot(self, index: int) -> SharedSlot:
        """Return the description by which another process finds a slot."""
        return SharedSlot(self.path, self._serial, self.slot_bytes, self.slots, index)

    def slot(self, index: int) -> memoryview:
        """Return the bytes of one slot, which may be written; they begin at a multiple of 64."""
        if self._map is None or not 0 <= index < self.slots:
            raise ValueError(f"no slot {index} in an arena of {self.slots}, or it is closed")
        begin = index * self._stride
        return memoryview(self._map)[begin : begin + self.slot_bytes]

    def whole(self) -> memoryview:
        """Return the bytes of all slots, with the gaps between them."""
        if self._map is None:
            raise ValueError("the arena is closed")
        return memoryview(self._map)

    def close(self) -> None:
        """Close the memory; views that are still held keep it until they go too."""
        if self._map is not None:
            with contextlib.suppress(BufferError):
                self._map.close()
            self._map = None
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        if self._file:
            with contextlib.suppress(OSError):
                os.unlink(self._file)
            self._file = ""


def _stride(slot_bytes: int) -> int:
    """Return the bytes from one slot to the next: ``slot_bytes`` rounded up to the alignment.

    Large slots begin at a page: they are pinned for GPUs one by one.
    """
    align = mmap.PAGESIZE if slot_bytes >= mmap.PAGESIZE else ALIGN_BYTES
    # -(-a // b) is a / b rounded up.
    return -(-max(1, slot_bytes) // align) * align


def _nameless() -> tuple[int, str] | None:
    """Make a file in memory; return it with its path for others, or None where that is refused."""
    try:
        fd = os.memfd_create(_NAME, os.MFD_CLOEXEC)
    except (OSError, AttributeError):
        return None
    path = _through_proc(fd)
    if path is None:
        os.close(fd)
        return None
    return fd, path


def _in_folder(folder: str | None) -> tuple[int, str]:
    """Make a file without a name if others can open it all the same, otherwise one with a name."""
    if folder is None:
        raise OSError(errno.EPERM, "memory that processes share is refused by this system")
    fd, name = tempfile.mkstemp(prefix=f"{_NAME}-", dir=folder)
    path = _through_proc(fd)
    if path is None:
        return fd, name
    os.unlink(name)
    return fd, path


def _through_proc(fd: int) -> str | None:
    """Return the path by which another process can open the file open here as ``fd``; or None."""
    path = f"/proc/{os.getpid()}/fd/{fd}"
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC))
    except OSError:
        return None
    return path
