"""The limit of a log: beyond it the middle goes back to the disk, and its two ends stay.

A command writes into the file itself, so no write ever waits for anything. A hole in the file frees
the blocks of the middle and moves no byte: readers of the log keep their places.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Final

BLOCK: Final = 1 << 16
"""Bytes of which both ends of a hole are multiples; a file system frees whole blocks alone."""
_FASTEST: Final = 1e9
"""Most bytes a second that a command is expected to write."""
_LOOK_S: Final = (0.5, 10.0)
"""Shortest and longest time between two looks at the size of a log, in seconds."""
_PUNCH_HOLE: Final = 0x1 | 0x2
"""``FALLOC_FL_KEEP_SIZE`` and ``FALLOC_FL_PUNCH_HOLE``, as in <linux/falloc.h>."""


class LogLimit:
    """Watches the size of a log.

    Parameters
    ----------
    path
        The log.
    limit_bytes
        Most bytes of it on disk; None: no limit.
    say
        Called with a line for the log.

    Attributes
    ----------
    due_s
        Monotonic time of the next look, in seconds.
    """

    def __init__(self, path: str, limit_bytes: int | None, say: Callable[[str], None]) -> None:
        self._path, self._limit, self._say = path, limit_bytes or 0, say
        self._first = max(self._limit // 2 // BLOCK, 1) * BLOCK
        self._end = 0
        self.due_s = float("inf") if limit_bytes is None else time.monotonic() + _LOOK_S[0]

    def look(self, now_s: float) -> None:
        """Cut the middle out of the log if it is too long, and set the time of the next look."""
        try:
            size = os.stat(self._path).st_size
            kept = size - max(0, self._end - self._first)
            if kept > self._limit:
                self._cut((size - self._limit // 2) // BLOCK * BLOCK)
        except FileNotFoundError:
            self.due_s = float("inf")
        except (OSError, AttributeError) as error:
            self.due_s = float("inf")
            self._say(f"the log is longer than its limit and grows on: {error}")
        else:
            shortest, longest = _LOOK_S
            room_s = (self._limit - kept) / _FASTEST
            self.due_s = now_s + min(max(room_s, shortest), longest)

    def finish(self) -> None:
        """Cut a last time, and say at the end of the log what is missing."""
        if self.due_s == float("inf"):
            return
        self.look(time.monotonic())
        if self._end:
            self._say(
                f"this log reached its limit of {self._limit:,} bytes; bytes {self._first:,} to "
                f"{self._end:,} were left out"
            )

    def _cut(self, end: int) -> None:
        """Free the bytes from the first part, or the last cut, up to ``end``."""
        begin = self._end or self._first
        if end <= begin + BLOCK:
            return
        fd = os.open(self._path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            _free(fd, begin, end - begin)
            if not self._end:
                note = f"reached its limit of {self._limit:,} bytes; its middle is left out"
                os.pwrite(fd, f"\nwarren: the log {note}\n".encode(), begin)
            self._end = end
        finally:
            os.close(fd)


def _free(fd: int, offset: int, length: int) -> None:
    """Make a hole in a file; raises OSError where its file system has none."""
    import ctypes  # only here: it would double the memory of a runner

    libc = ctypes.CDLL(None, use_errno=True)
    long = ctypes.c_longlong
    if libc.fallocate(fd, _PUNCH_HOLE, long(offset), long(length)):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
