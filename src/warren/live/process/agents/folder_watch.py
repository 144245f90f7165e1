"""A watch of a folder, by inotify: it reports each file that is complete there."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

# Flags of <sys/inotify.h>.
_MOVED_TO: Final = 0x80
_NONBLOCK_CLOEXEC: Final = os.O_NONBLOCK | os.O_CLOEXEC
_EVENT: Final = struct.Struct("iIII")
_READ_BYTES: Final = 65536
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


class FolderWatch:
    """Watches one folder for files that are renamed into place.

    Raises
    ------
    OSError
        If the kernel grants no watch.
    """

    def __init__(self, folder: Path) -> None:
        self._fd = _done(_LIBC.inotify_init1(_NONBLOCK_CLOEXEC))
        try:
            _done(_LIBC.inotify_add_watch(self._fd, os.fsencode(folder), _MOVED_TO))
        except OSError:
            os.close(self._fd)
            raise

    def fileno(self) -> int:
        """Return the file descriptor to poll."""
        return self._fd

    def names(self) -> Iterator[str]:
        """Yield the names of the files that were put there since the last call."""
        while True:
            try:
                data = os.read(self._fd, _READ_BYTES)
            except BlockingIOError:
                return
            at = 0
            while at < len(data):
                *_, length = _EVENT.unpack_from(data, at)
                at += _EVENT.size
                yield os.fsdecode(data[at : at + length].rstrip(b"\0"))
                at += length

    def close(self) -> None:
        """Stop watching."""
        os.close(self._fd)


def _done(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
