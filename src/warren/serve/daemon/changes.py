"""Word of changes: what follows the queue waits here, without looking again and again."""

from __future__ import annotations

import asyncio
from typing import Final

PAUSE_S: Final = 0.02
"""Shortest time between two times at which waiting coroutines go on, in seconds."""


class Changes:
    """A count of changes of the queue, and a way to wait for the next one."""

    def __init__(self) -> None:
        self.count = 0
        self._next = asyncio.Event()
        self._waking: asyncio.Handle | None = None
        self._woken_s = float("-inf")

    def note(self) -> None:
        """Count a change; all that wait go on soon."""
        self.count += 1
        if self._waking is None:
            # A busy queue has a thousand changes a second, and a hundred clients that wait.
            loop = asyncio.get_running_loop()
            at_s = max(loop.time(), self._woken_s + PAUSE_S)
            self._waking = loop.call_at(at_s, self._wake)

    async def wait(self, seen: int) -> int:
        """Wait until there are more changes than ``seen``, and return their count."""
        while self.count <= seen:
            await self._next.wait()
        return self.count

    def _wake(self) -> None:
        self._waking = None
        self._woken_s = asyncio.get_running_loop().time()
        self._next.set()
        self._next = asyncio.Event()
