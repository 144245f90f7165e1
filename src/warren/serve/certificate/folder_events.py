"""Changes of a folder as the kernel reports them (inotify), with folders below it."""

from __future__ import annotations

import ctypes
import os
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple

# As in <sys/inotify.h>.
_MODIFY: Final = 0x2
_CLOSE_WRITE: Final = 0x8
_MOVED_FROM: Final = 0x40
_MOVED_TO: Final = 0x80
_CREATE: Final = 0x100
_DELETE: Final = 0x200
_ONLY_FOLDERS: Final = 0x01000000
_IS_FOLDER: Final = 0x40000000
_KINDS: Final = _MODIFY | _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE
_HEAD: Final = struct.Struct("iIII")


class FolderEvent(NamedTuple):
    """One change: when it was read (seconds since the epoch), its kind, the file's name."""

    time: float
    kind: int
    name: str


class FolderEvents:
    """All changes below a folder since this object was made."""

    def __init__(self, folder: Path) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
        self._folders: dict[int, str] = {}
        self._watch(str(folder))

    def _watch(self, folder: str) -> None:
        watch = self._libc.inotify_add_watch(self._fd, os.fsencode(folder), _KINDS | _ONLY_FOLDERS)
        if watch >= 0:  # else the folder has gone again
            self._folders[watch] = folder

    def read(self) -> list[FolderEvent]:
        """Return the changes since the last call, in order."""
        found: list[FolderEvent] = []
        while True:
            try:
                data = os.read(self._fd, 1 << 16)
            except BlockingIOError:
                return found
            found += self._events(data)

    def _events(self, data: bytes) -> Iterator[FolderEvent]:
        now, at = time.time(), 0
        while at < len(data):
            watch, mask, _, length = _HEAD.unpack_from(data, at)
            at += _HEAD.size
            name = os.fsdecode(data[at : at + length].rstrip(b"\0"))
            at += length
            path = f"{self._folders.get(watch, '')}/{name}"
            if mask & _IS_FOLDER and mask & (_CREATE | _MOVED_TO):
                yield from self._new_folder(path, now)
            elif mask & _KINDS and name:
                yield FolderEvent(now, mask & _KINDS, path)

    def _new_folder(self, path: str, now: float) -> Iterator[FolderEvent]:
        """Watch a folder that was made; files may have come before the kernel was asked."""
        self._watch(path)
        yield FolderEvent(now, _CREATE, path)
        for base, folders, names in os.walk(path):
            for folder in folders:
                self._watch(f"{base}/{folder}")
            for name in names:
                yield FolderEvent(now, _CREATE, f"{base}/{name}")

    def __enter__(self) -> FolderEvents:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        os.close(self._fd)
