"""What user code may take: real time for one task or barrier, and memory."""

from __future__ import annotations

import faulthandler
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

OUT_OF_TIME: Final = "killed by SIGALRM"
"""How a process ends that ran into its limit (``processes.how_it_ended``)."""


OVER_MEMORY: Final = "killed: over its memory limit"
"""How a process ends that took more than it may; its limit follows (``memory_limit``)."""


class Alarm:
    """Ends this process when a block takes longer than it may; its log then has where it was.

    The kernel's timer and the default action of SIGALRM do it, so that code which never returns
    to the interpreter is ended too.
    """

    def __init__(self) -> None:
        faulthandler.enable()
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        faulthandler.register(signal.SIGALRM, all_threads=True, chain=True)

    @contextmanager
    def within(self, limit_ns: int) -> Iterator[None]:
        """Run a block that has ``limit_ns`` of real time."""
        signal.setitimer(signal.ITIMER_REAL, limit_ns / 1e9)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)


def size_text(size_bytes: int) -> str:
    """As a user writes it: 300 MB, 2 GB."""
    unit, name = (10**9, "GB") if size_bytes >= 10**9 else (10**6, "MB")
    return f"{size_bytes / unit:g} {name}"


def over_memory(how: str) -> str:
    """What to say of a job whose process was ``OVER_MEMORY``."""
    return f"was {how} (cluster file, local.memory)"


def out_of_time(limit_ns: int) -> str:
    """What to say of a job whose process ended by its alarm."""
    return f"did not end within its limit of {limit_ns / 1e9:g} s (task_limit); its log has where"
