"""Ctrl-C, SIGTERM and SIGHUP, taken once: the command stops, cleans up and exits with 130.

The first signal raises ``KeyboardInterrupt`` in the main thread. Later ones are dropped: by then
the command is already cleaning up, and stopping that half-way is what leaves things behind.
"""

from __future__ import annotations

import atexit
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _Taken:
    """What this process has been told; handlers are process-wide, so this is too."""

    came = False
    raised = False
    holds = 0


@contextmanager
def interruptible() -> Iterator[None]:
    """Until the block ends, the first signal raises ``KeyboardInterrupt``."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _Taken.came, _Taken.raised, _Taken.holds = False, False, 0
    atexit.register(_ignore_all)
    # A run under nohup outlives its terminal.
    wanted = [one for one in SIGNALS if one != signal.SIGHUP or _is_heard(one)]
    old = {one: signal.signal(one, _take) for one in wanted}
    try:
        yield
    finally:
        for one, handler in old.items():
            signal.signal(one, handler)


@contextmanager
def held() -> Iterator[None]:
    """A block that a signal does not break: it raises when the block has ended well."""
    _Taken.holds += 1
    try:
        yield
    finally:
        _Taken.holds -= 1
    if not _Taken.holds and _Taken.came and not _Taken.raised:
        _raise()


def raise_if_told() -> None:
    """Raise again what was lost.

    An exception raised by a signal inside a callback or a destructor is dropped by the
    interpreter; whoever comes by often asks here, so that the signal counts nevertheless.
    """
    if _Taken.came:
        _raise()


def _take(_: int, __: FrameType | None) -> None:
    if _Taken.came:
        return
    _Taken.came = True
    if not _Taken.holds:
        _raise()


def _raise() -> None:
    _Taken.raised = True
    raise KeyboardInterrupt


def _is_heard(signum: signal.Signals) -> bool:
    return signal.getsignal(signum) != signal.SIG_IGN


def _ignore_all() -> None:
    """While the interpreter shuts down, a signal would only print a traceback."""
    for one in SIGNALS:
        signal.signal(one, signal.SIG_IGN)
