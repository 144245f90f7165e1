"""Ctrl-C, SIGTERM and SIGHUP, taken once: the command stops, cleans up and exits with 130.

The first signal raises ``KeyboardInterrupt`` in the main thread. Later ones are dropped: by then
the command is already cleaning up, and a clean-up that stops half-way leaves things behind.
"""

from __future__ import annotations

import atexit
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

TYPE_CHECKING = False  # not from typing: each command loads this file, also those of a moment

if TYPE_CHECKING:
    from typing import Final

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _Taken:
    """The signals this process has been sent; handlers are process-wide, so this is too.

    ``came``: a first signal came. ``raised``: it was raised. ``holds``: how many blocks of ``held``
    are open.
    """

    came = False
    raised = False
    holds = 0


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise ``KeyboardInterrupt`` at the first signal, until the block ends."""
    # Python runs handlers in the main thread only, and only there they can be set.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _forget()
    atexit.register(_ignore_all)
    # A run under nohup outlives its terminal.
    wanted = [one for one in SIGNALS if one != signal.SIGHUP or _is_heard(one)]
    old = {one: signal.signal(one, _take) for one in wanted}
    try:
        yield
    finally:
        for one, handler in old.items():
            signal.signal(one, handler)
        # It was for this block: whatever the process runs later was not interrupted.
        _forget()


@contextmanager
def held() -> Iterator[None]:
    """Keep a signal from breaking the block: it is raised when the block has ended well."""
    _Taken.holds += 1
    try:
        yield
    finally:
        _Taken.holds -= 1
    # Not reached when the block raised: that error ends the command already.
    if not _Taken.holds and _Taken.came and not _Taken.raised:
        _raise()


def raise_if_told() -> None:
    """Raise ``KeyboardInterrupt`` again where that of a signal was lost.

    An exception raised by a signal inside a callback or a destructor is dropped by the
    interpreter; whoever comes by often asks here, so that the signal counts nevertheless.
    """
    if _Taken.came:
        _raise()


def was_interrupted() -> bool:
    """Tell whether a signal has been raised in the block of ``interruptible`` that is open."""
    return _Taken.raised


def _take(_: int, __: FrameType | None) -> None:
    """Handle a signal: the first one is raised, now or after ``held``; later ones are dropped."""
    if _Taken.came:
        return
    _Taken.came = True
    if not _Taken.holds:
        _raise()


def _forget() -> None:
    """Note that no signal has come."""
    _Taken.came = False
    _Taken.raised = False
    _Taken.holds = 0


def _raise() -> None:
    _Taken.raised = True
    raise KeyboardInterrupt


def _is_heard(signum: signal.Signals) -> bool:
    """Tell whether the process does not ignore a signal already."""
    return signal.getsignal(signum) != signal.SIG_IGN


def _ignore_all() -> None:
    """Ignore signals while the interpreter shuts down: they would only print a traceback."""
    for one in SIGNALS:
        signal.signal(one, signal.SIG_IGN)
