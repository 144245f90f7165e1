"""The agent's loop: files that are ready, and times that have come, in one thread.

It is a hundred lines instead of ``asyncio``, which would double the memory of an agent, and of each
runner that is forked from it.
"""

from __future__ import annotations

import heapq
import os
import selectors
import signal
import time
from collections.abc import Callable
from itertools import count
from typing import Final

_LONGEST_S: Final = 3600.0
"""Longest wait without a look at the clock, in seconds."""


class Timer:
    """A call that comes later, unless it is cancelled."""

    def __init__(self, call: Callable[[], None]) -> None:
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        """Have the call not come; nothing if it has come."""
        self.call = None


class Loop:
    """Calls what waits for files, times and signals."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._timers: list[tuple[float, int, Timer]] = []
        self._numbers = count()
        self._on_signal: dict[int, Callable[[], None]] = {}
        self._result: int | None = None
        self._wake, write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        self.watch(self._wake, self._signalled)

    def watch(self, fd: int, ready: Callable[[], None], *, write: bool = False) -> None:
        """Call ``ready`` each time when a file can be read; with ``write`` when it can be written.

        A file that is watched already has the new call alone.
        """
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if write else 0)
        if fd in self._selector.get_map():
            self._selector.modify(fd, events, ready)
        else:
            self._selector.register(fd, events, ready)

    def unwatch(self, fd: int) -> None:
        """Watch a file no longer."""
        if fd in self._selector.get_map():
            self._selector.unregister(fd)

    def call_later(self, delay_s: float, call: Callable[[], None]) -> Timer:
        """Call once after ``delay_s`` seconds."""
        timer = Timer(call)
        heapq.heappush(self._timers, (time.monotonic() + delay_s, next(self._numbers), timer))
        return timer

    def on_signal(self, signum: int, call: Callable[[], None]) -> None:
        """Call in the loop after each signal."""
        self._on_signal[signum] = call
        signal.signal(signum, lambda *_: None)

    def run(self) -> int:
        """Run until ``end``, and return its number."""
        while self._result is None:
            for key, _ in self._selector.select(self._wait_s()):
                # What was called before may have closed this file, and opened another one.
                if self._selector.get_map().get(key.fd) == key:
                    key.data()
            self._call_due()
        return self._result

    def end(self, result: int) -> None:
        """Have ``run`` return ``result``."""
        self._result = result

    def _wait_s(self) -> float:
        if self._result is not None:
            return 0
        first = self._timers[0][0] - time.monotonic() if self._timers else _LONGEST_S
        return max(0.0, min(first, _LONGEST_S))

    def _call_due(self) -> None:
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            timer = heapq.heappop(self._timers)[2]
            if timer.call is not None:
                timer.call()

    def _signalled(self) -> None:
        try:
            came = os.read(self._wake, 4096)
        except BlockingIOError:
            return
        for signum in sorted(set(came)):
            if signum in self._on_signal:
                self._on_signal[signum]()
