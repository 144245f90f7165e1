"""Memory that processes of one host share: slots for states and updates."""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import tempfile
from typing import Final

from warren.live.training.tensor_layout import ALIGN_BYTES
from warren.live.transport.message import SharedSlot

_NAME: Final = "warren-arena"


class Arena:
    """``slots`` places of ``slot_bytes`` bytes; all who open ``path`` see the same bytes.

    The memory has no name in any folder, so nothing is left of it when the last process that has
    it open is gone, however it went. ``path`` leads through the process that created it, and is
    good as long as that one has it open.
    """

    def __init__(
        self, fd: int, path: str, slot_bytes: int, slots: int, access: int = mmap.ACCESS_WRITE
    ) -> None:
        self.path, self.slot_bytes, self.slots = path, slot_bytes, slots
        self._serial = os.fstat(fd).st_ino
        self._stride = _stride(slot_bytes)
        self._map: mmap.mmap | None = mmap.mmap(fd, self._stride * slots, access=access)
        self._fd = -1
        self._file = ""
        with contextlib.suppress(OSError, AttributeError):  # a wish, as in ``memory.fresh``
            self._map.madvise(mmap.MADV_HUGEPAGE)

    @staticmethod
    def create(slot_bytes: int, slots: int, folder: str | None = None) -> Arena:
        """New memory, all zero.

        Parameters
        ----------
        folder
            A private one, for systems that refuse memory without a name or a look into
            ``/proc/PID/fd``: the memory is a file there then, if need be until ``close``.

        Raises
        ------
        OSError
            The system refuses, or has no room.
        """
        fd, path = _nameless() or _in_folder(folder)
        try:
            os.ftruncate(fd, _stride(slot_bytes) * slots)
            arena = Arena(fd, path, slot_bytes, slots)
        except BaseException:
            os.close(fd)
            raise
        arena._fd = fd
        arena._file = "" if path.startswith("/proc/") else path
        return arena

    @staticmethod
    def open(spot: SharedSlot, *, read_only: bool = False, relay: bool = False) -> Arena:
        """The memory that another process created, in which ``spot`` is.

        Parameters
        ----------
        read_only
            Writing to it ends this process.
        relay
            Spots of it lead through this process: they are good when its maker is gone.

        Raises
        ------
        OSError
            That process is gone, or has closed it.
        ValueError
            It is other memory, or has another size.
        """
        path, slot_bytes, slots = spot.path, spot.slot_bytes, spot.slots
        fd = os.open(path, (os.O_RDONLY if read_only else os.O_RDWR) | os.O_CLOEXEC)
        try:
            found = os.fstat(fd)
            if found.st_ino != spot.serial:
                raise ValueError(f"{path} is not the memory that is meant")
            if found.st_size != _stride(slot_bytes) * slots:
                what = f"{found.st_size} bytes, not {slots} slots of {slot_bytes}"
                raise ValueError(f"{path} has {what}")
            access = mmap.ACCESS_READ if read_only else mmap.ACCESS_WRITE
            arena = Arena(fd, path, slot_bytes, slots, access)
            if relay and (own := _through_proc(fd)) is not None:
                arena.path, arena._fd, fd = own, fd, -1
            return arena
        finally:
            if fd >= 0:
                os.close(fd)  # the mapping keeps the memory

    def spot(self, index: int) -> SharedSlot:
        """How another process finds a slot."""
        return SharedSlot(self.path, self._serial, self.slot_bytes, self.slots, index)

    def slot(self, index: int) -> memoryview:
        """The bytes of one slot, which may be written; they begin at a multiple of 64."""
        if self._map is None or not 0 <= index < self.slots:
            raise ValueError(f"no slot {index} in an arena of {self.slots}, or it is closed")
        begin = index * self._stride
        return memoryview(self._map)[begin : begin + self.slot_bytes]

    def close(self) -> None:
        """Let go; views that are still held keep the memory until they go too."""
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
    return -(-max(1, slot_bytes) // ALIGN_BYTES) * ALIGN_BYTES


def _nameless() -> tuple[int, str] | None:
    """A file in memory, and the path by which others may open it; None where that is refused."""
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
    """A file without a name if others can open it all the same, else one with a name."""
    if folder is None:
        raise OSError(errno.EPERM, "memory that processes share is refused by this system")
    fd, name = tempfile.mkstemp(prefix=f"{_NAME}-", dir=folder)
    path = _through_proc(fd)
    if path is None:
        return fd, name
    os.unlink(name)
    return fd, path


def _through_proc(fd: int) -> str | None:
    """How another process can open what is open here as ``fd``."""
    path = f"/proc/{os.getpid()}/fd/{fd}"
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC))
    except OSError:
        return None
    return path
