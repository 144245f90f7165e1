"""The time limit of user code, and the words for a process that met a limit.

A limit of time holds for one task or one barrier, in real time. The process sets itself an alarm
(``Alarm``); the zygote ends a process that does not react to it (``child_limits.py``).
"""

from __future__ import annotations

import faulthandler
import mmap
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar, Final

OUT_OF_TIME: Final = "killed by SIGALRM"
"""The end of a process that ran into its limit (``linux.how_it_ended``), in words."""

UNHEARD: Final = "killed: past its time limit"
"""The end of a process whose code does not react to its alarm, in words."""

_LEAST_NS: Final = 500_000_000
"""Shortest time in real nanoseconds that a process has for ending by its alarm."""
_MOST_NS: Final = 5_000_000_000
"""Longest time in real nanoseconds that a process has for ending by its alarm."""

OVER_MEMORY: Final = "killed: over its memory limit"
"""The end of a process over its memory limit; the limit follows (``memory_limit``)."""


OVER_LOG: Final = "killed: over its log limit"
"""The end of a process whose job printed too much; the limit follows (``zygote``)."""


class Deadline:
    """The time by which a process's alarm must have ended it, in memory shared with its parent.

    Times are readings of the monotonic clock; 0: no block is running.
    """

    def __init__(self) -> None:
        # Shared and anonymous, so that a fork shares the memory instead of copying it.
        self._at_ns = memoryview(mmap.mmap(-1, mmap.PAGESIZE)).cast("q")

    def begin(self, limit_ns: int) -> None:
        """Begin a block that may take ``limit_ns``, and some more for saying where it was."""
        # As long again as the limit, within bounds; the sum stays within 64 bits.
        grace_ns = min(max(limit_ns, _LEAST_NS), _MOST_NS)
        self._at_ns[0] = min(time.monotonic_ns() + limit_ns + grace_ns, 2**62)

    def end(self) -> None:
        """End the block."""
        self._at_ns[0] = 0

    def missed(self, now_ns: int) -> bool:
        """Return whether the process is past its deadline: it does not react to its alarm."""
        return 0 < self._at_ns[0] < now_ns


class Alarm:
    """Ends this process when a block takes longer than it may; its log then says where it was.

    The kernel's timer and the default action of SIGALRM do it, so that code which never returns
    to the interpreter is ended too. ``deadline`` tells the parent, which ends a process that
    blocks or ignores the signal, or has stopped.
    """

    deadline: ClassVar[Deadline | None] = None

    def __init__(self) -> None:
        # A dump of all stacks goes to the log first; then the default action ends the process.
        faulthandler.enable()
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        faulthandler.register(signal.SIGALRM, all_threads=True, chain=True)

    @contextmanager
    def within(self, limit_ns: int) -> Iterator[None]:
        """Run a block that has ``limit_ns`` of real time."""
        deadline = self.deadline
        if deadline is not None:
            deadline.begin(limit_ns)
        signal.setitimer(signal.ITIMER_REAL, limit_ns / 1e9)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            if deadline is not None:
                deadline.end()


def size_text(size_bytes: int) -> str:
    """Write a size as a user does: 300 MB, 2 GB."""
    unit, name = (10**9, "GB") if size_bytes >= 10**9 else (10**6, "MB")
    return f"{size_bytes / unit:g} {name}"


def over_memory(how: str) -> str:
    """Describe the failure of a job whose process was ``OVER_MEMORY``."""
    return f"was {how} (cluster file, local.memory)"


def over_log(how: str) -> str:
    """Describe the failure of a job whose process was ``OVER_LOG``."""
    return f"was {how} (cluster file, local.log_limit)"


def out_of_time(how: str, limit_ns: int) -> str:
    """Describe the failure of a job whose process its alarm ended, or the zygote after it."""
    unheard = "the place is unknown: it did not react to SIGALRM"
    where = "its log has where" if how == OUT_OF_TIME else unheard
    return f"did not end within its limit of {limit_ns / 1e9:g} s (task_limit); {where}"
